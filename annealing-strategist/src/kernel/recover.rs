//! From what is remembered to a kernel that goes on where the last one stopped, at whatever step that was.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use plane_store::records::{Standing, StandingPin, Stands};
use plugin_sdk::{AssetTypes, Now, Progress, RolloutId};
use prodspec_model::{Asset, AssetId, Incarnation};

use super::{
    Bug, Effects, Goes, Kernel, Record, Step, closure::Closure, live::Live, steady::Steady,
};
use crate::{
    config::Config,
    group::Heads,
    record::{Quarantined, Rollout, State, TargetRecord},
};

/// Everything that is remembered of a policy group.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The policy asset.
    pub policy: AssetId,
    /// The newest incarnation in force.
    pub latest: Incarnation,
    /// The incarnation whose rollout was completed last.
    pub head: Option<Incarnation>,
    /// The heads of all groups.
    pub heads: Heads,
    /// The group's newest rollout, if it ever had one.
    pub newest: Option<Rollout>,
    /// What that rollout brings, while it is under way, or as long as the head is not there.
    pub to: Option<Incarnation>,
    /// The group's assets that differ between the head and what the rollout brings.
    pub rolling: Vec<AssetId>,
    /// The group's assets that differ between that, or the head, and the newest incarnation.
    pub pending: Vec<AssetId>,
    /// What targets went through.
    pub rows: Vec<(AssetId, TargetRecord)>,
    /// Content that failed.
    pub quarantine: Vec<(AssetId, Quarantined)>,
    /// The group's assets with a pin of their own.
    pub pins: Vec<(AssetId, Standing)>,
}

impl Recovered {
    /// A group that was never rolled out, all of whose assets are `pending`.
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
    /// A kernel that takes over.
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
            clock: Steady::new(now),
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
        // What it turns out not to hold was kept from others until now.
        let gone = known.into_iter().filter(|asset| !kernel.has(asset));
        out.released.extend(gone);
        kernel.go_on(now, out);
        kernel.remember_time(now, out);
        kernel
    }

    /// A completed rollout whose last step was cut short: its head follows.
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

    /// What a step that was cut short has left: nobody holds these any more, and some follow the head by now.
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

    /// The rollout that was under way. Pins are the truth: what they say was done, was done, and nothing else.
    fn revive(
        &mut self,
        now: Now,
        mut rollout: Rollout,
        to: Incarnation,
        rows: BTreeMap<AssetId, TargetRecord>,
        out: &mut Effects,
    ) {
        let at = self.clock.at(now);
        // What was seen to be well has to be seen again.
        rollout.health = None;
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
        let to = StandingPin::At(live.to.no());
        self.live = Some(live);
        for asset in behind {
            // The step that let go of it was cut short.
            if self.pin_of(&asset) == to {
                let goes = self.stays(&asset);
                self.pin(now, &asset, goes, &mut step);
            }
        }
        self.look_for_others(&held);
        self.keep_left_out(now, &mut step);
        out.steps.push(step);
        // What was found and never remembered is not told again.
        let pins: Vec<_> = self.pins.clone().into_iter().collect();
        self.stands(now, pins, out);
    }

    /// The assets that a rollout under way goes on without, because they failed in it.
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

    /// The rollout with its targets, as if none had moved.
    fn live_again(
        &self,
        at: Timestamp,
        rollout: Rollout,
        to: Incarnation,
        rows: &BTreeMap<AssetId, TargetRecord>,
    ) -> Live {
        // While it goes on, what failed in it is what it goes on without.
        let failed = matches!(
            rollout.state,
            State::Stopped { .. } | State::RollingBack { .. }
        );
        let found = self.candidates(&to, failed.then_some(rollout.id));
        let own = |id: &AssetId| rows.get(id).filter(|row| row.rollout == rollout.id);
        // What a rollout before it moved, and was not left out, is part of it though it may have what is new already.
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
        let promoted = rollout.promoted.unwrap_or(0);
        let mut live = Live::new(at, rollout, from, to, targets, left_out, closure);
        live.order = promoted;
        live
    }

    /// What a target went through, as far as its pin says so.
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
        } else if self.pin_of(&id) == row.was {
            // Nothing has happened to it; where it goes back to is where it is when it moves.
            step.records.push(Record::Target(id, None));
        } else {
            live.inherited.insert(id, row);
        }
    }

    /// The pin of an asset that nobody enforces, and nobody tells of.
    fn know_pin(&mut self, live: &Live, id: &AssetId, row: &TargetRecord) {
        if row.back_at.is_none() && self.is_modelled_only(&live.to, id) {
            let standing = Standing {
                pin: StandingPin::At(live.to.no()),
                content: live.to.asset(id).map(|asset| asset.digest()),
                state: Stands::InSync {
                    since: live.time_of(row.moved_at),
                },
            };
            self.pins.insert(id.clone(), standing);
        }
    }

    /// Whether the pin of a target moved, as it was going to: the step may have been cut short.
    fn has_moved(&self, live: &Live, id: &AssetId, row: &TargetRecord) -> bool {
        row.back_at.is_some()
            || self.is_modelled_only(&live.to, id)
            || self.pin_of(id) == StandingPin::At(live.to.no())
    }

    fn progress_of(&self, live: &Live, id: &AssetId, row: &TargetRecord) -> Progress {
        let standing = self.pins.get(id);
        let there = standing.is_some_and(|s| s.pin == StandingPin::At(live.to.no()));
        let in_sync = standing.is_some_and(|s| matches!(s.state, Stands::InSync { .. }));
        match row.updated_at.map(|updated| live.time_of(updated)) {
            Some(at) if self.is_modelled_only(&live.to, id) => Progress::Updated { at },
            Some(at) if there && in_sync => Progress::Updated { at },
            Some(at) => Progress::Drifted { since: at },
            None => Progress::InFlight {
                since: live.time_of(row.moved_at),
            },
        }
    }

    /// Which of those that go back have been sent, and which are there.
    fn revive_back(&self, live: &mut Live) {
        let places = 0..live.on_the_way().len();
        for place in places {
            let asset = live.on_the_way()[place].asset.clone();
            let row = live.place(&asset).and_then(|at| live.rows[at].as_ref());
            let Some((row, since)) = row.and_then(|row| Some((row, live.time_of(row.back_at?))))
            else {
                continue;
            };
            let goal = match self.goes_back(&asset, row.was) {
                Goes::At(no, _) => StandingPin::At(no),
                _ => StandingPin::NotYet,
            };
            // Its way back may have been cut short too: then it waits again.
            let there = self.pins.get(&asset);
            let Some(standing) = there.filter(|standing| standing.pin == goal) else {
                continue;
            };
            let back = goal == StandingPin::NotYet
                || self.is_modelled_only(&live.to, &asset)
                || matches!(standing.state, Stands::InSync { .. });
            let progress = match back {
                true => Progress::Updated { at: since },
                false => Progress::InFlight { since },
            };
            live.set_back(place, progress);
        }
    }
}
