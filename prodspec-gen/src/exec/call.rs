//! One call of a source: the clock, and whether its caller still waits.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use control_plane_runtime::TokioRuntime;

/// What a call runs with, on a thread for blocking work.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) runtime: TokioRuntime,
    given_up: Arc<AtomicBool>,
}

/// Kept by the caller for as long as it waits. Dropping it gives up the call.
#[derive(Debug)]
pub(super) struct Caller(Arc<AtomicBool>);

impl Call {
    /// A call in the tokio runtime of its caller. Returns what the call and the caller keep.
    pub(super) fn begin() -> (Self, Caller) {
        let given_up = Arc::<AtomicBool>::default();
        let caller = Caller(given_up.clone());
        let runtime = TokioRuntime::current();
        (Self { runtime, given_up }, caller)
    }

    /// Whether the caller no longer waits.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
