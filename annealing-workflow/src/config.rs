//! The numbers that workflows use.

use std::time::Duration;

/// The numbers of a lane. The defaults fit most partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Wait after the first failure; it doubles with each further one. Default: 1 second.
    pub backoff_base: Duration,
    /// Maximum wait after a failure. Default: 5 minutes.
    pub backoff_cap: Duration,
    /// Maximum number of calls of functions at one time. Default: 256.
    pub calls: usize,
    /// Maximum number of live executions. One more is refused. Default: 100,000.
    pub live: usize,
    /// Number of owners in a row that may die while a call is in flight before it is parked. Default: 3.
    pub death_limit: u32,
    /// Maximum number of transitions of an execution; it is paused at the next one. Default: 10,000.
    pub transitions: u32,
    /// Maximum number of executions of a workflow that are kept after their ends. Default: 100.
    pub history: usize,
    /// Time after its end for which an execution is kept at most. Default: 30 days. The newest success and the newest
    /// failure of each workflow are kept in any case.
    pub history_age: Duration,
    /// The guard to leave out, for tests that show that each guard is needed. `None`: all guards are in place.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::bug::Bug>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            backoff_base: Duration::from_secs(1),
            backoff_cap: Duration::from_secs(300),
            calls: 256,
            live: 100_000,
            death_limit: 3,
            transitions: 10_000,
            history: 100,
            history_age: Duration::from_secs(30 * 24 * 3600),
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }
}

#[cfg(feature = "planted-bugs")]
impl Config {
    plugin_sdk::setters! {
        /// Sets the guard to leave out, for tests.
        planted: Option<crate::bug::Bug>,
    }
}
