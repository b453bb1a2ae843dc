//! Begins a rollout when the group has changes to roll out and no live rollout has to end first.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{Cause, Now, RolloutId};
use prodspec_model::Incarnation;

use super::{
    Effects, Kernel, Record, Step,
    candidates::Candidates,
    state::{live::Live, targets::Targets},
};
use crate::record::{Rollout, State};

impl Kernel {
    /// Begins a rollout, or rolls the live one back, if that is due.
    pub(super) fn consider(&mut self, now: Now, out: &mut Effects) {
        if self.pending.is_asked() && self.is_taken_back() {
            self.take_back(now, out);
        }
        // The rollout of a change begins with it, and another one only when an operator turns the way back.
        if self.is_change || !self.pending.is_asked() || !self.may_begin() {
            return;
        }
        self.pending.looked();
        if self.group.is_unknown() || !self.is_due() {
            return;
        }
        if self.group.follows_latest() {
            return self.follow(out);
        }
        let nothing = self.pending.is_nothing() && self.pins.is_empty();
        if nothing && self.live.is_none() {
            self.pending.leave_out(&[]);
            return self.follow_from_afar(out);
        }
        let mut found = self.candidates(self.group.latest(), None);
        self.pending.leave_out(&found.left_out);
        match (found.targets.is_empty(), found.left_out.is_empty()) {
            (false, _) => {
                let first = |live: &Live| *live.state() == State::Running;
                if self.live.as_ref().is_some_and(first) {
                    self.add_moved(None, &mut found);
                }
                self.begin(now, found, out);
            }
            _ if self.live.as_ref().is_some_and(|live| self.is_void(live)) => {
                self.begin(now, found, out);
            }
            (true, true) if self.live.is_none() => self.follow(out),
            _ => {}
        }
    }

    pub(super) fn begin(&mut self, now: Now, mut found: Candidates, out: &mut Effects) {
        self.none_is_late(&mut found.targets);
        let at = self.clock.at(now);
        let id = self.past.number();
        let mut step = Step::default();
        let rollout = self.rollout(at, id, &found);
        step.records.push(rollout.record());
        let old = self.live.take();
        let inherited = old.map(|old| self.supersede(now, old, id, &found, &mut step, out));
        let (from, to) = (self.group.head().cloned(), self.group.latest().clone());
        let closure = self.closure(&found.targets, |id| self.before(id), &to);
        step.records
            .extend(Rollout::forgotten_for(id).map(Record::Forget));
        let targets = Targets::new(found.targets, closure, 0);
        let mut live = Live::new(at, rollout, from, to, targets, found.left_out);
        for (asset, row) in inherited.unwrap_or_default() {
            live.inherit(asset, row);
        }
        self.live = Some(live);
        self.pending.taken_up();
        self.keep_left_out(now, &mut step);
        out.steps.push(step);
        let released = std::mem::take(&mut out.released);
        self.let_go(&released, out);
        out.released = released;
    }

    fn rollout(&self, at: Timestamp, id: RolloutId, found: &Candidates) -> Rollout {
        let policy = self.group.policy().clone();
        let from = self.group.head().map(Incarnation::no);
        let mut rollout = Rollout::new(id, policy, from, self.group.latest().no(), at);
        // The new rollout continues the time of the one it takes over, so that the order of their moves is kept.
        rollout.watched = self
            .live
            .as_ref()
            .map_or(Duration::ZERO, |live| live.rollout().watched);
        let removed = self.group.removed_policy();
        rollout.removed_policy = removed.map(|asset| asset.canonical().to_owned());
        let many = found.targets.len();
        rollout.note(at, format!("began with {many} targets"), None);
        for asset in found.left_out.iter().take(10) {
            let new = self.group.latest().asset(asset).map(|new| new.digest());
            let failed = new.and_then(|new| self.quarantine.find(asset, new));
            let why = match failed.map(|failed| failed.reached) {
                Some(true) => "its content failed before",
                Some(false) => "its content was part of a rollout that failed",
                None => "it waits for an asset whose content failed before",
            };
            rollout.note(at, format!("leaves out `{asset}`: {why}"), None);
        }
        rollout
    }

    /// Pins assets that are left out to where they are, so that they stay when the group's head moves.
    pub(super) fn keep_left_out(&mut self, now: Now, step: &mut Step) {
        let left_out = self.live.as_ref().map(|live| live.left_out().to_vec());
        for asset in left_out.unwrap_or_default() {
            if self.pins.status(&asset).is_none() && self.governs(self.group.latest(), &asset) {
                let goes = self.group.default_pin(&asset, Cause::Intent);
                self.pin(now, &asset, goes, step);
            }
        }
    }
}
