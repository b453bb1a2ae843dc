//! All numbers that the strategist uses, with their defaults. Durations are measured on the injected clock.

use std::time::Duration;

/// Settings for the rollouts of one partition.
///
/// ```
/// use std::time::Duration;
///
/// let config = annealing_strategist::Config::default().select_again(Duration::from_secs(1)).head_lag(8);
/// assert_eq!(config.head_lag, 8);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Interval between two health checks of the updated targets while a rollout is under way. A gate whose bake is over
    /// asks at once, so this does not delay a rollout. Default 30 s.
    pub validate_every: Duration,
    /// Deadline of one health check. A check without an answer by then counts as unknown. Default 30 s.
    pub validate_deadline: Duration,
    /// Deadline of one call of the selection stack. Default 30 s.
    pub select_deadline: Duration,
    /// Wait before the next selection after one that failed. Default 10 s.
    pub select_again: Duration,
    /// Time after which unknown health is flagged to operators. Default 10 min.
    pub unknown_deadline: Duration,
    /// Interval at which the time that a rollout has been watched is stored. After a restart, bakes continue from the
    /// stored time. Default 60 s.
    pub remember_every: Duration,
    /// Maximum number of pins that move in one step of the journal. Default 1000 assets.
    pub max_moves_per_step: usize,
    /// Number of newer incarnations without a change to the group after which the group's head follows them. Default
    /// 32.
    pub head_lag: u32,
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
            max_moves_per_step: 1000,
            head_lag: 32,
        }
    }
}

/// Setters: each sets the field of its name.
impl Config {
    plugin_sdk::setters! {
        /// Sets the interval between two health checks during a rollout.
        validate_every: Duration,
        /// Sets the deadline of one health check.
        validate_deadline: Duration,
        /// Sets the deadline of one call of the selection stack.
        select_deadline: Duration,
        /// Sets the wait before the next selection after one that failed.
        select_again: Duration,
        /// Sets the time after which unknown health is flagged.
        unknown_deadline: Duration,
        /// Sets the interval at which the time watched is stored.
        remember_every: Duration,
        /// Sets the maximum number of pins that move in one step.
        max_moves_per_step: usize,
        /// Sets the number of incarnations after which the head follows.
        head_lag: u32,
    }
}
