//! Takes in standings, and tells late reports from those that describe the present pin.

use plugin_sdk::{Now, Pin, Progress, Standing};
use prodspec_model::AssetId;

use super::{Bug, Effects, Kernel, Record, planted};

impl Kernel {
    /// Takes in standings of the group's assets.
    pub(super) fn standings_changed(
        &mut self,
        now: Now,
        standings: Vec<(AssetId, Standing)>,
        out: &mut Effects,
    ) {
        for (asset, standing) in standings {
            // R17: enforcement pins no asset that has left every group, even if a pin was requested.
            if standing.pin == Pin::Default && !self.governs(self.group.latest(), &asset) {
                self.pins.forget_moves(&asset);
            }
            if self.is_late(&asset, standing.pin) {
                self.was_there(&asset, standing.pin, out);
                continue;
            }
            self.stood(now, &asset, &standing, out);
            // The standing may have made the asset's pin move, so it is outdated already.
            if self.pins.moves_from(&asset, standing.pin) {
                continue;
            }
            let arrived = standing.state.is_in_sync();
            let arrived = arrived && standing.pin != Pin::Default && self.live.is_none();
            if self.pins.report(asset, standing) || arrived {
                self.pending.look();
            }
        }
    }

    /// Whether a report with this pin is from before the asset's pin moved.
    fn is_late(&mut self, asset: &AssetId, pin: Pin) -> bool {
        self.pins.confirm(asset, pin);
        self.pins.moves_from(asset, pin) && !planted(Bug::UpdatedAtAnyPin)
    }

    /// Takes in a late report from before an asset's pin moved forward: the asset goes back to the pin reported.
    fn was_there(&mut self, asset: &AssetId, pin: Pin, out: &mut Effects) {
        let expected = self.pins.next_move(asset);
        let Some(live) = &mut self.live else { return };
        let Some(place) = live.targets().place(asset) else {
            return;
        };
        if !expected.is_some_and(|pin| pin.is_at(live.goal(asset)))
            || live.inherited().contains_key(asset)
        {
            return;
        }
        let Some(row) = live.targets_mut().set_was(place, pin) else {
            return;
        };
        let record = Record::Target(asset.clone(), Some(row));
        if live.set_back(asset, Progress::Waiting) {
            live.selecting.look_again(true);
        }
        out.steps.push(record.into());
    }
}
