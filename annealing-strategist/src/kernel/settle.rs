//! R20: sees targets settle at their new pins, drift, and leave.

use plugin_sdk::{Now, Pin, Progress, Standing, SyncState};
use prodspec_model::AssetId;

use super::{Bug, Effects, Kernel, Record, Step, planted};

impl Kernel {
    /// Takes in the standing of a target.
    pub(super) fn stood(
        &mut self,
        now: Now,
        asset: &AssetId,
        standing: &Standing,
        out: &mut Effects,
    ) {
        let any = planted(Bug::UpdatedAtAnyPin);
        if standing.pin == Pin::Default {
            return self.left(now, asset, out);
        }
        let Some(live) = &mut self.live else { return };
        if live.is_going_back() {
            return self.stood_back(now, asset, standing);
        }
        let Some(place) = live.targets().place(asset) else {
            return;
        };
        let here = any || standing.pin.is_at(live.goal(asset));
        if live.targets().row(place).is_none() {
            return;
        }
        // Another actor has moved the pin: the target no longer has the new content.
        if !here {
            return self.drifted(now, place);
        }
        match &standing.state {
            SyncState::InSync { .. } => self.settled(now, place, out),
            SyncState::OutOfSync { waits_for, .. } => {
                self.drifted(now, place);
                self.takes(place, waits_for);
            }
            SyncState::Unhealthy { why } if live.is_watched() => {
                let why = format!("`{asset}` is unhealthy: {why}");
                match self.live.as_ref().is_some_and(|live| self.is_first(live)) {
                    true => self.leave_behind(now, place, why, out),
                    false => self.fail(now, why, out),
                }
            }
            _ => {}
        }
    }

    /// Enforcement has removed the pin of a target that had moved. If the target left its group, the rollout no
    /// longer waits for it. If another actor removed the pin, the target waits for its turn again.
    fn left(&mut self, now: Now, asset: &AssetId, out: &mut Effects) {
        let at = self.clock.at(now);
        let ours = self.governs(self.group.latest(), asset);
        let Some(live) = &mut self.live else { return };
        let Some(place) = live.targets().place(asset) else {
            return;
        };
        if self.is_change && !ours && !live.is_going_back() {
            return self.drop_target(now, place, out);
        }
        if !live.targets_mut().clear_row(place) {
            return;
        }
        live.set_back(asset, Progress::Updated { at });
        let progress = match ours && !live.is_going_back() {
            true => Progress::Waiting,
            false => Progress::Updated { at },
        };
        live.set_progress(place, progress);
        live.look_soon(now.mono, false);
        out.steps.push(Record::Target(asset.clone(), None).into());
    }

    /// R101: something else has set the field of a target. It is neither updated nor waited for, and no canary.
    fn drop_target(&mut self, now: Now, place: usize, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        let asset = live.leave_behind(place);
        live.note(
            at,
            format!(
                "continues without `{asset}`: it is gone, or its field was set by something else"
            ),
            None,
        );
        live.selecting.look_again(true);
        self.pins.forget(&asset);
        self.close_anew();
        let mut step = Step::from(Record::Target(asset, None));
        step.records
            .extend(self.live.as_ref().map(|live| live.record()));
        out.steps.push(step);
    }

    /// R20: the target is in sync, found by a diff that started after its pin moved. After a drift its bake starts
    /// over.
    fn settled(&mut self, now: Now, place: usize, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        let target = live.targets().get(place);
        let Some(target) = target.filter(|target| target.is_under_way()) else {
            return;
        };
        let asset = target.asset.clone();
        let row = live.settle(place, at);
        live.look_soon(now.mono, false);
        if let Some(row) = row {
            out.steps.push(Record::Target(asset, Some(row)).into());
        }
    }

    /// R19: checks report that the target at `place` waits for `others`. Those of the rollout move along.
    pub(super) fn takes(&mut self, place: usize, others: &[AssetId]) {
        let Some(live) = &mut self.live else { return };
        for other in others {
            let other = live.targets().place(other);
            if other.is_some_and(|other| live.targets_mut().tie(place, other)) {
                live.selecting.look_again(false);
            }
        }
    }

    fn drifted(&mut self, now: Now, place: usize) {
        let since = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        if live.targets().is_updated(place) {
            live.set_progress(place, Progress::Drifted { since });
            live.look_soon(now.mono, true);
        }
    }
}
