//! What the judge asks of who goes first: canaries, domains, room. A policy may be edited while pins are on their way, so
//! the least caution counts that any policy asked for which may have been read.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::Cause;
use prodspec_model::rollout::{Amount, FirstTurnup, RolloutPolicy};

use crate::{
    intent::{CLUSTERS, Plan, Wish},
    world::State,
};

/// By how much two right clocks differ at most.
pub(super) const SLACK: Duration = Duration::from_millis(2500);

/// The least caution of several policies.
pub(super) struct Least {
    /// The fewest and the most targets that go first, and how long they bake at least.
    canary: Option<(usize, usize, Duration)>,
    unavailable: Option<usize>,
    in_flight: Option<usize>,
    order: Option<Vec<String>>,
    /// Of each wave: how many are new when it is over, as each policy has it, and how long it bakes at least.
    waves: Vec<(Vec<Amount>, Duration)>,
    /// How long the whole, and each domain, bakes at least.
    pub(super) bake: Duration,
}

/// An asset that gets what is new.
struct Turn {
    at: usize,
    to: u32,
    /// Everything of its group that is new.
    targets: Vec<usize>,
    /// Where each asset runs.
    clusters: Vec<usize>,
    /// How many leave the group with it: they are rolled out like the others, and the judge does not follow them.
    leaving: usize,
    /// How many the group has.
    members: usize,
}

impl State {
    /// R18, R21: canaries first, then domain by domain, each when those before it have arrived, baked and were seen.
    pub(super) fn judge_turn(&mut self, at: usize, group: usize, to: u32, cause: Cause) {
        let head = self.judge.groups[group].head;
        self.judge_held(at, group, to);
        self.judge_stopped(at, group, to);
        if cause == Cause::Emergency || (head.is_none() && !self.is_gradual(group, to)) {
            return;
        }
        let Some(plan) = self.plan_at(to).cloned() else {
            return;
        };
        if head.is_none() {
            self.judge.look("gradual");
        }
        let new = |it: &usize| {
            let here = plan.wishes[*it].group == Some(group);
            here && self.mark_at(to, *it) != head.and_then(|head| self.mark_at(head, *it))
        };
        let turn = Turn {
            at,
            to,
            targets: (0..plan.wishes.len()).filter(new).collect(),
            leaving: head.map_or(0, |head| self.leaving(group, head, &plan)),
            members: plan
                .wishes
                .iter()
                .filter(|wish| wish.group == Some(group))
                .count(),
            clusters: plan.wishes.iter().map(|wish| wish.cluster).collect(),
        };
        let Some(least) = self.least(group, to) else {
            return;
        };
        if let Some(canary) = least.canary {
            self.judge_first(&turn, canary, "canary");
        }
        for (upto, bake) in &least.waves {
            self.judge_wave(&turn, upto, *bake);
        }
        if let Some(order) = &least.order {
            self.judge_domain(&turn, order, least.bake);
        }
        let near = |one: usize, other: usize| turn.clusters[one] == turn.clusters[other];
        self.judge_room(&turn, least.unavailable, near, "of a domain");
        self.judge_room(&turn, least.in_flight, |_, _| true, "of a group");
    }

    /// A wave is the first so many, of as many as there may be.
    fn judge_wave(&mut self, turn: &Turn, upto: &[Amount], bake: Duration) {
        let all = turn.members + turn.leaving;
        let most = upto.iter().map(|upto| upto.of(all)).max();
        let targets = turn
            .targets
            .iter()
            .filter(|it| self.is_target(**it, turn.to))
            .count();
        let fewest = upto.iter().map(|upto| upto.of(targets)).min();
        let range = (fewest.unwrap_or(0), most.unwrap_or(usize::MAX), bake);
        self.judge_first(turn, range, "wave");
    }

    /// Whether an asset is a target for certain: it has, or had, to move.
    fn is_target(&self, at: usize, to: u32) -> bool {
        let eye = &self.judge.eyes[at];
        let there = eye.arrived.map(|(mark, _)| mark) == self.mark_at(to, at);
        let steady = self.plan.wishes[at].steady && eye.held.is_empty();
        self.moved(at, to) || (steady && !there)
    }

    fn judge_first(
        &mut self,
        turn: &Turn,
        (fewest, most, bake): (usize, usize, Duration),
        who: &'static str,
    ) {
        self.judge.look(who);
        let (at, to) = (turn.at, turn.to);
        // A whole that edges tie together counts once: one of it was selected, and took the others with it.
        let moved = self.untied(turn).filter(|it| self.moved(*it, to));
        let moved: BTreeSet<usize> = moved.map(|it| self.plan.root(it)).collect();
        let moved = moved.len();
        // What went elsewhere before, and comes back to what the group had, goes first like any other.
        let back = |it: &usize| self.judge.eyes[*it].pinned.is_some_and(|(no, _)| no == to);
        let there = (0..turn.clusters.len()).filter(|it| turn.targets.contains(it) || back(it));
        let over = there.filter(|it| *it != at && self.is_over(*it, to, bake));
        let over = over.count();
        // Who has left the group since may count, wherever it went.
        let left = |it: &&usize| !self.plan.wishes[**it].steady;
        let left = turn.targets.iter().filter(left).count();
        let fewest = fewest.saturating_sub(turn.leaving + left);
        if moved >= most && over < fewest {
            let what = format!(
                "asset/{at:02} gets what is new in @{to}, after {moved} others of which {over} have baked: the {who} comes first"
            );
            self.violated("R18", what);
        }
    }

    fn judge_domain(&mut self, turn: &Turn, order: &[String], bake: Duration) {
        self.judge.look("domain");
        let rank = |at: usize| {
            let cluster = turn.clusters[at];
            let listed = order.iter().position(|name| *name == CLUSTERS[cluster]);
            (listed.unwrap_or(order.len()), cluster)
        };
        let steady = |it: usize| self.plan.wishes[it].steady && !self.is_left_out(it);
        // Whom edges tie to an earlier domain goes with that.
        let first = self.tied(turn.at).map(rank).min();
        let first = first.unwrap_or(rank(turn.at));
        let before = |it: &usize| rank(*it) < first && steady(*it);
        let mut before = turn.targets.iter().copied().filter(before);
        if let Some(early) = before.find(|it| !self.is_over(*it, turn.to, bake)) {
            let (at, to) = (turn.at, turn.to);
            let what = format!(
                "asset/{at:02} gets what is new in @{to} before the domain of asset/{early:02} is over"
            );
            self.violated("R18", what);
        }
    }

    /// Of those that count not more are on their way than the limit says. What is tied together may go beyond it, if there
    /// was room for one of it.
    fn judge_room(
        &mut self,
        turn: &Turn,
        most: Option<usize>,
        counts: impl Fn(usize, usize) -> bool,
        of: &str,
    ) {
        let Some(most) = most else { return };
        self.judge.look("room");
        let (at, to) = (turn.at, turn.to);
        let away = self.untied(turn).filter(|it| self.is_away(*it, to));
        let alone = |it: &usize| self.pinned_with(turn, *it).all(|other| other == *it);
        let away: Vec<usize> = away.filter(alone).collect();
        let full = |it: usize| away.iter().filter(|other| counts(it, **other)).count() >= most;
        if self.pinned_with(turn, at).chain([at]).all(full) {
            let what = format!("more than {most} {of} are pushed to @{to} at once");
            self.violated("R18", what);
        }
    }

    /// The others that are new, without those that edges tie to the asset: what is tied together moves together.
    fn untied<'a>(&'a self, turn: &'a Turn) -> impl Iterator<Item = usize> + 'a {
        let tied = |it: usize| self.plan.is_tied(it, turn.at);
        turn.targets.iter().copied().filter(move |it| !tied(*it))
    }

    /// Those with new pins that edges tie to an asset, itself among them.
    fn pinned_with(&self, turn: &Turn, at: usize) -> impl Iterator<Item = usize> {
        let to = turn.to;
        let pinned = move |it: &usize| self.judge.eyes[*it].pinned.is_some_and(|(no, _)| no == to);
        self.tied(at).filter(pinned)
    }

    /// Those that edges may tie to an asset, itself among them.
    fn tied(&self, at: usize) -> impl Iterator<Item = usize> {
        (0..self.plan.wishes.len()).filter(move |it| self.plan.is_tied(*it, at))
    }

    /// R18: nothing moves while every policy that may be read says hold.
    fn judge_held(&mut self, at: usize, group: usize, to: u32) {
        let head = self.judge.groups[group].head;
        let other = |head| to > head && self.mark_at(to, at) != self.mark_at(head, at);
        let new = head.is_none_or(other);
        let policies = self.policies(group, to);
        let holds = policies.iter().filter(|policy| policy.hold.is_some());
        let (holds, all) = (holds.count(), policies.len());
        if holds > 0 {
            self.judge.look("hold");
        }
        if new && holds > 0 && holds == all {
            let what = format!("asset/{at:02} gets what is new in @{to}, which is on hold");
            self.violated("R18", what);
        }
    }

    /// Whether every policy that may be read brings up bit by bit what was not there before.
    pub(super) fn is_gradual(&self, group: usize, to: u32) -> bool {
        let policies = self.policies(group, to);
        let gradual = |policy: &&RolloutPolicy| policy.first_turnup == FirstTurnup::Gradual;
        !policies.is_empty() && policies.iter().all(gradual)
    }

    /// The policies that may be in force since `to` was wanted.
    pub(super) fn policies(&self, group: usize, to: u32) -> Vec<&RolloutPolicy> {
        let accepted = self.sealed.accepted.range(to..).flat_map(|(_, all)| all);
        accepted.map(|it| &it.plan.groups[group].policy).collect()
    }

    fn leaving(&self, group: usize, head: u32, plan: &Plan) -> usize {
        let was = self.plan_at(head).map(|plan| plan.wishes.iter());
        let both = was.into_iter().flatten().zip(&plan.wishes);
        let here = |wish: &Wish| wish.group == Some(group);
        both.filter(|(was, is)| here(was) && !here(is)).count()
    }

    pub(super) fn moved(&self, at: usize, to: u32) -> bool {
        let eye = &self.judge.eyes[at];
        !eye.again && eye.forward.is_some_and(|(no, _)| no == to)
    }

    fn is_away(&self, at: usize, to: u32) -> bool {
        let eye = &self.judge.eyes[at];
        let arrived = eye.arrived.map(|(mark, _)| mark);
        // Who has left its group since is nobody's.
        let stays = self.plan.wishes[at].steady;
        stays && self.moved(at, to) && arrived != self.mark_at(to, at)
    }

    /// Whether an asset has had what is new for `bake`, and somebody could see since that it is well, or a person has let
    /// it go on. It may have left it again: whoever followed it was selected before.
    pub(super) fn is_over(&self, at: usize, to: u32, bake: Duration) -> bool {
        let eye = &self.judge.eyes[at];
        let now = self.now;
        let stays = eye.arrived.map(|(mark, since)| (mark, since, now));
        let mut there = stays.into_iter().chain(eye.left);
        let there = there.find(|(mark, ..)| self.mark_at(to, at) == Some(*mark));
        there.is_some_and(|(_, since, until)| {
            let baked = since + bake;
            let seen = eye.seen.is_some_and(|seen| seen + SLACK >= baked);
            let promoted = self.is_promoted(at, to, since);
            promoted || self.judge.is_shaky(since) || (until + SLACK >= baked && seen)
        })
    }

    /// The policies that may be in force since `to` was wanted. `None`: one of them asks for no caution.
    pub(super) fn least(&self, group: usize, to: u32) -> Option<Least> {
        let policies = self.policies(group, to);
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
        let most = |limit: fn(&RolloutPolicy) -> Option<u32>| {
            let limits: Option<Vec<u32>> = policies.iter().map(|policy| limit(policy)).collect();
            let most = limits.and_then(|all| all.into_iter().max());
            most.map(|most| most as usize)
        };
        let first = policies.first()?;
        let same = policies
            .iter()
            .all(|policy| policy.domains == first.domains);
        let bake = secs(policies.iter().map(|policy| policy.bake_secs).collect());
        let order = (same && !first.domains.is_empty()).then(|| first.domains.clone());
        Some(Least {
            canary,
            unavailable: most(|policy| policy.max_unavailable),
            in_flight: most(|policy| policy.max_in_flight),
            order,
            waves: waves(&policies),
            bake,
        })
    }
}

/// The waves of policies that all have as many of them.
fn waves(policies: &[&RolloutPolicy]) -> Vec<(Vec<Amount>, Duration)> {
    let Some(first) = policies.first() else {
        return Vec::new();
    };
    let many = first.waves.len();
    if policies.iter().any(|policy| policy.waves.len() != many) {
        return Vec::new();
    }
    let wave = |no: usize| {
        let each = || policies.iter().map(|policy| &policy.waves[no]);
        let bake = each().map(|wave| wave.bake_secs).min().unwrap_or(0);
        (
            each().map(|wave| wave.upto).collect(),
            Duration::from_secs(bake),
        )
    };
    (0..many).map(wave).collect()
}
