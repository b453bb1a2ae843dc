//! What every engine is built from: a pure [`Kernel`] in a thin shell, over a [`Runtime`] that hands in time and tasks.

use std::{future::Future, pin::Pin, time::Duration};

use futures::{channel::oneshot, future::BoxFuture};
use plugin_sdk::{Mono, Now};

pub use tokio_runtime::TokioRuntime;

mod suspended;
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
    /// Reads both clocks. The monotonic one counts the time that the machine was suspended: a lease ends meanwhile.
    fn now(&self) -> Now;

    /// Completes at `at`.
    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()>;

    /// Runs `task` to its end beside everything else. A panic in it ends the task only.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Runs `work`, which may keep a thread busy for long, where it holds up nothing else. A panic in it ends the work
    /// only. A runtime without threads, such as a simulated one, runs it as one step of a task.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.spawn(Box::pin(async move { work() }));
    }

    /// Runs `call`, which is code of a user, to its end beside everything else. It may block its thread: a runtime with
    /// several threads then goes on with the others. Default: as [`Runtime::spawn`].
    fn spawn_call(&self, call: BoxFuture<'static, ()>) {
        self.spawn(call);
    }

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

/// What `work` returns, which [`Runtime::spawn_blocking`] runs. `None` when it panicked. Dropping the future does not
/// end the work.
///
/// ```
/// use plane_runtime::{TokioRuntime, blocking};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let runtime = TokioRuntime::current();
/// let sum = blocking(&runtime, || (1_u64..=1_000).sum::<u64>()).await;
/// assert_eq!(sum, Some(500_500));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub async fn blocking<R: Runtime, T: Send + 'static>(
    runtime: &R,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (answer, answered) = oneshot::channel();
    runtime.spawn_blocking(Box::new(move || {
        // Where it is not waited for any more, its result is dropped.
        let _ = answer.send(work());
    }));
    answered.await.ok()
}
