//! Pins of assets that have no slot, and what was found about each pinned asset since its pin moved (R20).

use std::collections::BTreeMap;

use plugin_sdk::{Pin, SyncState};
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

use super::numbers::SlotNo;

/// The findings about an asset since its pin moved.
#[derive(Debug, Clone)]
pub(in crate::kernel) struct Stand {
    /// Number of the last call that started before the pin moved.
    pub(in crate::kernel) after: u32,
    /// `true`: a later diff found the asset in sync, or it was in sync when the kernel pinned it where it was, or it
    /// has no intent.
    pub(in crate::kernel) confirmed: bool,
    pub(in crate::kernel) state: SyncState,
    /// The message of the asset's own health check, if it failed the last push. Kept until the pin moves or the next
    /// push begins.
    pub(in crate::kernel) unhealthy: Option<String>,
}

/// The pins that are not in the table, and the findings at those that are.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Pins {
    /// Pins of assets that have no slot: not known yet, or no longer known.
    early: BTreeMap<AssetId, Pin<Incarnation>>,
    /// Sync states of the assets with a pin of their own, by slot. The strategist follows them.
    stands: BTreeMap<SlotNo, Stand>,
}

impl Pins {
    /// Keeps the pin of an asset that has no slot. [`Pin::Default`] is no pin.
    pub(in crate::kernel) fn put_early(&mut self, asset: AssetId, pin: Pin<Incarnation>) {
        match pin {
            Pin::Default => self.early.remove(&asset),
            pin => self.early.insert(asset, pin),
        };
    }

    /// Removes and returns the pin that an asset was given while it had no slot.
    pub(in crate::kernel) fn take_early(&mut self, asset: &AssetId) -> Option<Pin<Incarnation>> {
        self.early.remove(asset)
    }

    /// Returns the pin of an asset that has no slot.
    pub(in crate::kernel) fn early_of(&self, asset: &AssetId) -> Pin {
        let pin = self.early.get(asset);
        pin.map_or(Pin::Default, |pin| pin.by_number())
    }

    /// Whether no pin of an asset without a slot is kept.
    pub(in crate::kernel) fn has_no_early(&self) -> bool {
        self.early.is_empty()
    }

    /// Returns the incarnations at which assets without a slot are pinned.
    pub(in crate::kernel) fn referenced(&self) -> impl Iterator<Item = IncarnationNo> {
        self.early.values().filter_map(|pin| match pin {
            Pin::At(incarnation, _) => Some(incarnation.no()),
            _ => None,
        })
    }

    /// Starts anew for an asset: these are the findings at its pin.
    pub(in crate::kernel) fn put(&mut self, slot: SlotNo, stand: Stand) {
        self.stands.insert(slot, stand);
    }

    /// Forgets the findings about an asset that has no pin of its own any more. Returns whether there were any.
    pub(in crate::kernel) fn forget(&mut self, slot: SlotNo) -> bool {
        self.stands.remove(&slot).is_some()
    }

    pub(in crate::kernel) fn of(&self, slot: SlotNo) -> Option<&Stand> {
        self.stands.get(&slot)
    }

    pub(in crate::kernel) fn of_mut(&mut self, slot: SlotNo) -> Option<&mut Stand> {
        self.stands.get_mut(&slot)
    }

    /// Whether no asset has a pin of its own.
    pub(in crate::kernel) fn is_empty(&self) -> bool {
        self.stands.is_empty()
    }

    /// Whether the asset's present pin is confirmed; `None` without a pin of its own.
    pub(in crate::kernel) fn is_confirmed(&self, slot: SlotNo) -> Option<bool> {
        self.of(slot).map(|stand| stand.confirmed)
    }

    /// Returns the assets with a pin of their own.
    pub(in crate::kernel) fn slots(&self) -> impl Iterator<Item = SlotNo> {
        self.stands.keys().copied()
    }

    /// Shows each asset as unhealthy whose own health check failed its last push, whatever was found since. Returns these
    /// assets.
    pub(in crate::kernel) fn show_unhealthy(&mut self) -> Vec<SlotNo> {
        let mut shown = Vec::new();
        for (slot, stand) in &mut self.stands {
            if let Some(why) = stand.unhealthy.clone() {
                stand.state = SyncState::Unhealthy { why };
                shown.push(*slot);
            }
        }
        shown
    }

    #[cfg(test)]
    pub(in crate::kernel) fn early(&self) -> &BTreeMap<AssetId, Pin<Incarnation>> {
        &self.early
    }

    #[cfg(test)]
    pub(in crate::kernel) fn len(&self) -> usize {
        self.stands.len()
    }
}

#[cfg(test)]
mod tests {
    use plugin_sdk::Cause;

    use super::*;
    use crate::kernel::tests::rig::{id, seal};

    #[test]
    fn r17_pin_of_an_unknown_asset_is_kept_until_it_is_taken_or_dropped() {
        let (mut pins, first) = (Pins::default(), seal(None, Vec::new(), &[]));
        pins.put_early(id("a"), Pin::At(first.clone(), Cause::Intent));
        pins.put_early(id("b"), Pin::NotYet);
        assert_eq!(pins.referenced().collect::<Vec<_>>(), [first.no()]);
        assert!(matches!(pins.take_early(&id("a")), Some(Pin::At(..))));
        pins.put_early(id("b"), Pin::Default);
        assert!(pins.has_no_early() && pins.take_early(&id("b")).is_none());
    }

    #[test]
    fn r21_unhealthy_asset_is_shown_as_such_to_a_new_subscriber() {
        let (mut pins, slot) = (Pins::default(), SlotNo::FIRST);
        let why = "no answer".to_owned();
        pins.put(
            slot,
            Stand {
                after: 0,
                confirmed: true,
                state: SyncState::InSync {
                    since: jiff::Timestamp::UNIX_EPOCH,
                },
                unhealthy: Some(why.clone()),
            },
        );
        assert_eq!(pins.show_unhealthy(), [slot]);
        let state = pins.of(slot).map(|stand| stand.state.clone());
        assert_eq!(state, Some(SyncState::Unhealthy { why }));
        assert_eq!(pins.is_confirmed(slot), Some(true));
        assert!(pins.forget(slot) && !pins.forget(slot));
    }
}
