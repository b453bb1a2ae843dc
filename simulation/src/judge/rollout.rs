//! What the judge asks of rollouts: who went first, who had its turn, what came back. It knows the contents that were
//! sealed, the policies that people wanted, and what production had when; nothing of what the strategist thinks.

use std::{sync::Arc, time::Duration};

use annealing_strategist::Command;
use plugin_sdk::Cause;
use prodspec_model::{Message, addons::Turndown, rollout::RolloutPolicy};

use super::Call;
use crate::{
    executor::Instant,
    intent::{CLUSTERS, Plan},
    world::State,
};

/// By how much two right clocks differ at most.
const SLACK: Duration = Duration::from_millis(2500);

/// What was seen of one asset.
#[derive(Debug, Clone, Copy, Default)]
pub struct Eye {
    /// The content that it was last pushed to.
    last: Option<u64>,
    /// The incarnation and content that a rollout moved it to.
    forward: Option<(u32, u64)>,
    /// Since when it has had its content.
    arrived: Option<(u64, Instant)>,
    /// Until when somebody could see how it serves.
    seen: Option<Instant>,
    /// The content that it was taken back from.
    failed: Option<u64>,
}

/// What was seen of one policy group.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupEye {
    /// The incarnation that it completed last.
    pub head: Option<u32>,
    /// Content of it has failed before.
    pub failed: bool,
    promoted: Option<Instant>,
    forgiven: Option<Instant>,
}

impl Eye {
    /// A sample of this time was shown to somebody.
    pub fn seen_well(&mut self, at: Instant) {
        self.seen = self.seen.max(Some(at));
    }
}

/// The least caution that any policy asked for which may be in force.
struct Least {
    canary: Option<(usize, usize, Duration)>,
    unavailable: Option<usize>,
    order: Option<(Vec<String>, Duration)>,
}

impl State {
    /// The content of an asset at an incarnation, if it was ever accepted with one.
    pub fn mark_at(&self, incarnation: u32, at: usize) -> Option<u64> {
        let all = self.sealed.validated.get(&incarnation)?;
        all.last()?.get(&at).copied()
    }

    fn plan_at(&self, incarnation: u32) -> Option<&Arc<Plan>> {
        self.sealed.plans.get(&incarnation)?.last()
    }

    /// Whether an asset has to be looked at: one that no rollout has reached is left alone.
    pub fn is_due(&self, at: usize) -> bool {
        let wish = &self.plan.wishes[at];
        let head = wish.group.and_then(|group| self.judge.groups[group].head);
        !wish.pool || head.is_some_and(|head| self.mark_at(head, at).is_some())
    }

    /// A person says something to a rollout; it may be heard until then.
    pub fn said(&mut self, group: usize, word: Command, until: Instant) {
        let eye = &mut self.judge.groups[group];
        match word {
            Command::Promote => eye.promoted = Some(until),
            Command::Retry => eye.forgiven = Some(until),
            _ => {}
        }
    }

    /// A group has completed a rollout: content that failed, and is no longer wanted, is forgotten.
    pub fn completed(&mut self, group: usize, head: u32) {
        self.judge.groups[group].head = Some(head);
        for at in 0..self.judge.eyes.len() {
            let there = self.mark_at(head, at);
            let eye = &mut self.judge.eyes[at];
            eye.failed = eye.failed.filter(|failed| there == Some(*failed));
        }
    }

    /// A push took effect.
    pub(super) fn arrived(&mut self, at: usize) {
        let now = self.now;
        let there = self.production.resources[at].content.map(|it| it.mark);
        let eye = &mut self.judge.eyes[at];
        let before = eye.arrived.map(|(mark, _)| mark);
        if before != there {
            eye.arrived = there.map(|mark| (mark, now));
        }
    }

    /// R17, R18, R21, R22: a push of a governed asset that brings other content is one whose turn it is.
    pub(super) fn judge_rollout(&mut self, at: usize, call: &Call<'_>) {
        let mark = self.production.content(call.asset).mark;
        let mark = (!call.asset.has_addon(Turndown::TYPE)).then_some(mark);
        let before = std::mem::replace(&mut self.judge.eyes[at].last, mark);
        let wish = self.plan.wishes[at];
        let Some(group) = wish.group.filter(|_| wish.steady && before != mark) else {
            return;
        };
        let Some(mark) = mark else { return };
        let eye = self.judge.groups[group];
        let back = eye
            .head
            .is_some_and(|head| self.mark_at(head, at) == Some(mark));
        let cause = call.cause.unwrap_or(Cause::Intent);
        if cause == Cause::Rollback {
            return self.judge_back(at, group);
        }
        let forward = self.judge.eyes[at].forward;
        if back && let Some((no, _)) = forward.filter(|(no, _)| *no >= call.incarnation) {
            self.judge.eyes[at].forward = None;
            if cause == Cause::Intent {
                let what = format!("asset/{at:02} goes back from @{no} as if that were intent");
                self.violated("R22", what);
            }
            return;
        }
        self.judge_turn(at, group, call.incarnation, cause);
        let eye = &mut self.judge.eyes[at];
        eye.forward = Some((call.incarnation, mark));
        self.judge_failed(at, group, mark);
    }

    /// It goes back: what it had has failed.
    fn judge_back(&mut self, at: usize, group: usize) {
        self.judge.look("R22");
        let forgiven = self.is_forgiven(group);
        let eye = &mut self.judge.eyes[at];
        let was = eye.forward.take().map(|(_, mark)| mark);
        eye.failed = was.filter(|_| !forgiven).or(eye.failed);
    }

    fn is_forgiven(&self, group: usize) -> bool {
        let forgiven = self.judge.groups[group].forgiven;
        forgiven.is_some_and(|until| self.now < until)
    }

    /// R22: what failed does not come back by itself.
    fn judge_failed(&mut self, at: usize, group: usize, mark: u64) {
        if self.is_forgiven(group) {
            self.judge.eyes[at].failed = None;
        }
        if self.judge.eyes[at].failed == Some(mark) {
            let what = format!("asset/{at:02} gets content again that was taken back");
            self.violated("R22", what);
        }
    }

    /// R18, R21: canaries first, then domain by domain, each when those before it have arrived, baked and were seen.
    fn judge_turn(&mut self, at: usize, group: usize, to: u32, cause: Cause) {
        let eye = self.judge.groups[group];
        let promoted = eye.promoted.is_some_and(|until| self.now < until);
        let Some(head) = eye.head.filter(|_| cause != Cause::Emergency && !promoted) else {
            return;
        };
        let Some(plan) = self.plan_at(to).cloned() else {
            return;
        };
        let targets: Vec<usize> = (0..plan.wishes.len())
            .filter(|it| plan.wishes[*it].group == Some(group))
            .filter(|it| self.mark_at(to, *it) != self.mark_at(head, *it))
            .collect();
        let Some(least) = self.least(group, to) else {
            return;
        };
        let loose = plan.groups[group].loose;
        if let Some((fewest, most, bake)) = least.canary {
            self.judge.look("R18");
            let moved = targets
                .iter()
                .filter(|it| **it != at && self.moved(**it, to));
            let moved = moved.count();
            let over = targets.iter().filter(|it| self.is_over(**it, to, bake));
            let over = over.count();
            if moved >= most && over < fewest {
                let what = format!(
                    "asset/{at:02} gets what is new in @{to}, after {moved} others of which {over} have baked: the canary comes first"
                );
                self.violated("R18", what);
            }
        }
        if !loose {
            return;
        }
        let cluster = plan.wishes[at].cluster;
        if let Some((order, bake)) = least.order.filter(|_| !eye.failed) {
            self.judge.look("R21");
            let rank = |cluster: usize| {
                let listed = order.iter().position(|name| *name == CLUSTERS[cluster]);
                (listed.unwrap_or(order.len()), cluster)
            };
            let early = targets.iter().copied().find(|it| {
                let before = rank(plan.wishes[*it].cluster) < rank(cluster);
                before && plan.wishes[*it].steady && !self.is_over(*it, to, bake)
            });
            if let Some(early) = early {
                let what = format!(
                    "asset/{at:02} gets what is new in @{to} before the domain of asset/{early:02} is over"
                );
                self.violated("R18", what);
            }
        }
        if let Some(most) = least.unavailable {
            let away = targets.iter().filter(|it| {
                **it != at && plan.wishes[**it].cluster == cluster && self.is_away(**it, to)
            });
            if away.count() >= most {
                let what = format!("more than {most} of a domain are pushed to @{to} at once");
                self.violated("R18", what);
            }
        }
    }

    fn moved(&self, at: usize, to: u32) -> bool {
        let eye = &self.judge.eyes[at];
        eye.forward.is_some_and(|(no, _)| no == to)
    }

    fn is_away(&self, at: usize, to: u32) -> bool {
        let eye = &self.judge.eyes[at];
        let arrived = eye.arrived.map(|(mark, _)| mark);
        self.moved(at, to) && arrived != self.mark_at(to, at)
    }

    /// Whether an asset has had what is new for `bake`, and somebody could see since that it is well.
    fn is_over(&self, at: usize, to: u32, bake: Duration) -> bool {
        let eye = &self.judge.eyes[at];
        let arrived = eye
            .arrived
            .filter(|(mark, _)| self.mark_at(to, at) == Some(*mark));
        arrived.is_some_and(|(_, since)| {
            let baked = since + bake;
            let by_clock = self.judge.jumped || self.now + SLACK >= baked;
            let seen = eye.seen.is_some_and(|seen| seen + SLACK >= baked);
            by_clock && (self.judge.jumped || seen)
        })
    }

    /// The policies that may be in force since `to` was wanted. `None`: one of them asks for no caution.
    fn least(&self, group: usize, to: u32) -> Option<Least> {
        let plans = self.sealed.plans.range(to..).flat_map(|(_, plans)| plans);
        let policies: Vec<&RolloutPolicy> = plans.map(|plan| &plan.groups[group].policy).collect();
        if policies.iter().any(|policy| policy.emergency.is_some()) {
            return None;
        }
        let secs = |bakes: Vec<u64>| Duration::from_secs(bakes.into_iter().min().unwrap_or(0));
        let canaries: Option<Vec<_>> = policies.iter().map(|p| p.canary.as_ref()).collect();
        let canary = canaries.map(|all| {
            let counts = || all.iter().map(|canary| canary.count as usize);
            let bake = secs(all.iter().map(|canary| canary.bake_secs).collect());
            let (fewest, most) = (counts().min(), counts().max());
            (fewest.unwrap_or(0), most.unwrap_or(usize::MAX), bake)
        });
        let limits: Option<Vec<u32>> = policies.iter().map(|p| p.max_unavailable).collect();
        let unavailable = limits
            .and_then(|all| all.into_iter().max())
            .map(|most| most as usize);
        let first = policies.first()?;
        let same = policies
            .iter()
            .all(|policy| policy.domains == first.domains);
        let bake = secs(policies.iter().map(|policy| policy.bake_secs).collect());
        let order = (same && !first.domains.is_empty()).then(|| (first.domains.clone(), bake));
        Some(Least {
            canary,
            unavailable,
            order,
        })
    }

    /// R22: in the end nothing serves badly that served well before.
    pub(super) fn judge_stubborn(&mut self, at: usize) {
        self.judge.look("R22");
        let head = self.plan.wishes[at]
            .group
            .and_then(|group| self.judge.groups[group].head);
        let before = head.is_some_and(|head| self.mark_at(head, at).is_some());
        if before && self.production.resources[at].serves_badly() {
            let there = self.production.resources[at].clone();
            let what = format!("asset/{at:02} still has what failed: {there:?}");
            self.violated("R22", what);
        }
    }

    /// How long the rollouts of all groups bake, and are looked at, at most.
    pub fn bakes(&self) -> Duration {
        let groups = self.plan.groups.iter();
        let bakes = groups.map(|group| Duration::from_secs(group.bakes() + 100));
        bakes.max().unwrap_or_default()
    }
}
