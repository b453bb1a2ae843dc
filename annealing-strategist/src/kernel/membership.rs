//! R17: which assets the group governs, which of them its rollout holds, and how it lets them go.

use std::collections::BTreeSet;

use plugin_sdk::Pin;
use prodspec_model::{AssetId, Incarnation};

use super::{Effects, Kernel, Record, Step, state::live::Live};
use crate::group::{Heads, policy_of};

impl Kernel {
    /// R17: whether the group governs an asset as of `newest`, even if another group's rollout still holds the asset.
    pub fn names(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        self.group.names(newest, asset)
    }

    /// Whether the group governs an asset, and the asset has not left it.
    pub(super) fn governs(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        let away = |live: &Live| live.is_away(asset);
        self.names(newest, asset) && !self.live.as_ref().is_some_and(away)
    }

    /// Whether the live rollout holds an asset's pin, or will move it, as of `newest`. An asset that left the group
    /// before its turn is not held: another rollout may hold it.
    pub fn owns(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        let Some(live) = &self.live else { return false };
        let Some(place) = live.targets().place(asset) else {
            return false;
        };
        live.targets().row(place).is_some() || self.governs(newest, asset)
    }

    /// Whether the group holds or governs an asset.
    pub(super) fn has(&self, asset: &AssetId) -> bool {
        self.owns(self.group.latest(), asset) || self.governs(self.group.latest(), asset)
    }

    /// Whether the live rollout holds an asset that belongs to the group of `policy` now. That group has to wait for
    /// it.
    pub fn keeps_from(&self, policy: &AssetId) -> bool {
        let live = self.live.iter().filter(|live| live.keeps_others());
        let mut held = live
            .flat_map(|live| live.targets().held())
            .map(|(asset, _)| asset);
        let named = |asset: &AssetId| {
            self.group
                .sealed()
                .asset(asset)
                .as_ref()
                .and_then(policy_of)
        };
        held.any(|asset| named(asset).as_ref() == Some(policy))
    }

    pub(super) fn look_for_others(&mut self, assets: &[AssetId]) {
        let other = |asset: &&AssetId| {
            self.owns(self.group.latest(), asset) && !self.names(self.group.latest(), asset)
        };
        let found = assets.iter().any(|asset| other(&asset));
        if let Some(live) = self.live.as_mut().filter(|_| found) {
            live.keep_others();
        }
    }

    /// Forgets the pins of those of `assets` that belong to another group now. Assets of no group lose their pins.
    pub(super) fn let_go(&mut self, assets: &[AssetId], out: &mut Effects) {
        let mut step = Step::default();
        for asset in assets {
            if self.has(asset) {
                continue;
            }
            self.pending.left(asset);
            if self.live.as_mut().is_some_and(|live| live.leaves(asset)) {
                step.records.push(Record::Target(asset.clone(), None));
            }
            if self.pins.forget(asset) && self.group.named_by(asset).is_none() {
                step.moves.push((asset.clone(), Pin::Default));
            }
            step.records.extend(self.quarantine.forget(asset));
        }
        out.steps.push(step);
    }

    /// Lets go of every asset that the group no longer governs, after a takeover or after a head has moved. The group
    /// that governs such an asset now is told.
    pub(super) fn let_others_go(&mut self, out: &mut Effects) {
        let inherited = self.live.iter().flat_map(|live| live.inherited().keys());
        let all = self.pins.assets().chain(inherited);
        let all = all.chain(self.pending.assets());
        let gone: BTreeSet<AssetId> = all.filter(|asset| !self.has(asset)).cloned().collect();
        let gone: Vec<AssetId> = gone.into_iter().collect();
        self.let_go(&gone, out);
        out.released.extend(gone);
    }

    /// Another group's head has moved: lets go of assets that belong to that group now.
    pub(super) fn others_moved(&mut self, heads: Heads, out: &mut Effects) {
        self.group.hear(heads);
        self.let_others_go(out);
    }
}
