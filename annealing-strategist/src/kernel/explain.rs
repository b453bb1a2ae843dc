//! Explains what a rollout waits for: targets under way, and assets that it does not move.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{Direction, PinStatus, SyncState, Target, Wait};
use prodspec_model::AssetId;

use super::{Kernel, state::live::Live};

/// Maximum number of assets under way that are named, and of assets that one of them waits for.
const SHOWN: usize = 5;

impl Kernel {
    pub(super) fn waits(&self, live: &Live) -> Vec<Wait> {
        let mut waits = live.selecting.waits().to_vec();
        let back = live.targets().direction() == Direction::Back;
        let under_way = |target: &&Target| target.is_under_way() || back && target.is_waiting();
        let names = live.targets().on_the_way().iter().filter(under_way);
        let names = names.map(|target| self.under_way(live, &target.asset));
        let names: Vec<String> = names.take(SHOWN).collect();
        if !names.is_empty() {
            waits.push(Wait {
                why: format!("under way: {}", names.join(", ")),
                until: plugin_sdk::Until::Settled,
            });
        }
        waits
    }

    /// Returns the assets that `asset` waits for and that the rollout does not move.
    fn waits_outside(&self, asset: &AssetId) -> impl Iterator<Item = &AssetId> {
        let waits_for = match self.pins.status(asset).map(|pin_status| &pin_status.state) {
            Some(SyncState::OutOfSync { waits_for, .. }) => waits_for.as_slice(),
            _ => &[],
        };
        let moved = |id: &AssetId| self.owns(self.group.latest(), id) && !self.is_left_running(id);
        waits_for.iter().filter(move |id| !moved(id))
    }

    /// Whether the asset is absent from the incarnation at its pin, and left running.
    fn is_left_running(&self, asset: &AssetId) -> bool {
        let gone =
            |it: &PinStatus| it.content.is_none() && matches!(it.state, SyncState::InSync { .. });
        self.pins.status(asset).is_some_and(gone)
    }

    pub(super) fn held(&self, live: &Live) -> BTreeMap<AssetId, String> {
        let under_way = live
            .targets()
            .on_the_way()
            .iter()
            .filter(|t| t.is_under_way());
        let held = under_way.filter_map(|target| {
            let why = self.held_by(&target.asset)?;
            Some((target.asset.clone(), why.to_owned()))
        });
        held.collect()
    }

    /// Returns the reason why an operator or a check holds the push of an asset.
    fn held_by(&self, asset: &AssetId) -> Option<&str> {
        match self.pins.status(asset).map(|pin_status| &pin_status.state) {
            Some(SyncState::OutOfSync { why, .. }) => why.as_deref(),
            _ => None,
        }
    }

    pub(super) fn outside(&self, live: &Live) -> Vec<AssetId> {
        let under_way = live
            .targets()
            .on_the_way()
            .iter()
            .filter(|t| t.is_under_way());
        let outside = under_way.flat_map(|target| self.waits_outside(&target.asset));
        let outside: BTreeSet<&AssetId> = outside.collect();
        outside.into_iter().cloned().collect()
    }

    /// Describes an asset under way, and what it waits for outside the rollout.
    fn under_way(&self, live: &Live, asset: &AssetId) -> String {
        let others = self.waits_outside(asset);
        let others = others.map(|id| {
            let why = match () {
                () if live.left_out().contains(id) => ", which is left out",
                () if self.is_left_running(id) => ", which is gone from intent, and left running",
                () => "",
            };
            format!("`{id}`{why}")
        });
        let mut others: Vec<String> = others.take(SHOWN).collect();
        others.extend(self.held_by(asset).map(str::to_owned));
        match others.is_empty() {
            true => asset.to_string(),
            false => format!("{asset} (waits for {})", others.join(" and ")),
        }
    }
}
