//! Conditions on moves of pins: moves forward come in turn, and rollbacks of failed content come first, in reverse
//! order.

use prodspec_model::rollout::{OnUnhealthy, RolloutPolicy};

use super::turn::SLACK;
use crate::{executor::Instant, intent::Bad, production::LONGEST, world::State};

impl State {
    /// Judges the pins that the current commit moved.
    pub fn judge_moves(&mut self) {
        for at in std::mem::take(&mut self.judge.moved) {
            let wish = self.plan.wishes[at];
            let followed = wish.steady && !self.scenario.meddling;
            let Some(group) = wish.group.filter(|_| followed) else {
                continue;
            };
            let eye = &self.judge.eyes[at];
            match (eye.goes_back, eye.pinned) {
                (true, _) => {
                    self.judge_stops(at, group);
                    self.judge_order(at, group);
                }
                (false, Some((to, _))) => self.judge_newer(at, group, to),
                _ => {}
            }
        }
    }

    /// R22: with a policy that only stops on bad health, an asset is rolled back only on a command, or if intent has
    /// changed again. A pin that returns to the same content rolls nothing back: an asset goes back so when the rest of
    /// its rollout is reverted, and a fix had given it its earlier content before.
    fn judge_stops(&mut self, at: usize, group: usize) {
        let Some((from, _)) = self.judge.eyes[at].back_from else {
            return;
        };
        let had = self.mark_at(from, at);
        let to = self.judge.eyes[at].pinned.map(|(to, _)| to);
        if to.is_some_and(|to| self.mark_at(to, at) == had) {
            return;
        }
        let policies = self.policies(group, from);
        let stops = policies
            .iter()
            .all(|policy| policy.on_unhealthy == OnUnhealthy::Stop);
        if !stops {
            return;
        }
        self.judge.look("halts");
        if self.is_told_back(group) {
            return;
        }
        let mut newer = self.sealed.accepted.range(from..).flat_map(|(_, all)| all);
        if newer.all(|it| it.marks.get(&at).copied() == had) {
            let what = format!(
                "asset/{at:02} is rolled back from @{from} without a command, although the policy only stops"
            );
            self.violated("R22", what);
        }
    }

    /// R22: the targets of a rollout are rolled back in reverse order, unless a limit on unavailable targets prevents
    /// it.
    fn judge_order(&mut self, at: usize, group: usize) {
        let eye = &self.judge.eyes[at];
        let Some((from, since)) = eye.back_from.filter(|_| !eye.again) else {
            return;
        };
        let policies = self.policies(group, from);
        let roomy = policies
            .iter()
            .all(|policy| policy.max_unavailable.is_none());
        if !roomy || !self.scenario.is_calm() || !self.plan.groups[group].loose {
            return;
        }
        self.judge.look("order");
        // Only moves back since the start of the rollback count: an asset that the rollout leaves out, because its content
        // failed before, goes back when the rollout begins.
        let turned = self.judge.groups[group].goes_back;
        let turned = turned.map_or(Instant::default(), |(.., since)| since);
        let gone = |other: &usize| {
            let eye = &self.judge.eyes[*other];
            let sent = |at: Instant| at + SLACK < self.now && at + SLACK >= turned;
            let sent = eye.pinned.is_some_and(|(_, at)| sent(at));
            let moved = eye.back_from.is_some_and(|(no, _)| no == from);
            sent && moved && eye.goes_back && self.follows(*other, group)
        };
        let settled = |other: &usize| self.had_settled(*other, from, since);
        let mut all = 0..self.plan.wishes.len();
        if let Some(earlier) = all.find(|other| gone(other) && settled(other)) {
            let what = format!(
                "asset/{at:02} is rolled back from @{from} after asset/{earlier:02}, which had moved before it"
            );
            self.violated("R22", what);
        }
    }

    /// Whether an asset had settled at an incarnation long before `then`. Targets that had not settled are rolled back
    /// at once, and bad content may never settle.
    fn had_settled(&self, at: usize, incarnation: u32, then: Instant) -> bool {
        let plan = self.plan_at(incarnation);
        let serves = plan.is_some_and(|plan| plan.wishes[at].bad == Bad::Not);
        let since = self.judge.eyes[at].had(self.mark_at(incarnation, at));
        serves && since.is_some_and(|since| since + LONGEST + SLACK < then)
    }

    /// R17, R18: an asset moves to newer content only if its policy has no hold, and after failed content was rolled
    /// back or replaced.
    fn judge_newer(&mut self, at: usize, group: usize, to: u32) {
        let head = self.judge.groups[group].head;
        if !self.scenario.is_calm() || head.is_none_or(|head| to <= head) {
            return;
        }
        self.judge.look("newer");
        if self.is_held(group) {
            let what = format!("asset/{at:02} moves to @{to} although its policy has a hold");
            return self.violated("R18", what);
        }
        self.judge_urgent(at, group, to);
        self.judge_in_turn(at, group, to);
        let late = |other: &usize| {
            let eye = &self.judge.eyes[*other];
            let from = eye.back_from.map(|(from, _)| from);
            let failed = from.and_then(|from| self.mark_at(from, *other));
            let there = eye.arrived.is_some_and(|(mark, _)| Some(mark) == failed);
            let wanted = self.mark_at(to, *other) == failed;
            eye.goes_back && there && wanted && self.follows(*other, group)
        };
        let late = (0..self.plan.wishes.len()).find(late);
        if let Some(late) = late.filter(|_| !self.is_forgiven(group)) {
            let what =
                format!("asset/{at:02} moves to @{to} before asset/{late:02} is rolled back");
            self.violated("R17", what);
        }
    }

    /// R6, R18: a pin moves for the cause `Emergency` only if a policy declares an emergency.
    fn judge_urgent(&mut self, at: usize, group: usize, to: u32) {
        if !self.judge.eyes[at].urgent {
            return;
        }
        self.judge.look("emergency");
        let mut policies = self.policies_now(group).into_iter();
        if policies.all(|policy| policy.emergency.is_none()) {
            let what = format!(
                "asset/{at:02} moves to @{to} as in an emergency, and no policy declares one"
            );
            self.violated("R6", what);
        }
    }

    /// Whether the oldest policy that may still be in use has a hold, and every newer one too.
    fn is_held(&self, group: usize) -> bool {
        let mut policies = self.policies_now(group).into_iter();
        policies.all(|policy| policy.hold.is_some())
    }

    /// The policies that may be in use now.
    fn policies_now(&self, group: usize) -> Vec<&RolloutPolicy> {
        let in_force = self.sealed.acknowledged_at.iter().rev();
        let mut in_force = in_force.filter(|(_, since)| **since + SLACK < self.now);
        let oldest = in_force.next().map_or(0, |(no, _)| *no);
        self.policies(group, oldest)
    }

    /// Whether an asset has been in the group all the time and moves with its rollouts.
    pub(super) fn follows(&self, at: usize, group: usize) -> bool {
        let wish = self.plan.wishes[at];
        wish.steady && wish.group == Some(group) && !self.judge.eyes[at].again
    }
}
