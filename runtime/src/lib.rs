#![doc = include_str!("../README.md")]

use std::{
    collections::hash_map::RandomState, future::Future, hash::BuildHasher, pin::Pin, time::Duration,
};

use futures::{channel::oneshot, future::BoxFuture};
use plugin_sdk::{Mono, Now};

pub use call::{NoAnswer, call};
pub use outage::Outage;
pub use panic::{Panic, catch_panic, catch_panic_in};
pub use steady::{Steady, StoredWait};
pub use supervised::{Make, Reports, SupervisedTask};
pub use tokio_runtime::TokioRuntime;

mod call;
pub mod claims;
mod outage;
mod panic;
mod steady;
mod supervised;
mod suspended;
mod tokio_runtime;

/// A state machine without clock, randomness or IO. It takes in an event, and returns the effects that the shell
/// performs.
pub trait Kernel {
    /// Type of the events that the kernel takes in.
    type Event;
    /// Collection of the effects for the shell to perform. The shell reuses it from step to step.
    type Effects;

    /// Takes in one event at the time `now` and appends the resulting effects to `out`.
    fn step(&mut self, now: Now, event: Self::Event, out: &mut Self::Effects);
}

/// Provider of time and tasks: tokio, or the simulator with seeded virtual time.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// Reads both clocks. The monotonic clock includes time for which the machine was suspended, because a lease ends
    /// during suspension too.
    fn now(&self) -> Now;

    /// Returns a future that completes at the monotonic time `at`.
    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()>;

    /// Runs `task` concurrently until it ends. A panic in it ends only this task.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Runs `work`, which may block a thread for long, where it holds up no other task. A panic in it ends only this
    /// work. The default, for runtimes without threads such as a simulated one, runs it as one step of a task.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.spawn(Box::pin(async move { work() }));
    }

    /// Runs `call`, a call of user code, concurrently until it ends. It may block its thread: a runtime with several
    /// threads then continues on the others. The default is the same as [`Runtime::spawn`].
    fn spawn_call(&self, call: BoxFuture<'static, ()>) {
        self.spawn(call);
    }

    /// Returns a number that no other call, process or machine returns, except by chance. A simulated runtime derives it from
    /// its seed.
    fn random(&self) -> u64 {
        // The keys of a `RandomState` come from the system's randomness.
        RandomState::new().hash_one(std::process::id())
    }

    /// Returns a future that completes after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until(self.now().mono + duration)
    }
}

/// Waits for `future` until `deadline`. Returns `None` if the deadline passes first; the future is then dropped.
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

/// Runs `work` with [`Runtime::spawn_blocking`] and returns its result. `None` means that it panicked. Dropping the
/// returned future does not stop the work.
///
/// ```
/// use control_plane_runtime::{TokioRuntime, blocking};
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
        // If the caller no longer waits, the result is dropped.
        let _ = answer.send(work());
    }));
    answered.await.ok()
}
