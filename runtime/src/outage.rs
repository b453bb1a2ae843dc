//! Outages of repeated work: one log line when it begins to fail and one when it succeeds again, whatever the number of
//! tries between.

use std::time::Duration;

use plugin_sdk::Mono;

/// Follows work that is repeated until it succeeds.
///
/// ```
/// use std::time::Duration;
/// use control_plane_runtime::Outage;
/// use plugin_sdk::Mono;
///
/// let (mut outage, start) = (Outage::default(), Mono(0));
/// assert!(outage.failed(start), "the first failure is logged");
/// assert!(!outage.failed(start + Duration::from_secs(5)));
/// assert_eq!(outage.over(start + Duration::from_secs(9), "the heartbeat"), Some(Duration::from_secs(9)));
/// assert_eq!(outage.over(start + Duration::from_secs(9), "the heartbeat"), None);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Outage {
    since: Option<Mono>,
}

impl Outage {
    /// Notes that the work failed at `now`. Returns whether it is the first failure since the last success: the caller
    /// logs that one, with the error and what is repeated.
    pub fn failed(&mut self, now: Mono) -> bool {
        self.since.replace(self.since.unwrap_or(now)).is_none()
    }

    /// Notes that the work succeeded at `now`. If it failed before, logs that `what` works again, and returns for how
    /// long it did not.
    pub fn over(&mut self, now: Mono, what: &str) -> Option<Duration> {
        let after = now.since(self.since.take()?);
        tracing::info!(what, ?after, "an outage is over");
        Some(after)
    }
}
