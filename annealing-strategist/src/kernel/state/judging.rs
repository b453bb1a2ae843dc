//! The health checks of a live rollout: the call under way, and when the next one is due (R21).

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{Mono, Now};

use super::control::Control;

/// When to ask for a verdict.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Judging {
    /// The call under way, and when it was made.
    call: Option<(u64, Now)>,
    due: Option<Mono>,
    /// Start of the last health check that was answered.
    judged: Option<Timestamp>,
    /// The end of the bake for which evidence is awaited, and the number of checks made for it.
    awaited: Option<Timestamp>,
    looks: u32,
    /// The targets to compare with.
    pub(in crate::kernel) control: Control,
}

impl Judging {
    /// Returns the time of the next check. `None`: none is planned, or one is under way.
    pub(in crate::kernel) fn next_wake(&self) -> Option<Mono> {
        self.due.filter(|_| self.call.is_none())
    }

    /// Plans no check: the rollout has no targets whose health has to be checked.
    pub(in crate::kernel) fn rest(&mut self) {
        self.due = None;
    }

    /// Forgets the check under way and the planned one.
    pub(super) fn cancel(&mut self) {
        (self.call, self.due) = (None, None);
    }

    /// Whether a check is due. The first one is planned one interval `every` after the first move.
    pub(in crate::kernel) fn is_due(&mut self, now: Mono, every: Duration) -> bool {
        if self.call.is_some() {
            return false;
        }
        match self.due {
            None => {
                self.due = Some(now + every);
                false
            }
            Some(due) => due <= now,
        }
    }

    /// Notes that the validators are called.
    pub(in crate::kernel) fn ask(&mut self, call: u64, now: Now) {
        self.call = Some((call, now));
    }

    /// Notes that a call was answered. Returns when it was made. `None`: another call is under way, or none.
    pub(in crate::kernel) fn answered(&mut self, call: u64) -> Option<Now> {
        let (_, when) = self.call.take_if(|(asked, _)| *asked == call)?;
        Some(when)
    }

    /// Plans the check after one that started at `asked`, at most `every` from now. `awaited`: the end of the bake for
    /// which evidence is awaited. That evidence arrives with a short delay: the first checks follow quickly, the later
    /// ones at growing intervals.
    pub(in crate::kernel) fn plan(
        &mut self,
        now: Mono,
        asked: Timestamp,
        awaited: Option<Timestamp>,
        every: Duration,
    ) {
        self.judged = Some(asked);
        self.due = Some(now + self.wait(awaited, every));
    }

    fn wait(&mut self, awaited: Option<Timestamp>, every: Duration) -> Duration {
        if self.awaited != awaited {
            (self.awaited, self.looks) = (awaited, 0);
        }
        if awaited.is_none() {
            return every;
        }
        let soon = Duration::from_secs(1 << self.looks.min(16));
        self.looks += 1;
        soon.min(every)
    }

    /// Whether a check that starts at `since` finds something newer than the last one. If not, it is useless.
    pub(in crate::kernel) fn is_newer(&self, since: Timestamp) -> bool {
        self.judged.is_none_or(|at| at < since)
    }

    /// Plans a check at a time, or sooner if an earlier time was set.
    pub(in crate::kernel) fn check_at(&mut self, due: Mono) {
        self.due = Some(self.due.map_or(due, |judge| judge.min(due)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(30);
    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn r21_first_check_comes_one_interval_after_the_first_move() {
        let mut judging = Judging::default();
        assert!(!judging.is_due(Mono(0), EVERY));
        assert!(judging.is_due(Mono(0) + EVERY, EVERY));
        let now = Now {
            mono: Mono(0) + EVERY,
            wall: AT,
        };
        judging.ask(1, now);
        assert!(!judging.is_due(now.mono, EVERY), "one is under way");
        assert_eq!(judging.next_wake(), None);
        assert_eq!(judging.answered(2), None, "another call");
        assert_eq!(judging.answered(1), Some(now));
        assert!(judging.is_due(now.mono, EVERY));
        judging.rest();
        assert_eq!(judging.next_wake(), None);
    }

    #[test]
    fn r21_checks_for_awaited_evidence_follow_at_growing_intervals() {
        let mut judging = Judging::default();
        let bake = Some(AT);
        let waits = [1, 2, 4, 8, 16, 30, 30].map(Duration::from_secs);
        for wait in waits {
            judging.plan(Mono(0), AT, bake, EVERY);
            assert_eq!(judging.next_wake(), Some(Mono(0) + wait));
        }
        judging.plan(Mono(0), AT, None, EVERY);
        assert_eq!(judging.next_wake(), Some(Mono(0) + EVERY));
        judging.plan(Mono(0), AT, bake, EVERY);
        assert_eq!(judging.next_wake(), Some(Mono(0) + waits[0]), "start over");
    }

    #[test]
    fn r21_check_at_once_is_useless_if_the_last_one_is_as_new() {
        let mut judging = Judging::default();
        assert!(judging.is_newer(AT));
        judging.plan(Mono(0), AT, None, EVERY);
        assert!(!judging.is_newer(AT) && judging.is_newer(AT + Duration::from_secs(1)));
        judging.check_at(Mono(9));
        assert_eq!(judging.next_wake(), Some(Mono(9)));
        judging.check_at(Mono(10));
        assert_eq!(judging.next_wake(), Some(Mono(9)), "the earlier one");
        judging.cancel();
        assert_eq!(judging.next_wake(), None);
    }
}
