//! The census: which assets are not as the newest incarnation intends, kept up to date so that a status costs nothing.

use std::collections::BTreeSet;

use super::{contested::Contested, numbers::SlotNo};

/// The assets that are not as intended, by kind.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Census {
    /// Number of assets that have an intent and a plugin and are not settled.
    unsettled: u32,
    /// Governed assets whose content differs from that in the newest incarnation.
    behind: BTreeSet<SlotNo>,
    /// Assets that are settled with their turndown addon: their resources are gone from production.
    turned_down: BTreeSet<SlotNo>,
    /// Assets that have no intent and whose resource may exist in production.
    orphaned: BTreeSet<SlotNo>,
    /// Assets that something else changes again and again.
    pub(in crate::kernel) contested: Contested,
}

/// Adds a slot to a set, or removes it. Returns whether that changed the set.
fn put(set: &mut BTreeSet<SlotNo>, slot: SlotNo, belongs: bool) -> bool {
    match belongs {
        true => set.insert(slot),
        false => set.remove(&slot),
    }
}

impl Census {
    pub(in crate::kernel) fn unsettled(&self) -> u32 {
        self.unsettled
    }

    /// Notes that of some assets `before` were unsettled, and `after` are now.
    pub(in crate::kernel) fn recount(&mut self, before: u32, after: u32) {
        self.unsettled = self.unsettled + after - before;
    }

    /// Notes whether one asset was unsettled, and whether it is now.
    pub(in crate::kernel) fn recount_one(&mut self, before: bool, after: bool) {
        self.recount(before.into(), after.into());
    }

    /// Notes whether an asset is behind. Returns whether that is news.
    pub(in crate::kernel) fn set_behind(&mut self, slot: SlotNo, is_behind: bool) -> bool {
        put(&mut self.behind, slot, is_behind)
    }

    pub(in crate::kernel) fn is_behind(&self, slot: SlotNo) -> bool {
        self.behind.contains(&slot)
    }

    pub(in crate::kernel) fn behind(&self) -> &BTreeSet<SlotNo> {
        &self.behind
    }

    pub(in crate::kernel) fn set_turned_down(&mut self, slot: SlotNo, is_turned_down: bool) {
        put(&mut self.turned_down, slot, is_turned_down);
    }

    pub(in crate::kernel) fn turned_down(&self) -> &BTreeSet<SlotNo> {
        &self.turned_down
    }

    pub(in crate::kernel) fn set_orphaned(&mut self, slot: SlotNo, is_orphaned: bool) {
        put(&mut self.orphaned, slot, is_orphaned);
    }

    pub(in crate::kernel) fn orphaned(&self) -> &BTreeSet<SlotNo> {
        &self.orphaned
    }

    /// Removes an asset whose slot is given up. It is no orphan and not counted any more.
    pub(in crate::kernel) fn forget(&mut self, slot: SlotNo) {
        self.behind.remove(&slot);
        self.turned_down.remove(&slot);
        self.contested.forget(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_counted_and_listed_by_kind() {
        let (mut census, slot) = (Census::default(), SlotNo::FIRST);
        census.recount(0, 5);
        census.recount_one(true, false);
        census.recount_one(false, false);
        assert_eq!(census.unsettled(), 4);
        census.set_behind(slot, true);
        census.set_turned_down(slot, true);
        census.set_orphaned(slot, true);
        census.set_orphaned(slot, false);
        assert!(census.is_behind(slot) && census.turned_down().contains(&slot));
        assert!(census.orphaned().is_empty());
        census.forget(slot);
        assert!(census.behind().is_empty() && census.turned_down().is_empty());
    }
}
