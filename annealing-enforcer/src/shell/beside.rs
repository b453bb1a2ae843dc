//! The tasks that run beside an ownership.

use futures::future::{AbortHandle, BoxFuture};

/// What becomes of a task beside an ownership when a shutdown begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnShutdown {
    /// It is dropped at once.
    Ends,
    /// It is told, and waited for.
    Drains,
}

/// The tasks beside one ownership, as a shutdown sees them.
#[derive(Default)]
pub(super) struct Beside {
    /// Those that are dropped at once.
    pub(super) stops: Vec<AbortHandle>,
    /// The ends of those that are waited for.
    pub(super) drains: Vec<BoxFuture<'static, ()>>,
}
