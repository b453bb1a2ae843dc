//! Restores the live rollout from stored records. Pins decide: a move was made only if the pin shows it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plugin_sdk::{Cause, Now, Pin, Progress, Standing, SyncState};
use prodspec_model::{Asset, AssetId, Incarnation};

use super::{
    Bug, Effects, Kernel, Record, Step, planted,
    state::{live::Live, targets::Targets},
};
use crate::record::{Rollout, State, TargetRecord};

impl Kernel {
    /// Restores the live rollout. Pins decide: a move was made only if the pin shows it.
    pub(super) fn revive(
        &mut self,
        now: Now,
        mut rollout: Rollout,
        to: Incarnation,
        contents: Incarnation,
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
        let mut live = self.live_again(at, rollout, (to, contents), &rows);
        let mut step = Step::default();
        for (id, row) in rows {
            self.revive_row(&mut live, id, row, &mut step);
        }
        if going_back {
            live.turn_back(false, false);
            self.revive_back(&mut live);
        }
        let held: Vec<AssetId> = live
            .targets()
            .held()
            .map(|(asset, _)| asset.clone())
            .collect();
        live.restore_idle(idle);
        let to = live.to().no();
        self.live = Some(live);
        for asset in behind {
            // The step that let go of the asset was only partly made.
            if self.pins.of(&asset).is_at(to) {
                let goes = self.group.default_pin(&asset, Cause::Intent);
                self.pin(now, &asset, goes, &mut step);
            }
        }
        self.look_for_others(&held);
        self.keep_left_out(now, &mut step);
        out.steps.push(step);
        // Reports that the last owner received but did not store are not repeated.
        let pins = self.pins.iter();
        let pins = pins.map(|(asset, pin)| (asset.clone(), pin.clone()));
        let pins: Vec<_> = pins.collect();
        self.standings_changed(now, pins, out);
    }

    /// Returns the assets that a live rollout continues without, because they failed in it.
    fn left_behind(&self, rollout: &Rollout, to: &Incarnation) -> Vec<AssetId> {
        if !matches!(rollout.state, State::Running | State::Paused) {
            return Vec::new();
        }
        let behind = self.quarantine.failed_in(rollout.id, to);
        behind.cloned().collect()
    }

    /// Restores the rollout with its targets, as if none had moved, from the incarnation that is rolled out and the contents
    /// of the targets.
    fn live_again(
        &self,
        at: Timestamp,
        rollout: Rollout,
        (sealed, to): (Incarnation, Incarnation),
        rows: &BTreeMap<AssetId, TargetRecord>,
    ) -> Live {
        // While the rollout goes on, it continues without the content that failed in it.
        let failed = matches!(
            rollout.state,
            State::Stopped { .. } | State::RollingBack { .. }
        );
        let found = self.candidates(&to, failed.then_some(rollout.id));
        let own = |id: &AssetId| rows.get(id).filter(|row| row.rollout == rollout.id);
        // Assets that an earlier rollout moved are part of this one, even if they already have the new content. None of
        // them is left out: that took its record. What is tied to left out assets now may not have been tied when the
        // rollout began, because contents that assets are held to may not be loaded any more.
        let moved = rows.keys();
        let moved = moved.filter(|id| own(id).is_some() || self.governs(&to, id));
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
        let closure = self.closure(&targets, before, &to);
        let from = self.group.head().cloned();
        let at = self.resumed(at, &rollout);
        let promoted = rollout.promoted.unwrap_or(0);
        let targets = Targets::new(targets, closure, promoted);
        let mut live = Live::new(at, rollout, from, sealed, targets, left_out);
        live.renew(to, &[], Vec::new());
        live
    }

    /// Returns the time at which this owner begins to watch the rollout: `at`, unless a test leaves that guard out.
    fn resumed(&self, at: Timestamp, rollout: &Rollout) -> Timestamp {
        let by_wall = rollout.started_at.checked_add(rollout.watched);
        let by_wall = by_wall.ok().filter(|_| planted(Bug::WallClockBase));
        by_wall.map_or(at, |by_wall| at.min(by_wall))
    }

    /// Restores the record of a target, as far as its pin confirms it.
    fn revive_row(&mut self, live: &mut Live, id: AssetId, row: TargetRecord, step: &mut Step) {
        if row.rollout != live.id() {
            live.inherit(id, row);
            return;
        }
        let Some(place) = live.targets().place(&id) else {
            return;
        };
        if self.has_moved(live, &id, &row) || planted(Bug::TrustRows) {
            self.know_pin(live, &id, &row);
            let progress = self.progress_of(live, &id, &row);
            live.set_progress(place, progress);
            live.targets_mut().set_row(place, row);
        } else if self.pins.of(&id).same_place(&row.was) {
            // The target has not moved. Where it goes back to is decided when it moves.
            step.records.push(Record::Target(id, None));
        } else {
            live.inherit(id, row);
        }
    }

    /// Restores the pin of an asset that is only modelled: enforcement does not report it.
    fn know_pin(&mut self, live: &Live, id: &AssetId, row: &TargetRecord) {
        if row.back_at.is_none() && self.is_modelled_only(live.contents(), id) {
            let pin = Pin::At(row.to.unwrap_or(live.to().no()), Cause::Intent);
            let content = live.contents().asset(id).map(|asset| asset.digest());
            let since = live.watch.time_of(row.moved_at);
            let state = SyncState::InSync { since };
            self.pins.know(id, Standing::at(pin, content, state));
        }
    }

    /// Whether the pin of a target has moved as recorded: the step may have been only partly made.
    fn has_moved(&self, live: &Live, id: &AssetId, row: &TargetRecord) -> bool {
        row.back_at.is_some()
            || self.is_modelled_only(live.contents(), id)
            || self.pins.of(id).is_at(row.to.unwrap_or(live.to().no()))
    }

    fn progress_of(&self, live: &Live, id: &AssetId, row: &TargetRecord) -> Progress {
        let standing = self.pins.status(id);
        let goal = row.to.unwrap_or(live.to().no());
        let there = standing.is_some_and(|s| s.pin.is_at(goal));
        let in_sync = standing.is_some_and(|s| s.state.is_in_sync());
        match row.updated_at.map(|updated| live.watch.time_of(updated)) {
            Some(at) if self.is_modelled_only(live.contents(), id) => Progress::Updated { at },
            Some(at) if there && in_sync => Progress::Updated { at },
            Some(at) => Progress::Drifted { since: at },
            None => Progress::InFlight {
                since: live.watch.time_of(row.moved_at),
            },
        }
    }

    /// Restores which targets of a rollback were sent back, and which are back.
    fn revive_back(&self, live: &mut Live) {
        let all = live.targets().on_the_way().iter();
        let all: Vec<AssetId> = all.map(|target| target.asset.clone()).collect();
        for asset in all {
            let place = live.targets().place(&asset);
            let row = place.and_then(|place| live.targets().row(place));
            let Some((row, since)) =
                row.and_then(|row| Some((row, live.watch.time_of(row.back_at?))))
            else {
                continue;
            };
            let goal = self.goes_back(&asset, row.was);
            // The step that sent the target back may have been only partly made: then it waits again.
            let there = self.pins.status(&asset);
            let Some(standing) = there.filter(|standing| standing.pin.same_place(&goal)) else {
                continue;
            };
            let back = goal == Pin::NotYet
                || self.is_modelled_only(live.contents(), &asset)
                || standing.state.is_in_sync();
            let progress = match back {
                true => Progress::Updated { at: since },
                false => Progress::InFlight { since },
            };
            live.set_back(&asset, progress);
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
