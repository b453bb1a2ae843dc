//! Restores a kernel from stored records, so that it continues where the last one stopped, at whatever step that was.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use plugin_sdk::{AssetTypes, Cause, Now, Pin, PinStatus, Progress, RolloutId, SyncState};
use prodspec_model::{Asset, AssetId, Incarnation};

use super::{
    Bug, Effects, Kernel, Record, Step, bake_clock::BakeClock, closure::Closure, live::Live,
};
use crate::{
    config::Config,
    group::Heads,
    record::{Quarantined, Rollout, State, TargetRecord},
};

/// All stored data of a policy group.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The policy asset that names the group.
    pub policy: AssetId,
    /// The newest incarnation in force.
    pub latest: Incarnation,
    /// The incarnation whose rollout completed last. `None`: no rollout has completed.
    pub head: Option<Incarnation>,
    /// The heads of all policy groups of the partition.
    pub heads: Heads,
    /// The group's newest rollout. `None`: it never had one.
    pub newest: Option<Rollout>,
    /// The incarnation of that rollout, if it is live, or completed without the head having moved.
    pub to: Option<Incarnation>,
    /// The group's assets that differ between the head and the incarnation of that rollout.
    pub rolling: Vec<AssetId>,
    /// The group's assets that differ between that incarnation, or the head, and the newest incarnation.
    pub pending: Vec<AssetId>,
    /// The stored records of the group's targets.
    pub rows: Vec<(AssetId, TargetRecord)>,
    /// The quarantined contents, by asset.
    pub quarantine: Vec<(AssetId, Quarantined)>,
    /// The group's assets with a pin of their own.
    pub pins: Vec<(AssetId, PinStatus)>,
}

impl Recovered {
    /// Creates the data of a group that was never rolled out. All its assets are `pending`.
    pub fn nothing(policy: AssetId, latest: Incarnation, pending: Vec<AssetId>) -> Self {
        Self {
            policy,
            latest,
            head: None,
            heads: Heads::default(),
            newest: None,
            to: None,
            rolling: Vec::new(),
            pending,
            rows: Vec::new(),
            quarantine: Vec::new(),
            pins: Vec::new(),
        }
    }
}

impl Kernel {
    /// Creates a kernel that takes over from stored data.
    pub fn recover(
        now: Now,
        config: Config,
        types: Arc<AssetTypes>,
        recovered: Recovered,
        out: &mut Effects,
    ) -> Self {
        let next = recovered.newest.as_ref().map_or(0, |newest| newest.id.0);
        let mut kernel = Self {
            policy: recovered.policy,
            config,
            types,
            clock: BakeClock::new(now),
            latest: recovered.latest,
            head: recovered.head,
            heads: recovered.heads,
            pins: recovered.pins.into_iter().collect(),
            expected: BTreeMap::new(),
            quarantine: recovered.quarantine.into_iter().collect(),
            pending: BTreeSet::new(),
            has_left: false,
            look: true,
            live: None,
            left_out: Vec::new(),
            last: None,
            next: RolloutId(next + 1),
            calls: 0,
        };
        let rows: BTreeMap<_, _> = recovered.rows.into_iter().collect();
        let known: Vec<AssetId> = rows.keys().cloned().collect();
        match (recovered.newest, recovered.to) {
            (Some(rollout), Some(to)) if !rollout.state.has_ended() => {
                kernel.pending = recovered.rolling.into_iter().collect();
                kernel.revive(now, rollout, to, rows, out);
                kernel.pending = recovered.pending.into_iter().collect();
            }
            (newest, to) => {
                kernel.last = newest;
                kernel.arrive(to, out);
                kernel.pending = recovered.pending.into_iter().collect();
                kernel.tidy_up(rows, out);
            }
        }
        kernel.let_others_go(out);
        // Assets that the group turns out not to hold were kept from other groups until now.
        let gone = known.into_iter().filter(|asset| !kernel.has(asset));
        out.released.extend(gone);
        kernel.go_on(now, out);
        kernel.remember_time(now, out);
        kernel
    }

    /// Moves the head if the step that completed the rollout was only partly made.
    fn arrive(&mut self, to: Option<Incarnation>, out: &mut Effects) {
        let completed = |last: &Rollout| last.state == State::Completed;
        let behind = |to: &Incarnation| self.head.as_ref().is_none_or(|head| head.no() < to.no());
        if let Some(to) = to.filter(behind)
            && self.last.as_ref().is_some_and(completed)
        {
            self.head = Some(to.clone());
            out.steps.push(Step {
                head: Some(to),
                ..Step::default()
            });
        }
    }

    /// Removes records that an incomplete step has left: no rollout holds these assets any more, and some follow the
    /// head.
    fn tidy_up(&mut self, rows: BTreeMap<AssetId, TargetRecord>, out: &mut Effects) {
        let mut step = Step::default();
        for asset in rows.into_keys() {
            step.records.push(Record::Target(asset.clone(), None));
            self.pending.insert(asset);
        }
        if let Some(head) = self.head.clone() {
            self.drop_pins(&head, &mut step);
        }
        out.steps.push(step);
    }

    /// Restores the live rollout. Pins decide: a move was made only if the pin shows it.
    fn revive(
        &mut self,
        now: Now,
        mut rollout: Rollout,
        to: Incarnation,
        rows: BTreeMap<AssetId, TargetRecord>,
        out: &mut Effects,
    ) {
        let at = self.clock.at(now);
        // Health has to be checked again after a takeover.
        rollout.health = None;
        catch_up(&mut rollout, rows.values());
        let going_back = matches!(rollout.state, State::RollingBack { .. });
        let idle = rollout.idle;
        let behind = self.left_behind(&rollout, &to);
        let mut live = self.live_again(at, rollout, to, &rows);
        let mut step = Step::default();
        for (id, row) in rows {
            self.revive_row(&mut live, id, row, &mut step);
        }
        if going_back {
            live.turn_back(false, false);
            self.revive_back(&mut live);
        }
        let held: Vec<AssetId> = live.held().map(|(asset, _)| asset.clone()).collect();
        live.rollout.idle = idle;
        let to = live.to.no();
        self.live = Some(live);
        for asset in behind {
            // The step that let go of the asset was only partly made.
            if self.pin_of(&asset).is_at(to) {
                let goes = self.stays(&asset);
                self.pin(now, &asset, goes, &mut step);
            }
        }
        self.look_for_others(&held);
        self.keep_left_out(now, &mut step);
        out.steps.push(step);
        // Reports that the last owner received but did not store are not repeated.
        let pins: Vec<_> = self.pins.clone().into_iter().collect();
        self.statuses_changed(now, pins, out);
    }

    /// Returns the assets that a live rollout continues without, because they failed in it.
    fn left_behind(&self, rollout: &Rollout, to: &Incarnation) -> Vec<AssetId> {
        if !matches!(rollout.state, State::Running | State::Paused) {
            return Vec::new();
        }
        let failed = |(asset, failed): &(&AssetId, &Quarantined)| {
            let content = to.asset(asset).map(|it| it.digest());
            content.is_some_and(|content| failed.failed_in(rollout.id, content))
        };
        let behind = self.quarantine.iter().filter(failed);
        behind.map(|(asset, _)| asset.clone()).collect()
    }

    /// Restores the rollout with its targets, as if none had moved.
    fn live_again(
        &self,
        at: Timestamp,
        rollout: Rollout,
        to: Incarnation,
        rows: &BTreeMap<AssetId, TargetRecord>,
    ) -> Live {
        // While the rollout goes on, it continues without the content that failed in it.
        let failed = matches!(
            rollout.state,
            State::Stopped { .. } | State::RollingBack { .. }
        );
        let found = self.candidates(&to, failed.then_some(rollout.id));
        let own = |id: &AssetId| rows.get(id).filter(|row| row.rollout == rollout.id);
        // Assets that an earlier rollout moved are part of this one, even if they already have the new content,
        // unless they are left out.
        let taken_over =
            |id: &AssetId| self.governs(&to, id) && found.left_out.binary_search(id).is_err();
        let moved = rows.keys().filter(|id| own(id).is_some() || taken_over(id));
        let moved: Vec<Asset> = moved.filter_map(|id| to.asset(id)).collect();
        let mut targets = found.targets;
        targets.extend(moved.iter().map(|asset| self.target(asset)));
        targets.sort_by(|one, other| one.asset.cmp(&other.asset));
        targets.dedup_by(|one, other| one.asset == other.asset);
        let mut left_out = found.left_out;
        left_out.extend(self.left_behind(&rollout, &to));
        left_out.sort();
        left_out.dedup();
        left_out.retain(|id| targets.binary_search_by(|t| t.asset.cmp(id)).is_err());
        let before = |id: &AssetId| match own(id) {
            Some(row) => self.held_to(row.was, id),
            None => self.before(id),
        };
        let closure = Closure::of(&targets, before, &to, &self.types);
        let from = self.head.clone();
        let at = self.resumed(at, &rollout);
        let promoted = rollout.promoted.unwrap_or(0);
        let mut live = Live::new(at, rollout, from, to, targets, left_out, closure);
        live.order = promoted;
        live
    }

    /// Returns the time at which this owner begins to watch the rollout: `at`, unless a test leaves that guard out.
    fn resumed(&self, at: Timestamp, rollout: &Rollout) -> Timestamp {
        let by_wall = rollout.started_at.checked_add(rollout.watched);
        let by_wall = by_wall.ok().filter(|_| self.planted(Bug::WallClockBase));
        by_wall.map_or(at, |by_wall| at.min(by_wall))
    }

    /// Restores the record of a target, as far as its pin confirms it.
    fn revive_row(&mut self, live: &mut Live, id: AssetId, row: TargetRecord, step: &mut Step) {
        if row.rollout != live.rollout.id {
            live.inherited.insert(id, row);
            return;
        }
        let Some(place) = live.place(&id) else {
            return;
        };
        if self.has_moved(live, &id, &row) || self.planted(Bug::TrustRows) {
            self.know_pin(live, &id, &row);
            let progress = self.progress_of(live, &id, &row);
            live.set_progress(place, progress);
            live.set_row(place, row);
        } else if self.pin_of(&id).same_place(&row.was) {
            // The target has not moved. Where it goes back to is decided when it moves.
            step.records.push(Record::Target(id, None));
        } else {
            live.inherited.insert(id, row);
        }
    }

    /// Restores the pin of an asset that is only modelled: enforcement does not report it.
    fn know_pin(&mut self, live: &Live, id: &AssetId, row: &TargetRecord) {
        if row.back_at.is_none() && self.is_modelled_only(&live.to, id) {
            let pin_status = PinStatus {
                pin: Pin::At(live.to.no(), Cause::Intent),
                content: live.to.asset(id).map(|asset| asset.digest()),
                state: SyncState::InSync {
                    since: live.time_of(row.moved_at),
                },
            };
            self.pins.insert(id.clone(), pin_status);
        }
    }

    /// Whether the pin of a target has moved as recorded: the step may have been only partly made.
    fn has_moved(&self, live: &Live, id: &AssetId, row: &TargetRecord) -> bool {
        row.back_at.is_some()
            || self.is_modelled_only(&live.to, id)
            || self.pin_of(id).is_at(live.to.no())
    }

    fn progress_of(&self, live: &Live, id: &AssetId, row: &TargetRecord) -> Progress {
        let pin_status = self.pins.get(id);
        let there = pin_status.is_some_and(|s| s.pin.is_at(live.to.no()));
        let in_sync = pin_status.is_some_and(|s| matches!(s.state, SyncState::InSync { .. }));
        match row.updated_at.map(|updated| live.time_of(updated)) {
            Some(at) if self.is_modelled_only(&live.to, id) => Progress::Updated { at },
            Some(at) if there && in_sync => Progress::Updated { at },
            Some(at) => Progress::Drifted { since: at },
            None => Progress::InFlight {
                since: live.time_of(row.moved_at),
            },
        }
    }

    /// Restores which targets of a rollback were sent back, and which are back.
    fn revive_back(&self, live: &mut Live) {
        let places = 0..live.on_the_way().len();
        for place in places {
            let asset = live.on_the_way()[place].asset.clone();
            let row = live.place(&asset).and_then(|at| live.rows[at].as_ref());
            let Some((row, since)) = row.and_then(|row| Some((row, live.time_of(row.back_at?))))
            else {
                continue;
            };
            let goal = self.goes_back(&asset, row.was);
            // The step that sent the target back may have been only partly made: then it waits again.
            let there = self.pins.get(&asset);
            let Some(pin_status) = there.filter(|pin_status| pin_status.pin.same_place(&goal))
            else {
                continue;
            };
            let back = goal == Pin::NotYet
                || self.is_modelled_only(&live.to, &asset)
                || matches!(pin_status.state, SyncState::InSync { .. });
            let progress = match back {
                true => Progress::Updated { at: since },
                false => Progress::InFlight { since },
            };
            live.set_back(place, progress);
        }
    }
}

/// Advances the watched time of a rollout to the newest time in the records of its targets: moves and settlings store
/// no record of the rollout. That time has passed, so no bake is shortened, and later moves keep their order.
fn catch_up<'a>(rollout: &mut Rollout, rows: impl Iterator<Item = &'a TargetRecord>) {
    let times = rows.flat_map(|row| [Some(row.moved_at), row.updated_at, row.back_at]);
    let Some(newest) = times.flatten().max() else {
        return;
    };
    rollout.watched = rollout.watched.max(newest);
    // A target has moved or settled since the rollout counted as idle.
    rollout.idle = rollout.idle.filter(|idle| idle.since >= newest);
}
