//! The standings of a change's targets, as its rollout sees them.

use plugin_sdk::{Now, Standing, SyncState};
use prodspec_model::AssetId;

use super::{
    fields::{Fields, Out},
    intent::Intent,
    unit::Stage,
};
use crate::bug::{Bug, planted};

impl Fields {
    /// Enforcement reports the standing of a target.
    pub(crate) fn stands(
        &mut self,
        now: Now,
        intent: &Intent,
        asset: &AssetId,
        standing: &Standing,
        out: &mut Out,
    ) {
        let Some(unit) = self.unit(asset) else { return };
        let pin = unit.assets.get(asset).copied().flatten();
        let contents = unit.contents.entry(asset.clone()).or_default();
        contents.standing = Some(standing.clone());
        let Some(pin) = pin else { return };
        // A push that was unhealthy before the fields were set does not condemn them.
        let is_new = standing.content != contents.before;
        let was_in_sync = contents.in_sync == Some(standing.content);
        let is_ours = was_in_sync || contents.looked == standing.content;
        let settled = unit.stage.is_settled();
        if settled && !is_ours {
            // Newer intent leaves the fields alone, or a person has set them.
            if unit.stage == Stage::Settled {
                let at = now.mono;
                unit.stage = Stage::Doubted { at, settled };
            }
            return;
        }
        let state = match (&unit.stage, &standing.state) {
            (Stage::Settling(_), SyncState::InSync { .. }) if !planted(Bug::TrustsOldSync) => {
                return;
            }
            (Stage::Settling(_), held @ SyncState::OutOfSync { .. }) => held.clone(),
            (Stage::Settling(_), unhealthy) if is_new => unhealthy.clone(),
            _ if !settled => return,
            (_, SyncState::InSync { .. }) => {
                contents.in_sync = Some(standing.content);
                SyncState::InSync { since: now.wall }
            }
            // It is on its way to newer intent: no drift.
            (_, SyncState::OutOfSync { .. }) if !was_in_sync => return,
            (_, SyncState::Unhealthy { .. }) if !is_new => return,
            (_, drifted) => drifted.clone(),
        };
        let mut reported = intent.standing(asset, pin, true);
        reported.state = state;
        out.standings.push((asset.clone(), reported));
    }

    /// Targets have left intent.
    pub(crate) fn gone(&mut self, assets: &[AssetId], out: &mut Out) {
        for asset in assets {
            let Some(unit) = self.unit(asset) else {
                continue;
            };
            if unit.stage != Stage::Left {
                out.left.push(asset.clone());
            }
            self.units.forget(asset);
        }
    }

    /// The fields of a settled unit were looked up, and have their values.
    pub(super) fn cleared(&mut self, now: Now, intent: &Intent, no: usize, out: &mut Out) {
        let unit = &mut self.units.all[no];
        unit.stage = Stage::Settled;
        for contents in unit.contents.values_mut() {
            contents.looked = contents.looking.or(contents.looked);
        }
        self.replay(now, intent, no, out);
    }

    /// Takes in the last reports again: they may have come before the answer that they depend on.
    pub(super) fn replay(&mut self, now: Now, intent: &Intent, no: usize, out: &mut Out) {
        let last = self.units.all[no].contents.iter();
        let last = last.filter_map(|(asset, it)| Some((asset.clone(), it.standing.clone()?)));
        for (asset, standing) in last.collect::<Vec<_>>() {
            self.stands(now, intent, &asset, &standing, out);
        }
    }

    pub(super) fn report(&self, now: Now, intent: &Intent, no: usize, out: &mut Out) {
        let unit = &self.units.all[no];
        for asset in unit.assets.keys() {
            let standing = unit.standing(intent, now.wall, asset);
            out.standings.extend(standing.map(|it| (asset.clone(), it)));
        }
    }
}
