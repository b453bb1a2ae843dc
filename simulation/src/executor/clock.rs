//! True time, the clocks of the nodes, and timers.

use std::{
    fmt,
    ops::Add,
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll},
    time::Duration,
};

use control_plane_runtime::Runtime;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{Mono, Now};

use super::{Executor, NodeId, locked};
use crate::random::Random;

/// Wall clock time at the beginning of the world: Wednesday, 2026-03-04 12:00 UTC.
const GENESIS: Timestamp = Timestamp::constant(1_772_625_600, 0);

/// A point of true time, in nanoseconds since the world began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The duration from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// The runtime of one node, with its clocks and its tasks.
#[derive(Debug, Clone)]
pub struct NodeRuntime {
    executor: Executor,
    node: NodeId,
}

impl NodeRuntime {
    /// Makes the runtime of a process on `node`.
    pub fn new(executor: Executor, node: NodeId) -> Self {
        Self { executor, node }
    }

    /// The time that a correct wall clock shows at `now`.
    pub fn wall(now: Instant) -> Timestamp {
        let passed = SignedDuration::from_nanos(now.0 as i64);
        GENESIS.checked_add(passed).unwrap_or(GENESIS)
    }
}

impl Runtime for NodeRuntime {
    fn now(&self) -> Now {
        let now = self.executor.now().0;
        let run = locked(&self.executor.0.run);
        let node = run.node(self.node);
        let wrong = SignedDuration::from_nanos(node.wrong);
        Now {
            mono: Mono(node.mono + now),
            wall: Self::wall(node.stopped.unwrap_or(Instant(now)))
                .checked_add(wrong)
                .unwrap_or(GENESIS),
        }
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()> {
        let mono = locked(&self.executor.0.run).node(self.node).mono;
        let at = Instant(at.0.saturating_sub(mono));
        Box::pin(Sleep::new(self.executor.clone(), at))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.executor.spawn(self.node, task);
    }

    fn random(&self) -> u64 {
        let at = self.now().mono.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Random::new(at ^ u64::from(self.node.0)).bits()
    }
}

/// A future that completes at a point of true time.
pub struct Sleep {
    executor: Executor,
    at: Instant,
    timer: Option<u64>,
}

impl Sleep {
    pub(super) fn new(executor: Executor, at: Instant) -> Self {
        Self {
            executor,
            at,
            timer: None,
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.executor.now() >= self.at {
            return Poll::Ready(());
        }
        let core = &self.executor.0;
        let timer = self
            .timer
            .unwrap_or_else(|| core.timers_set.fetch_add(1, Ordering::Relaxed));
        let waker = context.waker().clone();
        let before = locked(&core.timers).insert((self.at.0, timer), waker);
        drop(before);
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            let waker = locked(&self.executor.0.timers).remove(&(self.at.0, timer));
            drop(waker);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sleep").field(&self.at).finish()
    }
}
