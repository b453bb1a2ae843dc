//! Holds: a push in flight holds the assets that it relies on, so that none of them is pushed meanwhile (R8).

use std::collections::{BTreeMap, BTreeSet};

use super::numbers::SlotNo;

/// The holds, and the assets that wait for their end.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Holds {
    /// Number of pushes in flight that rely on an asset, by slot of that asset.
    pushes: BTreeMap<SlotNo, u32>,
    /// Assets that wait until no push of an asset, and none that relies on it, is in flight; by slot of that asset.
    waiters: BTreeMap<SlotNo, BTreeSet<SlotNo>>,
}

impl Holds {
    /// Notes that a push in flight relies on `slot`.
    pub(in crate::kernel) fn take(&mut self, slot: SlotNo) {
        *self.pushes.entry(slot).or_default() += 1;
    }

    /// Notes that a push that relied on `slot` is over. Returns whether it was the last one.
    pub(in crate::kernel) fn release(&mut self, slot: SlotNo) -> bool {
        let Some(pushes) = self.pushes.get_mut(&slot) else {
            return false;
        };
        *pushes -= 1;
        let last = *pushes == 0;
        if last {
            self.pushes.remove(&slot);
        }
        last
    }

    /// Whether a push in flight relies on `slot`.
    pub(in crate::kernel) fn is_held(&self, slot: SlotNo) -> bool {
        self.pushes.contains_key(&slot)
    }

    /// Notes that `waiter` waits until no push of `slot`, and none that relies on it, is in flight.
    pub(in crate::kernel) fn wait(&mut self, waiter: SlotNo, slot: SlotNo) {
        self.waiters.entry(slot).or_default().insert(waiter);
    }

    /// Removes and returns the assets that wait for pushes of `slot` and those that rely on it.
    pub(in crate::kernel) fn take_waiters(&mut self, slot: SlotNo) -> BTreeSet<SlotNo> {
        self.waiters.remove(&slot).unwrap_or_default()
    }

    #[cfg(test)]
    pub(in crate::kernel) fn pushes(&self) -> &BTreeMap<SlotNo, u32> {
        &self.pushes
    }

    #[cfg(test)]
    pub(in crate::kernel) fn len(&self) -> usize {
        self.pushes.len() + self.waiters.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r8_asset_is_held_until_the_last_push_that_relies_on_it_is_over() {
        let (mut holds, slot) = (Holds::default(), SlotNo::FIRST);
        holds.take(slot);
        holds.take(slot);
        assert!(!holds.release(slot) && holds.is_held(slot));
        assert!(holds.release(slot) && !holds.is_held(slot));
        assert!(!holds.release(slot), "nothing is held any more");
    }

    #[test]
    fn r8_waiters_are_returned_once() {
        let (mut holds, slot) = (Holds::default(), SlotNo::FIRST);
        let waiter = SlotNo::from_index(1);
        holds.wait(waiter, slot);
        holds.wait(waiter, slot);
        assert_eq!(holds.take_waiters(slot), BTreeSet::from([waiter]));
        assert_eq!(holds.take_waiters(slot), BTreeSet::new());
        assert_eq!(holds.len(), 0);
    }
}
