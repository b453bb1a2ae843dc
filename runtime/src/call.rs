//! Calls of user code: each runs in a task of its own and has a deadline.

use std::{fmt, panic::AssertUnwindSafe};

use futures::{
    FutureExt,
    channel::oneshot,
    future::{AbortHandle, abortable},
};
use plugin_sdk::Mono;

use crate::{Runtime, timeout_at};

/// The reasons for which a call has no output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// The call panicked before it had an output.
    Panicked,
    /// The call did not end before its deadline.
    Late,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked => "it panicked",
            Self::Late => "no answer in time",
        })
    }
}

impl std::error::Error for NoAnswer {}

/// Runs `call` with [`Runtime::spawn_call`] and returns its output, until `deadline`.
///
/// User code may block the thread that polls it. In a task of its own it does not block the caller, whose deadline then
/// holds. At the deadline, or when the returned future is dropped, the call is dropped; a call that blocks its thread
/// goes on until it returns.
///
/// # Errors
/// [`NoAnswer`] if the call panics or does not end in time.
///
/// ```
/// use std::time::Duration;
/// use control_plane_runtime::{NoAnswer, Runtime, TokioRuntime, call};
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let runtime = TokioRuntime::current();
/// let deadline = runtime.now().mono + Duration::from_millis(10);
/// assert_eq!(call(&runtime, deadline, async { 42 }).await, Ok(42));
/// let never = std::future::pending::<u32>();
/// assert_eq!(call(&runtime, deadline, never).await, Err(NoAnswer::Late));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub async fn call<R: Runtime, T: Send + 'static>(
    runtime: &R,
    deadline: Mono,
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, NoAnswer> {
    let (reply, answer) = oneshot::channel();
    let (call, abort) = abortable(AssertUnwindSafe(call).catch_unwind());
    let _abort = AbortOnDrop(abort);
    runtime.spawn_call(Box::pin(async move {
        if let Ok(Ok(output)) = call.await {
            // The caller may not wait any more.
            let _ = reply.send(output);
        }
    }));
    match timeout_at(runtime, deadline, answer).await {
        Some(output) => output.map_err(|_| NoAnswer::Panicked),
        None => Err(NoAnswer::Late),
    }
}

/// Drops a call that is still under way when its caller no longer waits.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        time::Duration,
    };

    use super::*;
    use crate::TokioRuntime;

    #[tokio::test]
    async fn call_that_panics_has_no_answer_and_its_task_ends() {
        let runtime = TokioRuntime::current();
        let deadline = runtime.now().mono + Duration::from_secs(10);
        let panics = async { panic!("on purpose") };
        let answer: Result<(), NoAnswer> = call(&runtime, deadline, panics).await;
        assert_eq!(answer, Err(NoAnswer::Panicked));
    }

    #[tokio::test(start_paused = true)]
    async fn call_is_dropped_when_its_caller_no_longer_waits() {
        let runtime = TokioRuntime::current();
        for late in [true, false] {
            let deadline = runtime.now().mono + Duration::from_secs(1);
            let held = Arc::new(());
            let holds = held.clone();
            let never = async move {
                let _held = holds;
                std::future::pending::<()>().await;
            };
            let answer = call(&runtime, deadline, never);
            match late {
                true => assert_eq!(answer.await, Err(NoAnswer::Late)),
                false => assert_eq!(answer.now_or_never(), None),
            }
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            assert_eq!(Arc::strong_count(&held), 1, "late: {late}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn call_that_blocks_its_thread_is_late() {
        let runtime = TokioRuntime::current();
        let deadline = runtime.now().mono + Duration::from_millis(20);
        let (let_go, wait) = std::sync::mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let blocks = async move { wait.lock().unwrap().recv() };
        let answer = call(&runtime, deadline, blocks).await;
        assert_eq!(answer, Err(NoAnswer::Late));
        drop(let_go);
    }
}
