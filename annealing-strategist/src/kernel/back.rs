//! R22: the rollback. Every pin that moved returns to its previous place, settled or not, in reverse order.

use std::collections::BTreeMap;

use plugin_sdk::{Cause, Now, Pin, Progress, Selection, Standing, SyncState};
use prodspec_model::AssetId;

use super::{Bug, Effects, Kernel, Record, Step, planted};
use crate::record::{By, State, TargetRecord};

impl Kernel {
    /// R17: the newest incarnation reverts what the live rollout has moved: rolls back at once. The content is not
    /// quarantined.
    pub(super) fn take_back(&mut self, now: Now, out: &mut Effects) {
        let why = format!("{} reverts this rollout", self.group.latest().id());
        self.turn(now, State::rolling_back(why), None, false, out);
        self.send_back(now, out);
    }

    /// Starts the rollback of all targets that moved.
    pub(super) fn roll_back(&mut self, now: Now, why: String, by: Option<By>, out: &mut Effects) {
        self.turn(now, State::rolling_back(why), by, true, out);
        self.send_back(now, out);
    }

    fn send_back(&mut self, now: Now, out: &mut Effects) {
        let only_settled = planted(Bug::RollBackSettledOnly);
        let first_first = planted(Bug::BackFirstFirst);
        if let Some(live) = &mut self.live {
            live.turn_back(only_settled, first_first);
        }
        self.move_pins(now, &Selection::default(), out);
    }

    /// Returns the place to which the pin of an asset goes when it is rolled back.
    pub(super) fn goes_back(&self, asset: &AssetId, was: Pin) -> Pin {
        let cause = match planted(Bug::RollBackAsIntent) {
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
            let unpushed = self.is_modelled_only(live.contents(), &asset) || goes == Pin::NotYet;
            step.records
                .push(Record::Target(asset.clone(), Some(row.clone())));
            self.pin(now, &asset, goes, step);
            let Some(live) = &mut self.live else { return };
            live.targets_mut().set_row(forward, row);
            let progress = match unpushed {
                true => Progress::Updated { at },
                false => Progress::InFlight { since: at },
            };
            live.set_back(&asset, progress);
            if unpushed {
                live.selecting.look_again(false);
            }
        }
    }

    /// Takes in the standing of an asset that is rolled back.
    pub(super) fn stood_back(&mut self, now: Now, asset: &AssetId, standing: &Standing) {
        let at = self.clock.at(now);
        let pin = self.pins.of(asset);
        let Some(live) = &mut self.live else { return };
        let Some(back) = live.targets().back(asset) else {
            return;
        };
        // Ignore standings from before the asset was sent back, and at other pins: they describe the failed content.
        if back.is_waiting() || !standing.pin.same_place(&pin) {
            return;
        }
        let progress = match &standing.state {
            SyncState::InSync { .. } => Progress::Updated { at },
            SyncState::OutOfSync { waits_for, .. } if back.is_under_way() => {
                let forward = live.targets().place(asset);
                return forward
                    .into_iter()
                    .for_each(|place| self.takes(place, waits_for));
            }
            _ if back.settled().is_some() => Progress::Drifted { since: at },
            _ => return,
        };
        live.set_back(asset, progress);
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
