//! Every number the strategist goes by, with its default. All durations are measured on the injected clock.

use std::time::Duration;

/// How one partition is rolled out.
#[derive(Debug, Clone)]
pub struct Config {
    /// The updated part's health is looked at this often while a rollout is under way. Default 30 s.
    pub validate_every: Duration,
    /// The deadline of one look at health; what comes later is unknown. Default 30 s.
    pub validate_deadline: Duration,
    /// The deadline of one selection. Default 30 s.
    pub select_deadline: Duration,
    /// The wait after a selection that failed. Default 10 s.
    pub select_again: Duration,
    /// Health that is unknown for so long is flagged for people. Default 10 min.
    pub unknown_deadline: Duration,
    /// How long a rollout was watched is written down this often. A bake that a restart interrupts goes on from there.
    /// Default 60 s.
    pub remember_every: Duration,
    /// How many pins move in one step of the journal. Default 1000.
    pub lot: usize,
    /// A group's head follows after so many incarnations that change nothing of the group. Default 32.
    pub head_lag: u32,
    /// The guard to leave out, for tests that show that each guard is needed.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::kernel::Bug>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            validate_every: Duration::from_secs(30),
            validate_deadline: Duration::from_secs(30),
            select_deadline: Duration::from_secs(30),
            select_again: Duration::from_secs(10),
            unknown_deadline: Duration::from_secs(600),
            remember_every: Duration::from_secs(60),
            lot: 1000,
            head_lag: 32,
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }
}
