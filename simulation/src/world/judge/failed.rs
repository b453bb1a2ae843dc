//! Conditions on failed content: it is rolled back soon, to the group's former content, and does not come back.

use std::time::Duration;

use annealing_strategist::{Rollout, State as How};
use prodspec_model::rollout::{OnUnhealthy, RolloutPolicy};

use super::{Pinned, turn::SLACK};
use crate::{
    executor::Instant,
    gates::INTENT,
    intent::Bad,
    intent::{number, policy_number},
    world::State,
};

/// Maximum time for which an asset may serve badly if nothing delays its rollback.
const LONG: Duration = Duration::from_secs(240);

impl State {
    /// Records an acknowledged record of a rollout.
    pub fn rollout_is(&mut self, rollout: &Rollout) {
        let Some(group) = policy_number(number(rollout.policy.as_str())) else {
            return;
        };
        let (to, now) = (rollout.to.0, self.now);
        let live = &mut self.judge.groups[group].live;
        // The end of an older rollout may be recorded after the begin of the one that supersedes it.
        if rollout.id.0 >= live.0 {
            *live = (rollout.id.0, (!rollout.state.has_ended()).then_some(to));
        }
        let back = &mut self.judge.groups[group].goes_back;
        let before = back.filter(|(id, ..)| *id >= rollout.id.0);
        // A group has one rollout at a time: a later rollout replaces an earlier one.
        *back = before.filter(|(id, ..)| *id > rollout.id.0);
        match rollout.state {
            How::RollingBack { .. } => {
                *back = before.or(Some((rollout.id.0, to, now)));
                if before.is_none() {
                    self.has_failed(group, rollout.id.0, to);
                }
                self.all_failed(group, to);
            }
            How::Stopped { .. } if stopped_itself(rollout) => {
                self.has_stopped(group, rollout.id.0, to);
            }
            How::RolledBack { .. } => {
                self.judge_gone(group, to);
                self.judge_there(group, to);
            }
            _ => {}
        }
    }

    /// Records that the new content of a rollout has failed, also for targets that it has not reached. Only for groups
    /// without edges: an edge may bring an asset's content for another reason.
    fn all_failed(&mut self, group: usize, to: u32) {
        let plain = self.plan.groups[group].loose && self.scenario.is_calm();
        if !plain || self.is_forgiven(group) {
            return;
        }
        self.judge.look("not reached");
        for (at, mark) in self.brought_by(group, to) {
            let pinned = self.judge.eyes[at].pinned;
            if self.follows(at, group) && pinned.is_none_or(|(no, _)| no != to) {
                let before = self.judge.eyes[at].failed.replace(mark);
                if before != Some(mark) {
                    self.waited(group, at, mark);
                }
            }
        }
    }

    /// The contents that a rollout to `to` brings: asset numbers, each with a mark. An asset that names no policy at `to`
    /// still belongs to the group in which it was.
    pub(super) fn brought_by(&self, group: usize, to: u32) -> Vec<(usize, u64)> {
        let Some(head) = self.judge.groups[group].head else {
            return Vec::new();
        };
        let all = 0..self.plan.wishes.len();
        let group_of = |at: usize| self.group_at(to, at).or(self.group_at(head, at));
        let ours = all.filter(|at| group_of(*at) == Some(group));
        let new = ours.filter_map(|at| {
            let there = self.mark_at(to, at);
            Some((at, there.filter(|_| there != self.mark_at(head, at))?))
        });
        new.collect()
    }

    /// The group whose policy an asset names at an incarnation.
    pub(super) fn group_at(&self, incarnation: u32, at: usize) -> Option<usize> {
        self.plan_at(incarnation)?.wishes[at].group
    }

    /// R22: once a rollout is recorded as rolled back, no asset is pinned to its incarnation. Pins that moved under an
    /// earlier owner do not count, because their moves may not have been acknowledged.
    fn judge_gone(&mut self, group: usize, to: u32) {
        let Some(head) = self.judge.groups[group].head else {
            return;
        };
        self.judge.look("gone");
        let still = |at: &usize| {
            let eye = &self.judge.eyes[*at];
            let pinned = eye.pinned.filter(|(_, since)| *since > self.judge.owned);
            let there = pinned.is_some_and(|(no, _)| no == to) && !eye.goes_back;
            there && self.follows(*at, group) && self.mark_at(to, *at) != self.mark_at(head, *at)
        };
        let found = (0..self.plan.wishes.len()).find(still);
        if let Some(at) = found.filter(|_| !self.is_forgiven(group)) {
            let what = format!(
                "the rollout of @{to} is rolled back, and asset/{at:02} is still pinned to it"
            );
            self.violated("R22", what);
        }
    }

    /// R22: once a rollout is recorded as rolled back, the assets that it moved have the content at their pins, except
    /// after manual changes.
    fn judge_there(&mut self, group: usize, to: u32) {
        self.judge.look("back");
        let missing = |at: &usize| {
            let eye = &self.judge.eyes[*at];
            let pinned = eye.pinned.filter(|(_, since)| *since > self.judge.owned);
            let moved = eye.back_from.is_some_and(|(from, _)| from == to);
            let back = eye.goes_back && moved && self.follows(*at, group);
            let pinned = pinned.filter(|_| back);
            let by_hand = self.judge.cures.drifted.contains_key(at);
            pinned.is_some_and(|(no, _)| {
                let there = self.production.resources[*at].content.map(|it| it.mark);
                !by_hand && there != self.mark_at(no, *at)
            })
        };
        if let Some(at) = (0..self.plan.wishes.len()).find(missing) {
            let what = format!(
                "a rollout is rolled back, and asset/{at:02} does not have the content at its pin"
            );
            self.violated("R22", what);
        }
    }

    /// R22: after the phase with faults, each rollback ends in time, whatever is edited meanwhile.
    pub fn judge_ways_back(&mut self) {
        if !self.healed {
            return;
        }
        for group in 0..self.plan.groups.len() {
            let eye = &self.judge.groups[group];
            let Some((_, to, since)) = eye.goes_back else {
                continue;
            };
            let since = since.max(self.judge.healed).max(self.judge.owned);
            let long = self.now.since(since);
            if long > self.scenario.drift_period * 4 + self.bakes() {
                let what = format!("the rollback from @{to} has not ended after {long:?}");
                self.violated("R22", what);
            }
        }
    }

    /// Whether an asset is pinned to content that never settles.
    pub fn never_settles(&self, at: usize) -> bool {
        let pinned = self.judge.eyes[at].pinned;
        let plan = pinned.and_then(|(no, _)| self.plan_at(no));
        plan.is_some_and(|plan| plan.wishes[at].bad == Bad::NeverSettles)
    }

    /// Whether enforcement leaves an asset alone: its pin is `NotYet`, or the incarnation of its intent lacks it.
    pub fn is_left_running(&self, at: usize) -> bool {
        let known = self.judge.pins.get(&at) != Some(&Pinned::Moving);
        let there = self.judge.eyes.get(at);
        there.is_some_and(|eye| eye.nowhere || (known && self.intended(at).is_none()))
    }

    /// Whether a rollout to `to` cannot move an asset: it is left alone, left out, or absent from `to`.
    pub fn is_out_of_reach(&self, at: usize, to: u32) -> bool {
        let known = at < self.judge.eyes.len();
        let absent = self.mark_at(to, at).is_none();
        known && (absent || self.is_left_running(at) || self.is_left_out(at))
    }

    /// R22: a rollback brings content that its group has completed at some time.
    pub(super) fn judge_where(&mut self, at: usize, group: usize, mark: u64) {
        let heads = &self.judge.groups[group].heads;
        if heads.is_empty() || !self.scenario.is_calm() || !self.follows(at, group) {
            return;
        }
        let known = heads
            .iter()
            .any(|head| self.mark_at(*head, at) == Some(mark));
        self.judge.look("where");
        if !known && !self.is_forgiven(group) {
            let what =
                format!("asset/{at:02} is rolled back to content that its group never completed");
            self.violated("R22", what);
        }
    }

    /// R21, R22: an asset that serves badly is rolled back in time, unless its policy or an operator decides otherwise.
    pub(super) fn judge_soon(&mut self, at: usize) {
        let Some(group) = self.plan.wishes[at].group else {
            return;
        };
        let eye = &self.judge.eyes[at];
        let head = self.judge.groups[group].head;
        let Some((to, since)) = eye.pinned.filter(|_| !eye.goes_back) else {
            return;
        };
        let said = self.judge.words.iter().any(|word| word.is_of(group));
        let loose = self.plan.groups[group].loose && self.scenario.is_calm() && !said;
        if !loose || !self.follows(at, group) || head.is_none_or(|head| to <= head) {
            return;
        }
        let quick = |policy: &&RolloutPolicy| {
            let limited = policy.max_in_flight.is_some() || policy.max_unavailable.is_some();
            policy.on_unhealthy == OnUnhealthy::RollBack && !limited
        };
        if !self.policies(group, to).iter().all(quick) {
            return;
        }
        self.judge.look("soon");
        let resource = &self.production.resources[at];
        let arrived = self.judge.eyes[at].arrived;
        let new = arrived.filter(|(mark, _)| Some(*mark) == self.mark_at(to, at));
        let long = |(_, when): (u64, Instant)| when.max(since) + LONG < self.now;
        if resource.serves_badly() && new.is_some_and(long) {
            let what = format!("asset/{at:02} serves badly at @{to} and is not rolled back");
            self.violated("R22", what);
        }
    }

    /// R17: a group has one rollout at a time; a newer one begins early only if the older one has failed.
    pub(super) fn judge_in_turn(&mut self, at: usize, group: usize, to: u32) {
        let told = self.judge.words.iter().any(|word| word.is_of(group));
        if told || self.judge.eyes[at].late {
            return;
        }
        self.judge.look("in turn");
        let head = self.judge.groups[group].head;
        let mut all = 0..self.plan.wishes.len();
        let under_way = all.find(|other| {
            let eye = &self.judge.eyes[*other];
            let older = eye
                .pinned
                .filter(|(no, _)| *no < to && head.is_some_and(|head| *no > head));
            older.is_some_and(|(_, when)| when + SLACK < self.now)
                && !eye.goes_back
                && !eye.late
                && self.follows(*other, group)
        });
        let Some(other) = under_way else { return };
        let since = self.judge.eyes[other].pinned.map(|(_, since)| since);
        if !self.has_served_badly(group, since.unwrap_or_default()) {
            let what = format!(
                "asset/{at:02} moves to @{to} while asset/{other:02} belongs to an older rollout that is healthy"
            );
            self.violated("R17", what);
        }
    }

    /// Whether any asset of a group, or one that may have left it, serves badly or did so at `since`, less [`LONG`], or
    /// later.
    fn has_served_badly(&self, group: usize, since: Instant) -> bool {
        let bad = |at: &usize| {
            let errors = &self.production.resources[*at].errors;
            let last = errors.last();
            last.is_some_and(|(when, bad)| *bad || *when + LONG > since)
        };
        let ours = |at: &usize| {
            let wish = &self.plan.wishes[*at];
            wish.group == Some(group) || !wish.steady
        };
        (0..self.plan.wishes.len()).filter(ours).any(|at| bad(&at))
    }

    /// Records a push of the cause `Rollback`: the asset's content before it has failed, unless an exception holds.
    pub(super) fn judge_back(&mut self, at: usize, group: usize) {
        if self.gates.is_closed(INTENT, at, self.now) {
            self.judge.look("R6");
        }
        self.goes_on(group);
        self.judge.look("R22");
        let from = self.judge.eyes[at].back_from.map(|(from, _)| from);
        // A newer incarnation supersedes a first turnup at once: then the older content need not have failed.
        let head = self.judge.groups[group].head;
        let superseded = head.is_none() && from.is_none_or(|from| !self.is_gradual(group, from));
        // A completion since the pin moved back has released failed content.
        let completed = self.judge.groups[group].completed_at;
        let pinned = self.judge.eyes[at].pinned;
        let forgotten = pinned.is_some_and(|(_, since)| since < completed);
        // The intent at the start of the rollback counts for all targets, although some go back much later.
        let turned = self.judge.groups[group].goes_back;
        let turned = turned.filter(|(_, to, _)| from == Some(*to));
        let since = turned.map(|(.., since)| since);
        let since = since.or(pinned.map(|(_, since)| since));
        let reverted = since.is_some_and(|since| self.is_reverted(at, head, since));
        let forgiven = self.is_forgiven(group) || superseded || forgotten || reverted;
        let failed = from.and_then(|from| self.mark_at(from, at));
        let eye = &mut self.judge.eyes[at];
        let was = eye.forward.take().map(|(_, mark)| mark);
        // Its former content may have been superseded already by content that failed before it arrived.
        let was = was.filter(|mark| failed.is_none_or(|failed| failed == *mark));
        eye.failed = was.filter(|_| !forgiven && !eye.again).or(eye.failed);
    }

    /// R17: whether the newest intent at the time `then` had reverted the new content, which then has not failed. The
    /// newest incarnation at that time is known only within [`SLACK`]; any possible one counts.
    fn is_reverted(&self, at: usize, head: Option<u32>, then: Instant) -> bool {
        let before = head.and_then(|head| self.mark_at(head, at));
        let sealed = self.sealed.acknowledged_at.iter().rev();
        let later = sealed.skip_while(|(_, since)| **since > then + SLACK);
        let maybe = later
            .clone()
            .take_while(|(_, since)| **since + SLACK > then);
        let newest = later.clone().find(|(_, since)| **since + SLACK <= then);
        // A written incarnation can be read before its seal is acknowledged.
        let sealed = &self.sealed;
        let acknowledged = |no: &&u32| sealed.acknowledged_at.contains_key(no);
        let written = sealed.written.keys().filter(|no| !acknowledged(no));
        let sealed = maybe.chain(newest).map(|(no, _)| no);
        let mut newest = sealed.chain(written).map(|no| self.mark_at(*no, at));
        before.is_some() && newest.any(|wanted| wanted == before)
    }

    /// R22: failed content is not rolled out again without a command.
    pub(super) fn judge_failed(&mut self, at: usize, group: usize, mark: u64) {
        if self.is_forgiven(group) {
            self.judge.eyes[at].failed = None;
        }
        if self.judge.eyes[at].failed == Some(mark) {
            let what = format!("asset/{at:02} gets quarantined content again");
            self.violated("R22", what);
        }
    }
}

/// Whether the strategist stopped a rollout, and not an operator.
fn stopped_itself(rollout: &Rollout) -> bool {
    let what = rollout.state.to_string();
    let mut history = rollout.history.iter().rev();
    let stop = history.find(|entry| entry.what == what);
    stop.is_none_or(|stop| stop.by.is_none())
}
