//! What every engine is built from: a pure [`Kernel`] in a thin shell, over a [`Runtime`] that hands in time and tasks.

use std::{future::Future, pin::Pin, time::Duration};

use futures::future::BoxFuture;
use plugin_sdk::{Mono, Now};

pub use tokio_runtime::TokioRuntime;

mod tokio_runtime;

/// A decision maker without clock, randomness or IO: what happened goes in, what is to be done comes out.
pub trait Kernel {
    /// What can happen.
    type Event;
    /// What is to be done; reused from step to step.
    type Effects;

    /// Takes one event in and appends what follows from it to `out`.
    fn step(&mut self, now: Now, event: Self::Event, out: &mut Self::Effects);
}

/// Time and tasks, handed in: tokio's, or the simulator's seeded virtual ones.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// Reads both clocks.
    fn now(&self) -> Now;

    /// Completes at `at`.
    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()>;

    /// Runs `task` to its end beside everything else. A panic in it ends the task only.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Completes after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until(self.now().mono + duration)
    }
}

/// Waits for `future` until `deadline`. `None` when the time is up first.
pub async fn timeout_at<R: Runtime, F: Future>(
    runtime: &R,
    deadline: Mono,
    future: F,
) -> Option<F::Output> {
    let future: Pin<&mut F> = std::pin::pin!(future);
    match futures::future::select(future, runtime.sleep_until(deadline)).await {
        futures::future::Either::Left((output, _)) => Some(output),
        futures::future::Either::Right(_) => None,
    }
}
