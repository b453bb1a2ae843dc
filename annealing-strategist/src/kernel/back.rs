//! R22: the rollback. Every pin that moved returns to its previous place, settled or not, in reverse order.

use std::collections::BTreeMap;

use plugin_sdk::{Cause, Now, Pin, PinStatus, Progress, Selection, SyncState};
use prodspec_model::{AssetId, rollout::OnUnhealthy};

use super::{Bug, Effects, Kernel, Record, Step};
use crate::record::{By, Failed, State, TargetRecord};

impl Kernel {
    /// The updated targets are unhealthy: rolls back or stops, as the policy says.
    pub(super) fn fail(&mut self, now: Now, why: String, out: &mut Effects) {
        let policy = self.group.rollout_policy().unwrap_or_default();
        match policy.on_unhealthy {
            OnUnhealthy::RollBack => self.roll_back(now, why, None, out),
            OnUnhealthy::Stop => self.stop(now, why, None, out),
        }
    }

    /// R22: continues a first turnup at once without the target whose push is unhealthy. That target stops, and its
    /// content is quarantined.
    pub(super) fn leave_behind(&mut self, now: Now, place: usize, why: String, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        let Some(asset) = live.targets().get(place).map(|target| target.asset.clone()) else {
            return;
        };
        live.note(at, format!("continues without `{asset}`: {why}"), None);
        live.leave_behind(place);
        let (rollout, content) = (live.id(), live.to().asset(&asset).map(|it| it.digest()));
        let mut step = Step::default();
        if let Some(content) = content {
            let reached = true;
            let failed = Failed {
                rollout,
                content,
                reached,
            };
            step.records.push(self.quarantine.add(&asset, failed));
        }
        step.records.push(Record::Target(asset.clone(), None));
        let goes = self.group.default_pin(&asset, Cause::Intent);
        self.pin(now, &asset, goes, &mut step);
        self.close_anew();
        if let Some(live) = &mut self.live {
            live.selecting.look_again(true);
            step.records.push(live.record());
        }
        out.steps.push(step);
    }

    /// R17: the newest incarnation reverts what the live rollout has moved: rolls back at once. The content is not
    /// quarantined.
    pub(super) fn take_back(&mut self, now: Now, out: &mut Effects) {
        let why = format!("{} reverts this rollout", self.group.latest().id());
        self.turn(now, State::RollingBack { why }, None, false, out);
        self.send_back(now, out);
    }

    /// Stops the rollout: nothing moves until an operator gives a command or newer intent arrives.
    pub(super) fn stop(&mut self, now: Now, why: String, by: Option<By>, out: &mut Effects) {
        let failed = by.is_none();
        self.turn(now, State::Stopped { why }, by, failed, out);
    }

    /// Starts the rollback of all targets that moved.
    pub(super) fn roll_back(&mut self, now: Now, why: String, by: Option<By>, out: &mut Effects) {
        self.turn(now, State::RollingBack { why }, by, true, out);
        self.send_back(now, out);
    }

    fn send_back(&mut self, now: Now, out: &mut Effects) {
        let only_settled = self.planted(Bug::RollBackSettledOnly);
        let first_first = self.planted(Bug::BackFirstFirst);
        if let Some(live) = &mut self.live {
            live.turn_back(only_settled, first_first);
        }
        self.move_pins(now, &Selection::default(), out);
    }

    /// Stops the rollout without quarantining its content, because it has not failed.
    pub(super) fn halt(&mut self, now: Now, why: String, out: &mut Effects) {
        self.turn(now, State::Stopped { why }, None, false, out);
    }

    fn turn(
        &mut self,
        now: Now,
        mut state: State,
        by: Option<By>,
        failed: bool,
        out: &mut Effects,
    ) {
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        state.shorten();
        let what = state.to_string();
        live.enter(at, state, what, by);
        let record = live.record();
        let mut step = Step::default();
        if failed && !self.planted(Bug::NoQuarantine) {
            self.quarantine_all(&mut step);
        }
        step.records.push(record);
        self.pending.look();
        out.steps.push(step);
    }

    /// Quarantines all content of the rollout. That of targets that it has not reached only waits for a fix.
    fn quarantine_all(&mut self, step: &mut Step) {
        let Some(live) = &self.live else { return };
        let (rollout, targets, to) = (live.id(), live.targets().all().clone(), live.to().clone());
        let reached = live.reached();
        for (place, target) in (0..).zip(targets.iter()) {
            let Some(asset) = to.asset(&target.asset) else {
                continue;
            };
            let failed = Failed {
                rollout,
                content: asset.digest(),
                reached: reached.binary_search(&place).is_ok(),
            };
            step.records.push(self.quarantine.add(&asset.id(), failed));
        }
    }

    /// Returns the place to which the pin of an asset goes when it is rolled back.
    pub(super) fn goes_back(&self, asset: &AssetId, was: Pin) -> Pin {
        let cause = match self.planted(Bug::RollBackAsIntent) {
            true => Cause::Intent,
            false => Cause::Rollback,
        };
        match was {
            Pin::At(no, _) => Pin::At(no, cause),
            Pin::NotYet => Pin::NotYet,
            Pin::Default => self.group.default_pin(asset, cause),
        }
    }

    /// Sends the targets at the places `chosen` back.
    pub(super) fn back(&mut self, now: Now, chosen: &[u32], step: &mut Step) {
        let at = self.clock.at(now);
        for &place in chosen {
            let Some(live) = &self.live else { return };
            let Some(target) = live.targets().on_the_way().get(place as usize) else {
                continue;
            };
            let asset = target.asset.clone();
            let Some(forward) = live.targets().place(&asset) else {
                continue;
            };
            let Some(mut row) = live.targets().row(forward).cloned() else {
                continue;
            };
            row.back_at = Some(live.watch.watched(at));
            let goes = self.goes_back(&asset, row.was);
            let unpushed = self.is_modelled_only(live.to(), &asset) || goes == Pin::NotYet;
            step.records
                .push(Record::Target(asset.clone(), Some(row.clone())));
            self.pin(now, &asset, goes, step);
            let Some(live) = &mut self.live else { return };
            live.targets_mut().set_row(forward, row);
            let progress = match unpushed {
                true => Progress::Updated { at },
                false => Progress::InFlight { since: at },
            };
            live.set_back(place as usize, progress);
            if unpushed {
                live.selecting.look_again(false);
            }
        }
    }

    /// Takes in the pin status of an asset that is rolled back.
    pub(super) fn stood_back(&mut self, now: Now, asset: &AssetId, pin_status: &PinStatus) {
        let at = self.clock.at(now);
        let pin = self.pins.of(asset);
        let Some(live) = &mut self.live else { return };
        let Some(place) = live.targets().back_place(asset) else {
            return;
        };
        let back = live.targets().on_the_way();
        // Ignore pin statuses from before the asset was sent back, and at other pins: they describe the failed content.
        if back[place].is_waiting() || !pin_status.pin.same_place(&pin) {
            return;
        }
        let progress = match &pin_status.state {
            SyncState::InSync { .. } => Progress::Updated { at },
            SyncState::OutOfSync { waits_for, .. } if back[place].is_under_way() => {
                let forward = live.targets().place(asset);
                return forward
                    .into_iter()
                    .for_each(|place| self.takes(place, waits_for));
            }
            _ if back[place].settled().is_some() => Progress::Drifted { since: at },
            _ => return,
        };
        live.set_back(place, progress);
        live.look_soon(now.mono, false);
    }

    /// Ends the rollback: all targets are back, and pins that equal the default are removed.
    pub(super) fn went_back(&mut self, now: Now, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(mut live) = self.live.take() else {
            return;
        };
        let why = live.state().why().unwrap_or_default().to_owned();
        live.end(at, State::RolledBack { why });
        let mut step = Step::default();
        step.records.push(live.record());
        self.release(&live, &mut step);
        let targets = live
            .targets()
            .all()
            .iter()
            .map(|target| target.asset.clone());
        self.pending.add(targets);
        let moved: BTreeMap<&AssetId, &TargetRecord> = live.moved().collect();
        for (asset, row) in moved {
            // An asset that is not back yet keeps its pin, so that its push keeps the cause `Rollback`.
            if row.was == Pin::Default && live.targets().is_back(asset) {
                self.pin(now, asset, Pin::Default, &mut step);
            }
        }
        out.steps.push(step);
        self.ended(live, out);
    }
}
