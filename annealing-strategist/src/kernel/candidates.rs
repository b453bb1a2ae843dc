//! Finds the assets that a rollout has to update, and those that it has to leave out.

use std::collections::BTreeSet;

use plugin_sdk::{RolloutId, Target};
use prodspec_model::{Asset, AssetId, Incarnation};

use super::{Kernel, state::closure::Closure};
use crate::policy::target_of;

/// The assets of a group that a rollout may update.
pub(super) struct Candidates {
    /// The assets to roll out, sorted by id.
    pub(super) targets: Vec<Target>,
    /// Assets whose new content failed before, and assets that wait for one of those.
    pub(super) left_out: Vec<AssetId>,
}

impl Kernel {
    /// Returns the assets to roll out with `to`. Content that failed in the rollout `own` may be rolled out.
    pub(super) fn candidates(&self, to: &Incarnation, own: Option<RolloutId>) -> Candidates {
        let mut found = Candidates {
            targets: Vec::new(),
            left_out: Vec::new(),
        };
        let under_way = self
            .live
            .iter()
            .flat_map(|live| live.targets().all().iter());
        let under_way = under_way.map(|target| &target.asset);
        let ids = self.pending.assets().chain(self.pins.assets());
        let mut ids: Vec<&AssetId> = ids.chain(under_way).collect();
        ids.sort();
        ids.dedup();
        for id in ids {
            let Some(new) = to.asset(id) else { continue };
            if !self.governs(to, id) {
                continue;
            }
            if self.content_in_force(id) == Some(new.digest()) {
                continue;
            }
            if self.quarantine.has(&new, own) {
                found.left_out.push(id.clone());
            } else {
                found.targets.push(self.target(&new));
            }
        }
        self.leave_out_tied(to, &mut found);
        found
    }

    pub(super) fn target(&self, asset: &Asset) -> Target {
        Target {
            silent: !self.serves(asset),
            late: self.late.contains(&asset.id()),
            ..target_of(asset)
        }
    }

    /// Adds the assets that the live rollout has moved or inherited: they are part of the rollout that takes over,
    /// even if they already have the new content. Content that failed in the rollout `own` may be rolled out.
    pub(super) fn add_moved(&self, own: Option<RolloutId>, found: &mut Candidates) {
        let Some(live) = &self.live else { return };
        let moved = live.targets().held().map(|(asset, _)| asset);
        let moved = moved.chain(live.inherited().keys());
        let moved = moved.filter(|id| found.left_out.binary_search(id).is_err());
        let moved = moved.filter(|id| self.governs(self.group.latest(), id));
        let moved = moved.filter_map(|id| self.group.latest().asset(id));
        let moved = moved.filter(|new| !self.quarantine.has(new, own));
        found.targets.extend(moved.map(|asset| self.target(&asset)));
        let targets = &mut found.targets;
        targets.sort_by(|one, other| one.asset.cmp(&other.asset));
        targets.dedup_by(|one, other| one.asset == other.asset);
    }

    /// Leaves out the assets that would wait for assets that are left out: assets tied by edges move together or not
    /// at all.
    fn leave_out_tied(&self, to: &Incarnation, found: &mut Candidates) {
        if found.left_out.is_empty() {
            return;
        }
        let failed = found.left_out.iter().filter_map(|id| to.asset(id));
        let mut all = found.targets.clone();
        all.extend(failed.map(|asset| target_of(&asset)));
        all.sort_by(|one, other| one.asset.cmp(&other.asset));
        let closure = Closure::of(&all, |id| self.before(id), to, &self.types);
        let place = |id: &AssetId| all.binary_search_by(|target| target.asset.cmp(id)).ok();
        let failed = found.left_out.iter().filter_map(place);
        let tied = closure.close_back(failed.map(|place| place as u32));
        let tied: BTreeSet<&AssetId> = tied.iter().map(|at| &all[*at as usize].asset).collect();
        found.targets.retain(|target| !tied.contains(&target.asset));
        found.left_out = tied.into_iter().cloned().collect();
    }
}
