//! The real one: tokio's timers and tasks, the machine's clocks.
//!
//! Tokio's clock stands still while the machine is suspended. What it slept through is added to the monotonic time, so
//! that a lease that ended meanwhile is seen to have ended before anything is started under it.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use plugin_sdk::{Mono, Now};
use tokio::{runtime::RuntimeFlavor, time::Instant};

use crate::{
    Runtime,
    suspended::{Suspended, of_the_machine},
};

/// Timers stand still with tokio's clock. After so long at most a sleep looks whether its time has come.
const LOOK: Duration = Duration::from_secs(15);

/// [`Runtime`] on the tokio runtime it was made in.
#[derive(Debug, Clone)]
pub struct TokioRuntime {
    start: Instant,
    suspended: Suspended,
    handle: tokio::runtime::Handle,
}

impl TokioRuntime {
    /// The runtime of the caller.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that reads the machine's clocks"
    )]
    pub fn current() -> Self {
        Self {
            start: Instant::now(),
            suspended: Suspended::since_now(of_the_machine()),
            handle: tokio::runtime::Handle::current(),
        }
    }
}

impl Runtime for TokioRuntime {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that reads the machine's clocks"
    )]
    fn now(&self) -> Now {
        let mono = (self.start.elapsed() + self.suspended.read()).as_nanos();
        Now {
            mono: Mono(u64::try_from(mono).unwrap_or(u64::MAX)),
            wall: jiff::Timestamp::now(),
        }
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()> {
        let (start, suspended) = (self.start, self.suspended.clone());
        Box::pin(async move {
            loop {
                let due = start + Duration::from_nanos(at.0).saturating_sub(suspended.read());
                let soon = Instant::now() + LOOK;
                tokio::time::sleep_until(due.min(soon)).await;
                if due <= soon {
                    return;
                }
            }
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.handle.spawn(task);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.handle.spawn_blocking(work);
    }

    /// On a multi-thread runtime, a call that blocks keeps its thread and nothing else: what that thread would have done
    /// goes to another one of the blocking pool. On a runtime of one thread it stops everything.
    fn spawn_call(&self, call: BoxFuture<'static, ()>) {
        match self.handle.runtime_flavor() {
            RuntimeFlavor::MultiThread => drop(self.handle.spawn(MayBlock(call))),
            _ => drop(self.handle.spawn(call)),
        }
    }
}

/// Tells tokio before each poll that it may block.
struct MayBlock(BoxFuture<'static, ()>);

impl Future for MayBlock {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        tokio::task::block_in_place(|| self.0.as_mut().poll(context))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use super::*;

    /// A runtime on a machine that was suspended for as many seconds as the counter says.
    fn machine() -> (TokioRuntime, Arc<AtomicU64>) {
        let slept = Arc::new(AtomicU64::new(1_000));
        let counter = slept.clone();
        let mut runtime = TokioRuntime::current();
        runtime.suspended = Suspended::since_now(Arc::new(move || {
            let slept = Duration::from_secs(counter.load(Ordering::Relaxed));
            [slept, Duration::ZERO]
        }));
        (runtime, slept)
    }

    #[tokio::test(start_paused = true)]
    async fn s5_monotonic_time_counts_what_the_machine_slept_through() {
        let (runtime, slept) = machine();
        let before = runtime.now().mono;
        assert_eq!(before, Mono(0), "what was before the start is not counted");
        slept.fetch_add(60, Ordering::Relaxed);
        assert_eq!(runtime.now().mono, before + Duration::from_secs(60));
        slept.fetch_sub(60, Ordering::Relaxed);
        let after = runtime.now().mono;
        assert_eq!(
            after,
            before + Duration::from_secs(60),
            "it never goes back"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_soon_after_the_machine_slept_through_its_time() {
        let (runtime, slept) = machine();
        let (begun, at) = (
            Instant::now(),
            runtime.now().mono + Duration::from_secs(3_600),
        );
        let sleep = runtime.sleep_until(at);
        let wakes = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            slept.fetch_add(7_200, Ordering::Relaxed);
        };
        futures::join!(sleep, wakes);
        assert!(runtime.now().mono >= at);
        assert!(begun.elapsed() <= LOOK + Duration::from_secs(1));
        let (begun, at) = (
            Instant::now(),
            runtime.now().mono + Duration::from_secs(100),
        );
        runtime.sleep_until(at).await;
        assert_eq!(
            begun.elapsed(),
            Duration::from_secs(100),
            "and otherwise in time"
        );
    }

    #[tokio::test]
    async fn the_machines_own_clocks_count_nothing_while_it_is_awake() {
        let suspended = Suspended::since_now(of_the_machine());
        for _ in 0..1_000 {
            assert_eq!(suspended.read(), Duration::ZERO);
        }
    }
}
