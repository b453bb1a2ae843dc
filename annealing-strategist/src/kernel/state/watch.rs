//! The time for which a rollout has been watched, on this owner's clock, and when to store or to flag it.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::Mono;

/// The watched time of a live rollout. It continues from the time stored by earlier owners.
#[derive(Debug)]
pub(in crate::kernel) struct Watch {
    /// Start of the watched time on this owner's clock, as if this owner had watched the rollout from the start.
    base: Timestamp,
    /// When to store the watched time next.
    remember_at: Option<Mono>,
    /// When the rollout is flagged if nothing moves or settles until then.
    flag_at: Option<Mono>,
}

impl Watch {
    /// Continues at the time `at` after the rollout was watched for `watched`.
    pub(super) fn new(at: Timestamp, watched: Duration) -> Self {
        Self {
            base: at.checked_sub(watched).unwrap_or(Timestamp::MIN),
            remember_at: None,
            flag_at: None,
        }
    }

    /// Returns how long the rollout had been watched at the time `at`.
    pub(in crate::kernel) fn watched(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.base)).unwrap_or_default()
    }

    /// Returns the time on this owner's clock at which the rollout had been watched for `watched`.
    pub(in crate::kernel) fn time_of(&self, watched: Duration) -> Timestamp {
        self.base.checked_add(watched).unwrap_or(Timestamp::MAX)
    }

    /// Sets when the rollout is flagged if nothing moves or settles until then.
    pub(in crate::kernel) fn flag_at(&mut self, at: Option<Mono>) {
        self.flag_at = at;
    }

    /// Returns whether the watched time has to be stored now, which is done at intervals of `every`. `written`: it is
    /// being stored already.
    pub(in crate::kernel) fn remember(
        &mut self,
        now: Mono,
        every: Duration,
        written: bool,
    ) -> bool {
        let due = self.remember_at.is_some_and(|at| at <= now);
        if due || written || self.remember_at.is_none() {
            self.remember_at = Some(now + every);
        }
        due && !written
    }

    /// Returns when the watched time is stored next, if the rollout `is_timed`, or the rollout is flagged.
    pub(in crate::kernel) fn next_wake(&self, is_timed: bool) -> Option<Mono> {
        let remember = self.remember_at.filter(|_| is_timed);
        remember.into_iter().chain(self.flag_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn r21_watched_time_continues_from_the_stored_time() {
        let now = Timestamp::UNIX_EPOCH;
        let watch = Watch::new(now, SECOND * 60);
        assert_eq!(watch.watched(now + SECOND), SECOND * 61);
        assert_eq!(watch.time_of(SECOND * 50), now - SECOND * 10);
        assert_eq!(watch.watched(now - SECOND * 90), Duration::ZERO);
    }

    #[test]
    fn r21_watched_time_is_stored_at_intervals() {
        let mut watch = Watch::new(Timestamp::UNIX_EPOCH, Duration::ZERO);
        let at = |seconds| Mono(0) + SECOND * seconds;
        assert!(!watch.remember(at(0), SECOND * 10, false), "the first");
        assert!(!watch.remember(at(9), SECOND * 10, false));
        assert!(watch.remember(at(10), SECOND * 10, false));
        assert!(!watch.remember(at(15), SECOND * 10, true), "stored already");
        assert_eq!(watch.next_wake(true), Some(at(25)));
        assert_eq!(watch.next_wake(false), None);
        watch.flag_at(Some(at(20)));
        assert_eq!(watch.next_wake(true), Some(at(20)));
    }
}
