//! Every number the enforcer goes by, with its default. All durations are measured on the injected clock.

use std::time::Duration;

use plugin_sdk::{CheckName, Guard};
use prodspec_model::TypeName;

/// How one partition is enforced.
#[derive(Debug, Clone)]
pub struct Config {
    /// Every asset is looked at once in this time though nothing changed. Default 5 min.
    pub drift_period: Duration,
    /// No evidence may be older when a push is admitted. Default 60 s.
    pub evidence_age: Duration,
    /// How long an observation of a neighbour may be shared among checks. Default 5 s.
    pub observation_ttl: Duration,
    /// The deadline of one run of the check stack. Default 30 s.
    pub check_deadline: Duration,
    /// The first wait after a transient failure. Default 1 s.
    pub backoff_base: Duration,
    /// The longest wait after a transient failure. Default 5 min.
    pub backoff_cap: Duration,
    /// The longest wait that a provider may ask for by throttling: a push waits while diffs go on, a diff waits itself,
    /// longer than the drift period if so told. Default 6 h.
    pub throttle_cap: Duration,
    /// A plugin's circuit breaker opens when the calls of at least so many distinct assets fail that were not known to
    /// fail before, and these are at least half of those that ended within the last minute. Default 10.
    pub breaker_failures: u32,
    /// How long an open breaker waits before it probes; doubles up to `backoff_cap`. Default 5 s.
    pub breaker_wait: Duration,
    /// When the enforcer is shut down, nothing new starts, and pushes under way have so long to end and to be recorded
    /// before ownership is given up. Default 30 s.
    pub drain: Duration,
    /// Diff, never push: the first step of onboarding. Default off.
    pub observe_only: bool,
    /// The names of the checks in the stack, sorted: an override that names another check is refused. Filled in when the
    /// enforcer is built.
    pub checks: Vec<CheckName>,
    /// Seeds the jitter. Two enforcers with one seed and the same events do the same.
    pub seed: u64,
    /// The guard to leave out, for tests that show that each guard is needed.
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<crate::kernel::Bug>,
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

/// How one type of asset is enforced.
#[derive(Debug, Clone)]
pub struct TypeConfig {
    /// The type.
    pub name: TypeName,
    /// How well the provider keeps old calls out. Default advisory.
    pub guard: Guard,
    /// Whether the plugin can turn assets of the type down. Default no.
    pub turndown: bool,
    /// Diff, never push. Default off.
    pub observe_only: bool,
    /// The plugin answers from memory, without waiting and without blocking its thread: its calls run in place, in the
    /// enforcer's loop, and cost no task. A plugin that declares this and blocks all the same stops the loop, and with it
    /// the partition's heartbeat. Default off: calls run beside the loop.
    pub in_memory: bool,
    /// Diffs at once. Default 256.
    pub diffs: u32,
    /// Pushes at once. Default 256.
    pub pushes: u32,
    /// The deadline of one diff. Default 30 s.
    pub diff_deadline: Duration,
    /// The deadline of one call of push, from its admission; a call begins only while half of it is left. Default 10 min.
    pub push_deadline: Duration,
    /// The deadline of a push with all its follow-ups. Default 1 h.
    pub push_total: Duration,
}

impl TypeConfig {
    /// The defaults for `name`.
    pub fn new(name: TypeName) -> Self {
        Self {
            name,
            guard: Guard::Advisory,
            turndown: false,
            observe_only: false,
            in_memory: false,
            diffs: 256,
            pushes: 256,
            diff_deadline: Duration::from_secs(30),
            push_deadline: Duration::from_secs(600),
            push_total: Duration::from_secs(3600),
        }
    }
}
