//! The real one: tokio's timers and tasks, the machine's clocks.

use std::time::Duration;

use futures::future::BoxFuture;
use plugin_sdk::{Mono, Now};
use tokio::time::Instant;

use crate::Runtime;

/// [`Runtime`] on the tokio runtime it was made in.
#[derive(Debug, Clone)]
pub struct TokioRuntime {
    start: Instant,
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
        let mono = self.start.elapsed().as_nanos();
        Now {
            mono: Mono(u64::try_from(mono).unwrap_or(u64::MAX)),
            wall: jiff::Timestamp::now(),
        }
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(
            self.start + Duration::from_nanos(at.0),
        ))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.handle.spawn(task);
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.handle.spawn_blocking(work);
    }
}
