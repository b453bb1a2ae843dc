//! The pins of the group's assets, as reported by enforcement or requested since.

use std::collections::BTreeMap;

use plugin_sdk::{Pin, Standing};
use prodspec_model::{AssetId, IncarnationNo};

use super::moving::Moving;

/// The pins that the group's assets have of their own. A report from before a requested move is recognized as late.
#[derive(Debug)]
pub(in crate::kernel) struct Pins {
    /// The assets that have a pin of their own, as reported or requested.
    known: BTreeMap<AssetId, Standing>,
    /// Requested moves of pins that were not reported yet. Reports of other pins are outdated until then.
    expected: BTreeMap<AssetId, Moving>,
}

impl Pins {
    /// Creates the pins that enforcement has reported.
    pub(in crate::kernel) fn new(reported: Vec<(AssetId, Standing)>) -> Self {
        Self {
            known: reported.into_iter().collect(),
            expected: BTreeMap::new(),
        }
    }

    /// Returns the pin of an asset, as reported or requested.
    pub(in crate::kernel) fn of(&self, asset: &AssetId) -> Pin {
        let standing = self.known.get(asset);
        standing.map_or(Pin::Default, |standing| standing.pin)
    }

    /// Returns the status of an asset's own pin. `None`: the asset has no pin of its own.
    pub(in crate::kernel) fn status(&self, asset: &AssetId) -> Option<&Standing> {
        self.known.get(asset)
    }

    /// Returns the assets that have a pin of their own, with its status, sorted by id.
    pub(in crate::kernel) fn iter(&self) -> impl Iterator<Item = (&AssetId, &Standing)> {
        self.known.iter()
    }

    /// Returns the assets that have a pin of their own, sorted by id.
    pub(in crate::kernel) fn assets(&self) -> impl Iterator<Item = &AssetId> {
        self.known.keys()
    }

    /// Whether no asset has a pin of its own.
    pub(in crate::kernel) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns the incarnations at which assets are pinned.
    pub(in crate::kernel) fn referenced(&self) -> impl Iterator<Item = IncarnationNo> {
        let pins = self.known.values().map(|standing| standing.pin);
        pins.filter_map(|pin| pin.incarnation())
    }

    /// Notes a request to move an asset's pin, and expects a report of it. `goes` is not [`Pin::Default`]: to remove a
    /// pin, [forget](Self::forget) it.
    pub(in crate::kernel) fn request(&mut self, asset: &AssetId, goes: Standing) {
        let from = self.of(asset);
        let expected = self.expected.entry(asset.clone());
        expected
            .or_insert_with(|| Moving::from(from))
            .then(goes.pin);
        self.known.insert(asset.clone(), goes);
    }

    /// Forgets the pin of an asset and its requested moves. Returns whether there was a pin.
    pub(in crate::kernel) fn forget(&mut self, asset: &AssetId) -> bool {
        self.expected.remove(asset);
        self.known.remove(asset).is_some()
    }

    /// Forgets the requested moves of an asset: enforcement refused them.
    pub(in crate::kernel) fn forget_moves(&mut self, asset: &AssetId) {
        self.expected.remove(asset);
    }

    /// Notes the pin of an asset that enforcement does not report.
    pub(in crate::kernel) fn know(&mut self, asset: &AssetId, standing: Standing) {
        self.known.insert(asset.clone(), standing);
    }

    /// Takes in a report of an asset's pin. Returns whether the pin or the content has changed since the last one.
    pub(in crate::kernel) fn report(&mut self, asset: AssetId, standing: Standing) -> bool {
        let (pin, content) = (standing.pin, standing.content);
        let was = match pin {
            Pin::Default => self.known.remove(&asset),
            _ => self.known.insert(asset, standing),
        };
        let was = was.map_or((Pin::Default, content), |was| (was.pin, was.content));
        !was.0.same_place(&pin) || was.1 != content
    }

    /// Ends the requested moves that a report of the pin at `pin` confirms.
    pub(in crate::kernel) fn confirm(&mut self, asset: &AssetId, pin: Pin) {
        let Some(expected) = self.expected.get_mut(asset) else {
            return;
        };
        expected.reported(pin);
        if expected.is_over() {
            self.expected.remove(asset);
        }
    }

    /// Whether a request to move the asset's pin elsewhere than `pin` has not been reported yet.
    pub(in crate::kernel) fn moves_from(&self, asset: &AssetId, pin: Pin) -> bool {
        let expected = self.expected.get(asset);
        expected.is_some_and(|moving| moving.leaves(pin))
    }

    /// Returns the requested move of an asset's pin that enforcement reports next.
    pub(in crate::kernel) fn next_move(&self, asset: &AssetId) -> Option<Pin> {
        self.expected.get(asset).and_then(Moving::next)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use plugin_sdk::{Cause, SyncState};

    use super::*;
    use crate::kernel::tests::rig::id;

    fn at(no: u32) -> Standing {
        let since = Timestamp::UNIX_EPOCH;
        let pin = Pin::At(IncarnationNo(no), Cause::Intent);
        Standing::at(pin, None, SyncState::InSync { since })
    }

    #[test]
    fn r20_report_from_before_a_requested_move_is_late() {
        let (asset, mut pins) = (id("a"), Pins::new(vec![(id("a"), at(1))]));
        pins.request(&asset, at(2));
        assert_eq!(pins.of(&asset), at(2).pin);
        assert_eq!(pins.next_move(&asset), Some(at(2).pin));
        pins.confirm(&asset, at(1).pin);
        assert!(pins.moves_from(&asset, at(1).pin), "still expected");
        pins.confirm(&asset, at(2).pin);
        assert!(!pins.moves_from(&asset, at(1).pin));
        assert_eq!(pins.next_move(&asset), None);
    }

    #[test]
    fn r17_forgotten_pin_expects_no_report() {
        let (asset, mut pins) = (id("a"), Pins::new(Vec::new()));
        pins.request(&asset, at(2));
        assert!(pins.forget(&asset) && !pins.forget(&asset));
        assert!(pins.is_empty() && !pins.moves_from(&asset, at(1).pin));
    }

    #[test]
    fn r17_report_tells_whether_pin_or_content_changed() {
        let mut pins = Pins::new(Vec::new());
        assert!(pins.report(id("a"), at(1)));
        assert!(!pins.report(id("a"), at(1)));
        assert_eq!(pins.referenced().collect::<Vec<_>>(), [IncarnationNo(1)]);
        let mut gone = at(1);
        gone.pin = Pin::Default;
        assert!(pins.report(id("a"), gone));
        assert!(pins.is_empty());
    }
}
