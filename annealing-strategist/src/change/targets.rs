//! The targets of a change, with their fields.

use jiff::Timestamp;
use plugin_sdk::FieldEdit;
use prodspec_model::AssetId;

use super::{
    fields::{Fields, Out},
    record::{PlannedTarget, RollOutTarget},
    unit::{Stage, Unit},
};
use crate::bug::{Bug, planted};

impl Fields {
    /// Adds targets that have come. They wait for their turn.
    pub(crate) fn join(&mut self, targets: &[PlannedTarget], out: &mut Out) {
        for target in targets {
            let asset = target.before.id();
            let before = Some(target.before.digest());
            self.units
                .add(&asset, (&target.edits, &target.reserved), before);
            let left = self.unit(&asset).is_some_and(|it| it.stage == Stage::Left);
            if left {
                out.left.push(asset);
            }
        }
    }

    /// The fields that are the change's, with their values before and after, each with its targets.
    pub(crate) fn known(&self) -> Vec<(FieldEdit, Vec<AssetId>)> {
        let ours = self.units.all.iter().filter(|it| it.stage != Stage::Left);
        let fields = ours.flat_map(|unit| unit.known().map(move |edit| (edit, unit)));
        let targets = |unit: &Unit| unit.assets.keys().cloned().collect();
        fields.map(|(edit, unit)| (edit, targets(unit))).collect()
    }

    /// The targets have other values from now on. Those that have moved have the ones of `version` until they move again.
    pub(crate) fn hand_over(&mut self, version: usize, targets: &[(AssetId, RollOutTarget)]) {
        for (asset, target) in targets {
            if planted(Bug::HandOverKeepsValues) {
                return;
            }
            self.units.give(asset, version, &target.edits);
        }
    }

    /// Whether these are the values that a target's fields get now.
    pub(crate) fn sets(&self, asset: &AssetId, edits: &[FieldEdit]) -> bool {
        let unit = self.units.of.get(asset).map(|no| &self.units.all[*no]);
        unit.is_some_and(|unit| edits.iter().all(|edit| unit.sets(edit)))
    }

    /// The targets that have not left the change, sorted by id.
    pub(crate) fn staying(&self) -> impl Iterator<Item = &AssetId> {
        let all = self.units.of.iter();
        let stays = all.filter(|(_, no)| self.units.all[**no].stage != Stage::Left);
        stays.map(|(asset, _)| asset)
    }

    /// The targets, sorted by id.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &AssetId> {
        self.units.of.keys()
    }

    /// Whether the asset is a target.
    pub(crate) fn is_target(&self, asset: &AssetId) -> bool {
        self.units.of.contains_key(asset)
    }

    /// Time at which the fields of a target were set last, or restored. `None`: they have not been, or it is no target.
    pub(crate) fn moved_at(&self, asset: &AssetId) -> Option<Timestamp> {
        let unit = self.units.all.get(*self.units.of.get(asset)?)?;
        unit.moved_at.filter(|_| unit.stage != Stage::Left)
    }

    /// The targets that have to move together.
    pub(crate) fn ties(&self) -> Vec<Vec<AssetId>> {
        let several = self.units.all.iter().filter(|unit| unit.assets.len() > 1);
        several
            .map(|unit| unit.assets.keys().cloned().collect())
            .collect()
    }
}
