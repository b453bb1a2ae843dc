//! The content with which each asset settled last, while a change of its intent waits (R6).

use std::{collections::BTreeMap, time::Duration};

use plugin_sdk::Mono;
use prodspec_model::{Incarnation, IncarnationNo};

use super::numbers::SlotNo;

/// The content that each asset settled with last, for assets whose intent has changed since. It is forgotten when a
/// push of the changed intent is admitted, unless that push never begins: production may have either content from then
/// on.
#[derive(Debug, Default)]
pub(in crate::kernel) struct LastSettled(BTreeMap<SlotNo, Before>);

/// The content of an asset when it was last found in sync.
#[derive(Debug, Clone)]
pub(in crate::kernel) struct Before {
    /// The incarnation that has this content of the asset.
    at: Incarnation,
    /// Time of the last diff that found production with this content. `None`: none under this ownership.
    looked: Option<Mono>,
}

impl LastSettled {
    /// Notes that the intent of `slot` changes. `at` has the content with which it was in sync until `looked`.
    pub(in crate::kernel) fn keep(&mut self, slot: SlotNo, at: Incarnation, looked: Option<Mono>) {
        self.0.insert(slot, Before { at, looked });
    }

    /// Forgets the content, because production may have another one or the asset settled with its present intent.
    pub(in crate::kernel) fn forget(&mut self, slot: SlotNo) {
        self.0.remove(&slot);
    }

    /// Removes and returns the content, so that it can be put back if the push never begins.
    pub(in crate::kernel) fn take(&mut self, slot: SlotNo) -> Option<Before> {
        self.0.remove(&slot)
    }

    /// Puts back a content that was taken.
    pub(in crate::kernel) fn put_back(&mut self, slot: SlotNo, before: Before) {
        self.0.insert(slot, before);
    }

    /// Returns the incarnation with whose content `slot` settled last, if its intent has changed since.
    pub(in crate::kernel) fn of(&self, slot: SlotNo) -> Option<&Incarnation> {
        self.0.get(&slot).map(|before| &before.at)
    }

    /// Whether a diff for drift is due: the last one started a `period` ago or earlier.
    pub(in crate::kernel) fn is_due(&self, slot: SlotNo, now: Mono, period: Duration) -> bool {
        let since = |looked: Mono| now.since(looked) >= period;
        let due = |before: &Before| before.looked.is_none_or(since);
        self.0.get(&slot).is_some_and(due)
    }

    /// Returns the incarnations that drift repair needs.
    pub(in crate::kernel) fn referenced(&self) -> impl Iterator<Item = IncarnationNo> {
        self.0.values().map(|before| before.at.no())
    }

    /// Makes the next diff for drift due at once for all of them.
    pub(in crate::kernel) fn look_at_all(&mut self) {
        self.0.values_mut().for_each(|before| before.looked = None);
    }

    /// Notes that a diff that ended at `now` found production with this content.
    pub(in crate::kernel) fn looked(&mut self, slot: SlotNo, now: Mono) {
        if let Some(before) = self.0.get_mut(&slot) {
            before.looked = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::rig::seal;

    #[test]
    fn r6_diff_for_drift_is_due_once_per_period() {
        let (mut last, slot) = (LastSettled::default(), SlotNo::FIRST);
        let period = Duration::from_secs(300);
        assert!(!last.is_due(slot, Mono(0), period), "nothing is kept");
        last.keep(slot, seal(None, Vec::new(), &[]), None);
        assert!(last.is_due(slot, Mono(0), period));
        last.looked(slot, Mono(0));
        assert!(!last.is_due(slot, Mono(0), period));
        assert!(last.is_due(slot, Mono(0) + period, period));
        let before = last.take(slot).unwrap();
        assert!(last.of(slot).is_none());
        last.put_back(slot, before);
        assert_eq!(last.referenced().count(), 1);
    }
}
