//! Settle waits: assets that wait until another asset settles. The settling may come while their checks are under way.

use std::collections::{BTreeMap, BTreeSet};

use super::numbers::SlotNo;

/// Number of entries below which none are dropped while checks are under way.
const FEW: usize = 1024;

/// The assets that wait for others to settle, and what settled while checks were under way.
#[derive(Debug, Default)]
pub(in crate::kernel) struct SettleWaits {
    /// Assets that wait until an asset settles, by slot of that asset.
    waiters: BTreeMap<SlotNo, BTreeSet<SlotNo>>,
    /// Number of checks under way.
    checking: u32,
    /// Number of times that an asset was found in sync while checks were under way.
    settles: u64,
    /// Assets found in sync while checks were under way, each with `settles` at that time: an older check may name one.
    log: BTreeMap<SlotNo, u64>,
    /// Number of entries kept for checks under way at which entries older than all of these checks are dropped.
    many: usize,
}

impl SettleWaits {
    /// Notes that a check starts. Returns the number of settlings before it, for [`SettleWaits::wait`].
    pub(in crate::kernel) fn check_started(&mut self) -> u64 {
        self.checking += 1;
        self.settles
    }

    /// Notes that a check ended.
    pub(in crate::kernel) fn check_ended(&mut self) {
        self.checking -= 1;
    }

    /// Whether any check is under way.
    pub(in crate::kernel) fn is_checking(&self) -> bool {
        self.checking > 0
    }

    /// Wakes `waiter` once `slot` settles. Returns `true`, and does nothing, if `slot` has settled since the check that
    /// saw `seen` settlings started.
    pub(in crate::kernel) fn wait(&mut self, waiter: SlotNo, slot: SlotNo, seen: u64) -> bool {
        if self.log.get(&slot).is_some_and(|&at| at > seen) {
            return true;
        }
        self.waiters.entry(slot).or_default().insert(waiter);
        false
    }

    /// Notes that `slot` has settled. Removes and returns the assets that wait for that.
    pub(in crate::kernel) fn settled(&mut self, slot: SlotNo) -> BTreeSet<SlotNo> {
        if self.is_checking() {
            self.settles += 1;
            self.log.insert(slot, self.settles);
        }
        self.give_up(slot)
    }

    /// Removes and returns the assets that wait for `slot`, which never settles any more.
    pub(in crate::kernel) fn give_up(&mut self, slot: SlotNo) -> BTreeSet<SlotNo> {
        self.waiters.remove(&slot).unwrap_or_default()
    }

    /// Whether so many entries are kept that old ones should be dropped; `others` are kept elsewhere for the same
    /// checks.
    pub(in crate::kernel) fn has_many(&self, others: usize) -> bool {
        self.log.len() + others > self.many.max(FEW)
    }

    /// Drops entries older than the check that saw `seen` settlings.
    pub(in crate::kernel) fn drop_before(&mut self, seen: u64) {
        self.log.retain(|_, at| *at > seen);
    }

    /// Sets when old entries are dropped next: when twice as many as now are kept, `others` included.
    pub(in crate::kernel) fn keep_at_most_twice(&mut self, others: usize) {
        self.many = 2 * (self.log.len() + others);
    }

    #[cfg(test)]
    pub(in crate::kernel) fn checking(&self) -> u32 {
        self.checking
    }

    #[cfg(test)]
    pub(in crate::kernel) fn sizes(&self) -> (usize, usize) {
        (self.waiters.len(), self.log.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_during_a_check_ends_the_wait_that_the_check_asks_for() {
        let (a, b) = (SlotNo::from_index(0), SlotNo::from_index(1));
        let mut waits = SettleWaits::default();
        assert_eq!(waits.settled(b), BTreeSet::new(), "no check is under way");
        let seen = waits.check_started();
        assert!(!waits.wait(a, b, seen));
        assert_eq!(waits.settled(b), BTreeSet::from([a]));
        assert!(waits.wait(a, b, seen), "settled since the check started");
        let later = waits.check_started();
        assert!(!waits.wait(a, b, later));
    }

    #[test]
    fn entries_older_than_all_checks_are_dropped() {
        let mut waits = SettleWaits::default();
        waits.check_started();
        for n in 0..=FEW {
            waits.settled(SlotNo::from_index(n));
        }
        assert!(waits.has_many(0));
        waits.drop_before(FEW as u64);
        waits.keep_at_most_twice(0);
        assert_eq!(waits.sizes(), (0, 1));
        assert!(!waits.has_many(FEW - 1) && waits.has_many(FEW));
    }
}
