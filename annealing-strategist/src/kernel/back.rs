//! R22: the rollback. Every pin that moved returns to its previous place, settled or not, in reverse order.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{Cause, Now, Pin, PinStatus, Progress, Selection, SyncState, Target};
use prodspec_model::{AssetId, rollout::OnUnhealthy};

use super::{Bug, Effects, Kernel, Record, Step, live::Live};
use crate::record::{By, Failed, Quarantined, State, TargetRecord};

impl Kernel {
    /// The updated targets are unhealthy: rolls back or stops, as the policy says.
    pub(super) fn fail(&mut self, now: Now, why: String, out: &mut Effects) {
        let policy = self.policy().unwrap_or_default();
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
        let asset = live.targets[place].asset.clone();
        live.rollout
            .note(at, format!("continues without `{asset}`: {why}"), None);
        live.drop_target(place);
        live.left_out.push(asset.clone());
        live.left_out.sort();
        let (rollout, content) = (live.rollout.id, live.to.asset(&asset).map(|it| it.digest()));
        let mut step = Step::default();
        if let Some(content) = content {
            let reached = true;
            let failed = Failed {
                rollout,
                content,
                reached,
            };
            step.records.push(self.has_failed_with(&asset, failed));
        }
        step.records.push(Record::Target(asset.clone(), None));
        let goes = self.stays(&asset);
        self.pin(now, &asset, goes, &mut step);
        self.close_anew();
        if let Some(live) = &mut self.live {
            live.look_again(true);
            step.records.push(live.rollout.record());
        }
        out.steps.push(step);
    }

    /// Quarantines a content of an asset, and returns the record to store.
    fn has_failed_with(&mut self, asset: &AssetId, failed: Failed) -> Record {
        let new = || Quarantined::of(self.policy.clone());
        let quarantined = self.quarantine.entry(asset.clone()).or_insert_with(new);
        quarantined.add(failed);
        Record::Quarantine(asset.clone(), Some(quarantined.clone()))
    }

    /// R17: the newest incarnation reverts what the live rollout has moved: rolls back at once. The content is not
    /// quarantined.
    pub(super) fn take_back(&mut self, now: Now, out: &mut Effects) {
        let why = format!("{} reverts this rollout", self.latest.id());
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
        live.rollout.note(at, state.to_string(), by);
        live.rollout.state = state;
        live.look_again(true);
        let record = live.rollout.record();
        let mut step = Step::default();
        if failed && !self.planted(Bug::NoQuarantine) {
            self.quarantine(&mut step);
        }
        step.records.push(record);
        self.look = true;
        out.steps.push(step);
    }

    /// Quarantines all content of the rollout. That of targets that it has not reached only waits for a fix.
    fn quarantine(&mut self, step: &mut Step) {
        let Some(live) = &self.live else { return };
        let (rollout, targets, to) = (live.rollout.id, live.targets.clone(), live.to.clone());
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
            step.records.push(self.has_failed_with(&asset.id(), failed));
        }
    }

    /// R22: a rollout completes. Releases the content of assets that have other content now. If the rollout has thereby
    /// fixed all content that failed in an earlier one, releases the content that only waited there, too.
    pub(super) fn mend(&mut self, live: &Live, step: &mut Step) {
        let changed = self.quarantine.iter().filter(|(id, quarantined)| {
            let there = live.to.asset(id);
            there.is_none_or(|asset| !quarantined.has(asset.digest(), None))
        });
        let mended: Vec<AssetId> = changed.map(|(id, _)| id.clone()).collect();
        let mut fixed = BTreeSet::new();
        for asset in mended {
            let quarantined = self.quarantine.remove(&asset);
            // A revert fixes nothing: it is no target.
            let quarantined = quarantined.filter(|_| live.place(&asset).is_some());
            fixed.extend(quarantined.iter().flat_map(Quarantined::reached_in));
            step.records.push(Record::Quarantine(asset, None));
        }
        let others = self.quarantine.values();
        let failing: BTreeSet<_> = others.flat_map(Quarantined::reached_in).collect();
        fixed.retain(|rollout| !failing.contains(rollout));
        let rest = self.release_content(|failed| fixed.contains(&failed.rollout), step);
        self.pending.extend(rest);
    }

    /// Releases contents from quarantine. Returns the assets concerned.
    pub(super) fn release_content(
        &mut self,
        is_over: impl Fn(&Failed) -> bool,
        step: &mut Step,
    ) -> Vec<AssetId> {
        let mut concerned = Vec::new();
        self.quarantine.retain(|asset, quarantined| {
            let before = quarantined.failed.len();
            quarantined.failed.retain(|failed| !is_over(failed));
            let left = quarantined.failed.len();
            if left < before {
                let kept = (left > 0).then(|| quarantined.clone());
                step.records.push(Record::Quarantine(asset.clone(), kept));
                concerned.push(asset.clone());
            }
            left > 0
        });
        concerned
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
            Pin::Default => match &self.head {
                Some(head) if head.asset(asset).is_some() => Pin::At(head.no(), cause),
                // The asset is new in this rollout. It is left alone and listed, never removed.
                _ => Pin::NotYet,
            },
        }
    }

    /// Sends the targets at the places `chosen` back.
    pub(super) fn back(&mut self, now: Now, chosen: &[u32], step: &mut Step) {
        let at = self.clock.at(now);
        for &place in chosen {
            let Some(live) = &self.live else { return };
            let Some(target) = live.on_the_way().get(place as usize) else {
                continue;
            };
            let asset = target.asset.clone();
            let Some(forward) = live.place(&asset) else {
                continue;
            };
            let Some(mut row) = live.rows[forward].clone() else {
                continue;
            };
            row.back_at = Some(live.watched(at));
            let goes = self.goes_back(&asset, row.was);
            let unpushed = self.is_modelled_only(&live.to, &asset) || goes == Pin::NotYet;
            step.records
                .push(Record::Target(asset.clone(), Some(row.clone())));
            self.pin(now, &asset, goes, step);
            let Some(live) = &mut self.live else { return };
            live.set_row(forward, row);
            let progress = match unpushed {
                true => Progress::Updated { at },
                false => Progress::InFlight { since: at },
            };
            live.set_back(place as usize, progress);
            live.again |= unpushed;
        }
    }

    /// Takes in the pin status of an asset that is rolled back.
    pub(super) fn stood_back(&mut self, now: Now, asset: &AssetId, pin_status: &PinStatus) {
        let at = self.clock.at(now);
        let pin = self.pin_of(asset);
        let Some(live) = &mut self.live else { return };
        let Some(place) = live.back_place(asset) else {
            return;
        };
        let back = live.on_the_way();
        // Ignore pin statuses from before the asset was sent back, and at other pins: they describe the failed content.
        if back[place].is_waiting() || !pin_status.pin.same_place(&pin) {
            return;
        }
        let progress = match &pin_status.state {
            SyncState::InSync { .. } => Progress::Updated { at },
            SyncState::OutOfSync { waits_for, .. } if back[place].is_under_way() => {
                let forward = live.place(asset);
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
        let why = live.rollout.state.why().unwrap_or_default().to_owned();
        live.rollout.state = State::RolledBack { why };
        live.rollout.ended_at = Some(at);
        live.rollout.stage = None;
        live.rollout.note(at, "rolled back", None);
        let mut step = Step::default();
        step.records.push(live.rollout.record());
        self.release(&live, &mut step);
        let targets = live.targets.iter().map(|target| target.asset.clone());
        self.pending.extend(targets);
        let moved: BTreeMap<&AssetId, &TargetRecord> =
            live.inherited.iter().chain(live.held()).collect();
        for (asset, row) in moved {
            // An asset that is not back yet keeps its pin, so that its push keeps the cause `Rollback`.
            if row.was == Pin::Default && live.is_back(asset) {
                self.pin(now, asset, Pin::Default, &mut step);
            }
        }
        out.steps.push(step);
        self.ended(live, out);
    }
}

impl Live {
    /// Returns the places of the targets that this or an earlier rollout moved, and of those that wait for them by an
    /// edge, in ascending order. If none has moved: all.
    fn reached(&self) -> Vec<u32> {
        let none = !self.has_moved() && self.inherited.is_empty();
        let all = (0..).zip(self.targets.iter().zip(&self.rows));
        let moved = all.filter(|(_, (target, row))| {
            none || row.is_some() || self.inherited.contains_key(&target.asset)
        });
        self.closure.close_back(moved.map(|(place, _)| place))
    }

    /// Turns to the way back: the targets that moved wait to be sent back, the last one first.
    pub(super) fn turn_back(&mut self, only_settled: bool, first_first: bool) {
        self.take_over_inherited();
        let rows = self.rows.iter().zip(self.targets.iter());
        let mut moved: Vec<_> = rows
            .filter(|(_, target)| !only_settled || target.settled().is_some())
            .filter_map(|(row, target)| Some((row.as_ref()?, target)))
            .collect();
        moved.sort_by_key(|(row, _)| row.moved_at);
        if !first_first {
            moved.reverse();
        }
        let waits = |(_, target): &(_, &Target)| Target {
            progress: Progress::Waiting,
            ..(*target).clone()
        };
        let back = moved.iter().map(waits).collect();
        self.goes_back(back);
        self.look_again(true);
        self.wake = None;
    }

    /// Includes the assets that an earlier rollout moved and this one has not moved yet.
    fn take_over_inherited(&mut self) {
        for (asset, taken) in std::mem::take(&mut self.inherited) {
            let place = self
                .place(&asset)
                .filter(|place| self.rows[*place].is_none());
            if let Some(place) = place {
                let row = TargetRecord {
                    rollout: self.rollout.id,
                    updated_at: None,
                    order: 0,
                    back_at: None,
                    ..taken.clone()
                };
                self.set_row(place, row);
            }
            self.inherited.insert(asset, taken);
        }
    }
}
