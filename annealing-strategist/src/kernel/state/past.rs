//! The past rollouts of the group: the newest one, and the numbers given so far.

use plugin_sdk::RolloutId;

use crate::record::Rollout;

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
}
