//! The configuration of the enforcer, with its defaults. All durations are measured on the injected clock.

use std::time::Duration;

use plugin_sdk::{CheckName, Guard};
use prodspec_model::TypeName;

/// Configuration for the enforcement of one partition.
///
/// ```
/// use std::time::Duration;
///
/// let config = annealing_enforcer::Config::default().drift_period(Duration::from_secs(60)).observe_only(true);
/// assert!(config.observe_only);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Time within which every asset is diffed at least once, even if nothing changed. Default 5 min.
    pub drift_period: Duration,
    /// Maximum age of evidence when a push is admitted. Default 60 s.
    pub evidence_age: Duration,
    /// Time for which checks may share one observation of a neighbour. Default 5 s.
    pub observation_ttl: Duration,
    /// Deadline of one run of the whole check stack. Default 30 s.
    pub check_deadline: Duration,
    /// Upper bound of the wait after the first transient failure; it doubles with each further one. Default 1 s.
    pub backoff_base: Duration,
    /// Upper bound of the wait after any transient failure. Default 5 min.
    pub backoff_cap: Duration,
    /// Maximum wait that a throttling provider may ask for. After a throttled push, only pushes wait and diffs go on.
    /// After a throttled diff, the diffs wait too, longer than the drift period if the provider asks for it. Default 6
    /// h.
    pub throttle_cap: Duration,
    /// Number of distinct failing assets at which the circuit breaker of a plugin opens. Assets whose previous call
    /// failed too do not count. The failing assets must also be at least half of all assets whose calls ended within
    /// the last 30 to 60 s. Default 10.
    pub breaker_failures: u32,
    /// Time until an open breaker sends its first probe. It doubles after each failed probe, up to `backoff_cap`.
    /// Default 5 s.
    pub breaker_wait: Duration,
    /// Time for which a shutdown waits for pushes under way to end and to be recorded, before ownership is given up. No
    /// new push starts meanwhile. Default 30 s.
    pub drain: Duration,
    /// `true`: diff all assets of the partition and never push, as the first step of onboarding. Default `false`.
    pub observe_only: bool,
    /// Names of all checks in the stack, sorted. An override that names another check is refused. The builder of the
    /// enforcer fills this in.
    pub checks: Vec<CheckName>,
    /// Seed of the jitter. Two enforcers with the same seed and the same events behave the same. Default 0.
    pub seed: u64,
    /// The guard to leave out, for tests that show that each guard is needed. Default none.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::bug::Bug>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            drift_period: Duration::from_secs(300),
            evidence_age: Duration::from_secs(60),
            observation_ttl: Duration::from_secs(5),
            check_deadline: Duration::from_secs(30),
            backoff_base: Duration::from_secs(1),
            backoff_cap: Duration::from_secs(300),
            throttle_cap: Duration::from_secs(6 * 3600),
            breaker_failures: 10,
            breaker_wait: Duration::from_secs(5),
            drain: Duration::from_secs(30),
            observe_only: false,
            checks: Vec::new(),
            seed: 0,
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }
}

/// Setters: each sets the field of its name. There is none for `checks`, which the builder of the enforcer fills in.
impl Config {
    plugin_sdk::setters! {
        /// Sets the time within which every asset is diffed at least once.
        drift_period: Duration,
        /// Sets the maximum age of evidence when a push is admitted.
        evidence_age: Duration,
        /// Sets the time for which checks may share one observation.
        observation_ttl: Duration,
        /// Sets the deadline of one run of the whole check stack.
        check_deadline: Duration,
        /// Sets the upper bound of the wait after the first transient failure.
        backoff_base: Duration,
        /// Sets the upper bound of the wait after any transient failure.
        backoff_cap: Duration,
        /// Sets the maximum wait that a throttling provider may ask for.
        throttle_cap: Duration,
        /// Sets the number of failing assets at which a breaker opens.
        breaker_failures: u32,
        /// Sets the time until an open breaker sends its first probe.
        breaker_wait: Duration,
        /// Sets the time for which a shutdown waits for pushes under way.
        drain: Duration,
        /// Sets whether assets are diffed and never pushed.
        observe_only: bool,
        /// Sets the seed of the jitter of all waits.
        seed: u64,
        /// Sets the guard to leave out, for tests.
        #[cfg(feature = "planted-bugs")]
        planted: Option<crate::bug::Bug>,
    }
}

/// Configuration for the enforcement of one type of assets.
///
/// ```
/// use annealing_enforcer::TypeConfig;
/// use plugin_sdk::Guard;
///
/// let name = prodspec_model::TypeName::new("jobs.v1.Job")?;
/// let config = TypeConfig::new(name).guard(Guard::Guarded).diffs(1);
/// assert_eq!((config.diffs, config.pushes), (1, 256));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TypeConfig {
    /// Name of the type of assets.
    pub name: TypeName,
    /// Whether the provider refuses calls of former owners by their fencing token (guarded) or not (advisory). Default
    /// advisory.
    pub guard: Guard,
    /// `true`: the plugin can turn assets of the type down. Default `false`.
    pub turndown: bool,
    /// `true`: the plugin renames resources of the type: its diffs of an asset with the `Moved` addon also look under the
    /// old id, and its pushes leave nothing there. Default `false`: a renamed asset is a new one, and an orphan.
    pub renames: bool,
    /// `true`: diff assets of this type and never push them. Default `false`.
    pub observe_only: bool,
    /// `true`: the plugin answers from memory, without waiting and without blocking its thread. Its calls then run
    /// inside the enforcer's loop and cost no task. A plugin that declares this and blocks nevertheless stops the loop,
    /// and with it the heartbeat of the partition. A diff that is not ready at once is called a second time, outside of
    /// the loop. Default `false`: calls run outside the loop.
    pub in_memory: bool,
    /// Maximum number of concurrent diffs. Default 256.
    pub diffs: u32,
    /// Maximum number of concurrent pushes. Default 256.
    pub pushes: u32,
    /// Deadline of one diff. Default 30 s.
    pub diff_deadline: Duration,
    /// Deadline of one call of push. That of the first call counts from the admission, and the call begins only while
    /// more than half of the time is left. Default 10 min.
    pub push_deadline: Duration,
    /// Deadline of a push with all its follow-ups. Default 1 h.
    pub push_total: Duration,
}

impl TypeConfig {
    /// Returns the default configuration for the type `name`.
    pub fn new(name: TypeName) -> Self {
        Self {
            name,
            guard: Guard::Advisory,
            turndown: false,
            renames: false,
            observe_only: false,
            in_memory: false,
            diffs: 256,
            pushes: 256,
            diff_deadline: Duration::from_secs(30),
            push_deadline: Duration::from_secs(600),
            push_total: Duration::from_secs(3600),
        }
    }

    plugin_sdk::setters! {
        /// Sets whether the provider refuses calls of former owners.
        guard: Guard,
        /// Sets whether the plugin can turn assets of the type down.
        turndown: bool,
        /// Sets whether the plugin renames resources.
        renames: bool,
        /// Sets whether assets of this type are diffed and never pushed.
        observe_only: bool,
        /// Sets whether the plugin answers from memory.
        in_memory: bool,
        /// Sets the maximum number of concurrent diffs.
        diffs: u32,
        /// Sets the maximum number of concurrent pushes.
        pushes: u32,
        /// Sets the deadline of one diff.
        diff_deadline: Duration,
        /// Sets the deadline of one call of push.
        push_deadline: Duration,
        /// Sets the deadline of a push with all its follow-ups.
        push_total: Duration,
    }
}
