//! The stack of rollout policies: the real one, beneath a road on which a question takes its time, gets lost, fails or
//! panics.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use annealing_strategist::policy;
use futures::future::BoxFuture;
use plugin_sdk::{BoxError, SelectRequest, Selection};
#[cfg(feature = "planted-bugs")]
use prodspec_model::rollout::FirstTurnup;
use tower::Service;

use crate::{
    faults::Fault,
    world::{State, World},
};

/// What of a policy is not heeded, in tests of the judge.
#[cfg(feature = "planted-bugs")]
#[derive(Debug, Clone, Copy)]
pub enum Careless {
    /// R18: a hold.
    Hold,
    /// R18: waves.
    Waves,
    /// R18: what is turned up for the first time comes up at once.
    FirstTurnup,
    /// R18: canaries.
    Canary,
    /// R18: the order of domains.
    Domains,
    /// R18: how many may be on their way.
    InFlight,
    /// R18: how many of a domain may be missing.
    Unavailable,
    /// R21: how long what is new has to be well.
    Bakes,
}

/// Asks `inner`, if nothing comes between.
#[derive(Clone)]
struct Road<S> {
    world: World,
    inner: S,
}

/// What happens to a question on its way.
enum Fate {
    Arrives(Option<Duration>),
    Hangs,
    Fails,
    Panics,
}

/// The stack of one process.
pub fn policies(
    world: &World,
) -> impl Service<SelectRequest, Response = Selection, Error = BoxError, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    Road {
        world: world.clone(),
        inner: policy::standard(),
    }
}

impl<S> Service<SelectRequest> for Road<S>
where
    S: Service<SelectRequest, Response = Selection, Error = BoxError, Future: Send>
        + Clone
        + Send
        + 'static,
{
    type Response = Selection;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Selection, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    #[allow(unused_mut, reason = "without planted bugs nothing is changed")]
    fn call(&mut self, mut request: SelectRequest) -> Self::Future {
        #[cfg(feature = "planted-bugs")]
        if let Some(careless) = self.world.state().scenario.careless {
            careless.mislead(&mut request);
        }
        let world = self.world.clone();
        // The one that is ready answers; its copy is for the next question.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let fate = world.state().fate_of_question();
            match fate {
                Fate::Arrives(Some(late)) => world.sleep(late).await,
                Fate::Arrives(None) => {}
                Fate::Hangs => futures::future::pending().await,
                Fate::Fails => return Err("the policies cannot be read".into()),
                // Not `panic!`: the hook would print every one of thousands.
                Fate::Panics => std::panic::resume_unwind(Box::new("a policy panicked")),
            }
            inner.call(request).await
        })
    }
}

impl State {
    fn fate_of_question(&mut self) -> Fate {
        if self.strikes(Fault::SelectHangs) {
            return Fate::Hangs;
        }
        if self.strikes(Fault::SelectFails) {
            return Fate::Fails;
        }
        if self.strikes(Fault::SelectPanics) {
            return Fate::Panics;
        }
        let slow = self.strikes(Fault::SelectSlow);
        let most = Duration::from_secs(8);
        Fate::Arrives(slow.then(|| self.random.between(Duration::from_millis(100), most)))
    }
}

#[cfg(feature = "planted-bugs")]
impl Careless {
    fn mislead(self, request: &mut SelectRequest) {
        let mut policy = (*request.policy).clone();
        match self {
            Self::Hold => policy.hold = None,
            Self::Waves => policy.waves.clear(),
            Self::FirstTurnup => policy.first_turnup = FirstTurnup::AtOnce,
            Self::Canary => policy.canary = None,
            Self::Domains => policy.domains.clear(),
            Self::InFlight => policy.max_in_flight = None,
            Self::Unavailable => policy.max_unavailable = None,
            Self::Bakes => {
                policy.bake_secs = 0;
                policy.waves.iter_mut().for_each(|wave| wave.bake_secs = 0);
                let canary = policy.canary.iter_mut();
                canary.for_each(|canary| canary.bake_secs = 0);
            }
        }
        request.policy = policy.into();
    }
}
