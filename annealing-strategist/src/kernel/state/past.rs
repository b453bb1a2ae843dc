//! The past rollouts of the group: the newest one, and the numbers given so far.

use plugin_sdk::RolloutId;

use crate::record::Rollout;

/// Number of rollouts of a group that are stored. Older records are deleted.
const KEPT: u64 = 32;

/// The newest rollout before the live one, and the number of the next.
#[derive(Debug)]
pub(in crate::kernel) struct Past {
    last: Option<Rollout>,
    next: RolloutId,
}

impl Past {
    /// Creates the past of a group whose newest rollout is `newest`.
    pub(in crate::kernel) fn new(newest: Option<RolloutId>) -> Self {
        let newest = newest.map_or(0, |newest| newest.0);
        Self {
            last: None,
            next: RolloutId(newest + 1),
        }
    }

    /// Returns the newest rollout before the live one.
    pub(in crate::kernel) fn last(&self) -> Option<&Rollout> {
        self.last.as_ref()
    }

    /// Keeps a rollout that has ended, or a newer version of its record.
    pub(in crate::kernel) fn keep(&mut self, rollout: Rollout) {
        self.last = Some(rollout);
    }

    /// Takes the number of a new rollout.
    pub(in crate::kernel) fn number(&mut self) -> RolloutId {
        let id = self.next;
        self.next = RolloutId(id.0 + 1);
        id
    }

    /// Returns the rollout whose record is deleted when `id` begins. `None`: there are not that many.
    pub(in crate::kernel) fn forgotten_for(id: RolloutId) -> Option<RolloutId> {
        let old = id.0.checked_sub(KEPT).filter(|old| *old > 0);
        old.map(RolloutId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r17_numbers_continue_after_the_newest_rollout() {
        let mut past = Past::new(Some(RolloutId(7)));
        assert_eq!((past.number(), past.number()), (RolloutId(8), RolloutId(9)));
        assert_eq!(Past::new(None).number(), RolloutId(1));
    }

    #[test]
    fn r17_records_of_32_rollouts_are_kept() {
        assert_eq!(Past::forgotten_for(RolloutId(32)), None);
        assert_eq!(Past::forgotten_for(RolloutId(33)), Some(RolloutId(1)));
    }
}
