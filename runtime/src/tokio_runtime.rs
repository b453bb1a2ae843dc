//! The [`Runtime`] of production: tokio's timers and tasks, and the clocks of the machine.
//!
//! Tokio's clock stops while the machine is suspended. The suspended time is added to the monotonic time, so that a
//! lease that ended during suspension is known to have ended before any work starts under it.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use plugin_sdk::{Mono, Now};
use tokio::{runtime::RuntimeFlavor, time::Instant};
use tracing::{Instrument, Span};

use crate::{
    Runtime,
    suspended::{Suspended, of_the_machine},
};

/// Longest wait before a sleep checks the time again, because timers stop with tokio's clock during suspension.
const LOOK: Duration = Duration::from_secs(15);

/// A [`Runtime`] on the tokio runtime in which it was created.
#[derive(Debug, Clone)]
pub struct TokioRuntime {
    start: Instant,
    suspended: Suspended,
    handle: tokio::runtime::Handle,
}

impl TokioRuntime {
    /// Creates a handle to the tokio runtime of the caller. Monotonic time starts at zero here.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
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

    /// The task runs in the span of the caller, like all other work that this runtime spawns.
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.handle.spawn(task.in_current_span());
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        let span = Span::current();
        self.handle.spawn_blocking(move || span.in_scope(work));
    }

    /// On a multi-thread runtime, a call that blocks occupies only its own thread: tokio moves other tasks of that
    /// thread to another one. On a single-thread runtime, a call that blocks stops everything.
    fn spawn_call(&self, call: BoxFuture<'static, ()>) {
        match self.handle.runtime_flavor() {
            RuntimeFlavor::MultiThread => {
                drop(self.handle.spawn(MayBlock(call).in_current_span()));
            }
            _ => drop(self.handle.spawn(call.in_current_span())),
        }
    }
}

/// A future that tells tokio before each poll that the poll may block.
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

    /// A runtime on a machine that was suspended for the number of seconds in the counter.
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
    async fn s5_monotonic_time_includes_suspended_time() {
        let (runtime, slept) = machine();
        let before = runtime.now().mono;
        assert_eq!(
            before,
            Mono(0),
            "suspension before the start is not counted"
        );
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
    async fn a_sleep_whose_time_passed_during_suspension_ends_soon_after() {
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
            "a sleep without suspension ends in time"
        );
    }

    #[tokio::test]
    async fn a_running_machine_counts_no_suspended_time() {
        let suspended = Suspended::since_now(of_the_machine());
        for _ in 0..1_000 {
            assert_eq!(suspended.read(), Duration::ZERO);
        }
    }
}
