//! Requests for functions and dispatch rules, and a fake callee of functions.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use jiff::SignedDuration;

use super::nouns::{NOW, incarnation};
use crate::{
    DispatchRequest, FencingToken, Mono, Now, OperationFunction, Probe,
    error::PluginError,
    operation::{
        Answer, EffectKey, ExecutionId, Fence, FunctionInfo, FunctionRequest, Probed, Ran, Repeat,
        StartCause,
    },
    push::Guard,
};

/// Makes a request for the first run of the step `step` of `season-0000000001` at `test@1`, at [`NOW`], without input. Set
/// the fields for more.
pub fn function_request() -> FunctionRequest {
    let key = EffectKey::new(ExecutionId::new("season", 1), "step", 1);
    let fence = Fence::new(FencingToken(2), 1);
    let intent = incarnation(1, []).id().clone();
    FunctionRequest::new(key, fence, intent, NOW, NOW + SignedDuration::from_secs(60))
}

/// Makes a request for the start of `season-0000000001`, which a command asked for, at [`NOW`].
pub fn dispatch_request() -> DispatchRequest {
    let now = Now {
        mono: Mono(0),
        wall: NOW,
    };
    DispatchRequest::start(ExecutionId::new("season", 1), StartCause::Command, now)
}

/// A function with effects in memory. It is keyed and guarded: it makes the effect of a key once and refuses smaller
/// fences. It is its own probe. Clones share the effects.
///
/// ```
/// use plugin_sdk::{OperationFunction, testing::{self, InMemoryEffects}};
///
/// # futures::executor::block_on(async {
/// let press = InMemoryEffects::new("print-posters");
/// let request = testing::function_request();
/// press.run(request.clone()).await?;
/// press.run(request.clone()).await?;
/// assert_eq!(press.effects(&request.key), 1);
/// # Ok::<(), plugin_sdk::plugin::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct InMemoryEffects {
    name: Arc<str>,
    seen: Arc<Mutex<BTreeMap<EffectKey, Seen>>>,
}

/// What the callee remembers of the effect of one key.
#[derive(Debug, Clone)]
struct Seen {
    fence: Fence,
    answer: Answer,
}

impl InMemoryEffects {
    /// Makes a function named `name` without effects so far.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            seen: Arc::default(),
        }
    }

    /// Number of effects with this key: 0 or 1.
    pub fn effects(&self, key: &EffectKey) -> u64 {
        u64::from(self.seen().contains_key(key))
    }

    /// The keys of all effects, sorted.
    pub fn keys(&self) -> Vec<EffectKey> {
        self.seen().keys().cloned().collect()
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<EffectKey, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl OperationFunction for InMemoryEffects {
    fn info(&self) -> FunctionInfo {
        FunctionInfo::new(Arc::clone(&self.name))
            .repeat(Repeat::Keyed)
            .guard(Guard::Guarded)
    }

    async fn run(&self, request: FunctionRequest) -> Result<Ran, PluginError> {
        let mut seen = self.seen();
        if let Some(seen) = seen.get_mut(&request.key) {
            if request.fence < seen.fence {
                let message = format!("attempt {} is older than {}", request.fence, seen.fence);
                return Err(PluginError::fenced_by(message, seen.fence.token));
            }
            seen.fence = request.fence;
            return Ok(seen.answer.clone().done());
        }
        let answer = Answer::new().output(&request.input)?;
        let made = Seen {
            fence: request.fence,
            answer: answer.clone(),
        };
        seen.insert(request.key, made);
        Ok(answer.done())
    }
}

#[async_trait]
impl Probe for InMemoryEffects {
    async fn probe(&self, key: EffectKey) -> Result<Probed, PluginError> {
        Ok(match self.seen().get(&key) {
            Some(seen) => Probed::Happened(seen.answer.clone()),
            None => Probed::NotHappened,
        })
    }
}
