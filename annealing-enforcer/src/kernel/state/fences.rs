//! The numbers that guarded providers compare.

use std::collections::BTreeMap;

use super::numbers::SlotNo;

/// The number of the newest call of each asset that raised what its provider compares, where it is not 0. Diffs carry it:
/// those of one owner overlap and arrive in any order, so they do not raise it themselves.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Fences(BTreeMap<SlotNo, u32>);

impl Fences {
    /// Returns the number that the next diff of an asset carries.
    pub(in crate::kernel) fn of(&self, slot: SlotNo) -> u32 {
        self.0.get(&slot).copied().unwrap_or(0)
    }

    /// Notes a call with the number `n` that raises the number of an asset. A smaller one changes nothing.
    pub(in crate::kernel) fn raise(&mut self, slot: SlotNo, n: u32) {
        if n > self.of(slot) {
            self.0.insert(slot, n);
        }
    }

    /// Forgets an asset whose slot is given up.
    pub(in crate::kernel) fn forget(&mut self, slot: SlotNo) {
        self.0.remove(&slot);
    }
}
