//! R12: an approval is for one push. Approvals of one change that are in force together count once.

use std::{collections::BTreeMap, time::Duration};

use prodspec_model::Digest;

use crate::executor::Instant;

/// Maximum time until an approval takes effect, if it does at all: a process that stands still for longer has lost its
/// lease.
const LATE: Duration = Duration::from_secs(60);

/// The approvals that operators gave.
#[derive(Debug, Default)]
pub struct Approvals {
    /// Number of the last approval.
    last: u64,
    /// Approvals that a push may still use, by asset and change, oldest first. A change that was ever approved has an
    /// entry.
    given: BTreeMap<(usize, Digest), Vec<Approval>>,
}

/// One approval by an operator.
#[derive(Debug)]
struct Approval {
    number: u64,
    at: Instant,
    /// Time of the enforcer's answer; `None` while there is none.
    heard: Option<Instant>,
}

impl Approval {
    /// Time from which on the approval is in force, or never will be.
    fn is_decided(&self) -> Instant {
        self.heard.unwrap_or(self.at + LATE)
    }
}

impl Approvals {
    /// Records that an operator approves a destructive change. Returns the number of the approval.
    pub fn give(&mut self, at: usize, change: Digest, now: Instant) -> u64 {
        self.last += 1;
        let given = self.given.entry((at, change)).or_default();
        given.push(Approval {
            number: self.last,
            at: now,
            heard: None,
        });
        self.last
    }

    /// Records that the enforcer accepted an approval.
    pub fn heard(&mut self, number: u64, now: Instant) {
        let mut all = self.given.values_mut().flatten();
        if let Some(approval) = all.find(|it| it.number == number) {
            approval.heard = Some(now);
        }
    }

    /// Records that the enforcer refused an approval: it never takes effect.
    pub fn refused(&mut self, number: u64) {
        for given in self.given.values_mut() {
            given.retain(|it| it.number != number);
        }
    }

    /// Whether an operator has ever approved a change.
    pub(super) fn has(&self, at: usize, change: Digest) -> bool {
        self.given.contains_key(&(at, change))
    }

    /// Uses up the approvals of a change by a push that was decided before `decided`: all that were in force then, as
    /// one. Returns whether there may have been any.
    pub(super) fn spend(&mut self, at: usize, change: Digest, decided: Instant) -> bool {
        let given = self.given.entry((at, change)).or_default();
        let before = given.len();
        given.retain(|it| it.is_decided() >= decided);
        if given.len() == before && before > 0 {
            // One of those that were still under way has been used.
            given.remove(0);
        }
        before > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 3;

    fn at(seconds: u64) -> Instant {
        Instant::default() + Duration::from_secs(seconds)
    }

    fn change() -> Digest {
        Digest::of(b"a change")
    }

    #[test]
    fn r12_a_repeated_approval_is_for_one_push() {
        let mut approvals = Approvals::default();
        for seconds in [1, 2, 3] {
            let number = approvals.give(AT, change(), at(seconds));
            approvals.heard(number, at(seconds));
        }
        assert!(approvals.spend(AT, change(), at(4)));
        assert!(!approvals.spend(AT, change(), at(5)));
        approvals.give(AT, change(), at(6));
        assert!(approvals.spend(AT, change(), at(6)));
        assert!(!approvals.spend(AT, change(), at(7)));
    }

    #[test]
    fn r12_an_approval_that_may_come_after_the_push_is_for_another_one() {
        let mut approvals = Approvals::default();
        let first = approvals.give(AT, change(), at(1));
        approvals.heard(first, at(2));
        let second = approvals.give(AT, change(), at(3));
        assert!(approvals.spend(AT, change(), at(4)));
        approvals.heard(second, at(5));
        assert!(approvals.spend(AT, change(), at(6)));
        assert!(!approvals.spend(AT, change(), at(7)));
    }

    #[test]
    fn r12_a_refused_approval_is_for_no_push() {
        let mut approvals = Approvals::default();
        let refused = approvals.give(AT, change(), at(1));
        approvals.refused(refused);
        assert!(!approvals.spend(AT, change(), at(2)));
        assert!(approvals.has(AT, change()));
    }
}
