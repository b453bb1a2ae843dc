//! Calls that block their threads. A thread cannot be taken back: after the deadline of its call it is counted until
//! the call returns, and a plugin that has lost too many is not called before then.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use prodspec_model::Asset;

use crate::kernel::{Event, TypeNo};

/// Maximum number of threads that one plugin, or all checks together, may block after the deadlines of their calls.
const MOST: u32 = 16;

/// The call is not being polled.
const RESTS: u8 = 0;
/// The call is being polled.
const POLLED: u8 = 1;
/// The call is being polled, and its deadline has passed since.
const LATE: u8 = 2;

/// Number of threads that the calls of each plugin block after their deadlines; `None` stands for the checks.
#[derive(Debug, Default)]
pub(crate) struct Blocked(BTreeMap<Option<TypeNo>, Arc<AtomicU32>>);

impl Blocked {
    /// Why the plugin is not called now, if too many of its calls block their threads; `None` if it may be called.
    pub(super) fn refuses(&self, plugin: Option<TypeNo>) -> Option<String> {
        let late = self.0.get(&plugin)?.load(Ordering::SeqCst);
        (late >= MOST).then(|| {
            format!(
                "not called: {late} earlier calls still block their threads after their deadlines; make the plugin \
                 asynchronous or give its calls time-outs, then restart the process"
            )
        })
    }

    /// Returns the state to watch one more call with.
    pub(super) fn watch(&mut self, call: Named) -> Blocks {
        let late = self.0.entry(call.plugin).or_default().clone();
        let state = Arc::new(AtomicU8::new(RESTS));
        Blocks { state, late, call }
    }
}

/// The name of a call: its plugin, its kind and its asset.
#[derive(Debug, Clone)]
pub(super) struct Named {
    /// The plugin; `None` stands for the checks.
    pub(super) plugin: Option<TypeNo>,
    pub(super) call: &'static str,
    pub(super) asset: Asset,
}

impl Named {
    pub(super) fn of(plugin: Option<TypeNo>, call: &'static str, asset: &Asset) -> Self {
        let asset = asset.clone();
        Self {
            plugin,
            call,
            asset,
        }
    }
}

/// Whether one call blocks its thread. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    state: Arc<AtomicU8>,
    late: Arc<AtomicU32>,
    call: Named,
}

impl Blocks {
    /// Notes that the call's deadline has passed. If its thread is in the call, the thread is lost until the call
    /// returns.
    pub(super) fn past_deadline(&self) {
        self.late.fetch_add(1, Ordering::SeqCst);
        let late = self
            .state
            .compare_exchange(POLLED, LATE, Ordering::SeqCst, Ordering::SeqCst);
        match late {
            Ok(_) => {
                let (call, asset) = (self.call.call, self.call.asset.id_str());
                tracing::warn!(
                    call,
                    asset,
                    "a plugin call still blocks its thread after its deadline; the thread is lost until the call returns"
                );
            }
            Err(_) => drop(self.late.fetch_sub(1, Ordering::SeqCst)),
        }
    }
}

/// A call that notes when it is being polled.
pub(super) struct Watched {
    call: BoxFuture<'static, Event>,
    blocks: Blocks,
}

impl Watched {
    pub(super) fn new(call: BoxFuture<'static, Event>, blocks: Blocks) -> Self {
        Self { call, blocks }
    }
}

impl Future for Watched {
    type Output = Event;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        self.blocks.state.store(POLLED, Ordering::SeqCst);
        let polled = self.call.as_mut().poll(context);
        if self.blocks.state.swap(RESTS, Ordering::SeqCst) == LATE {
            self.blocks.late.fetch_sub(1, Ordering::SeqCst);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use plugin_sdk::testing;

    use super::*;

    fn watch(blocked: &mut Blocked, plugin: Option<TypeNo>) -> Blocks {
        let asset = testing::asset("a");
        blocked.watch(Named::of(plugin, "diff", &asset))
    }

    /// A call whose thread is inside of it when its deadline passes.
    fn late(blocked: &mut Blocked, plugin: Option<TypeNo>) -> Blocks {
        let call = watch(blocked, plugin);
        call.state.store(POLLED, Ordering::SeqCst);
        call.past_deadline();
        call
    }

    #[test]
    fn plugin_that_blocks_sixteen_threads_is_not_called() {
        let (mut blocked, plugin) = (Blocked::default(), Some(TypeNo::from_index(0)));
        for _ in 1..MOST {
            late(&mut blocked, plugin);
        }
        assert_eq!(blocked.refuses(plugin), None);
        let last = late(&mut blocked, plugin);
        let why = blocked.refuses(plugin).unwrap();
        assert!(why.contains("16 earlier calls"), "{why}");
        assert_eq!(blocked.refuses(None), None, "the checks are not concerned");
        drop(last);
        assert!(blocked.refuses(plugin).is_some(), "it has not returned");
    }

    /// The deadline passes while the call is polled, as another thread would see it.
    #[test]
    fn late_call_that_returns_gives_its_thread_back() {
        let (mut blocked, plugin) = (Blocked::default(), None);
        for _ in 1..MOST {
            late(&mut blocked, plugin);
        }
        let last = watch(&mut blocked, plugin);
        let seen = last.clone();
        let late = blocked.0[&plugin].clone();
        let call = std::future::poll_fn(move |_| {
            seen.past_deadline();
            assert_eq!(late.load(Ordering::SeqCst), MOST);
            Poll::<Event>::Pending
        });
        let mut call = Watched::new(Box::pin(call), last);
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut call).poll(&mut context).is_pending());
        assert_eq!(blocked.refuses(plugin), None);
    }

    #[test]
    fn late_call_that_rests_blocks_no_thread() {
        let (mut blocked, plugin) = (Blocked::default(), None);
        for _ in 0..MOST {
            watch(&mut blocked, plugin).past_deadline();
        }
        assert_eq!(blocked.refuses(plugin), None);
    }
}
