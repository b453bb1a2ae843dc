//! Conditions on the order of a rollout: canaries, waves, domains and limits. A policy may be edited while pins move,
//! so the judge requires only the least caution of all policies that the strategist may have read.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::Cause;
use prodspec_model::rollout::{Amount, FirstTurnup, RolloutPolicy};

use crate::{
    executor::Instant,
    intent::{CLUSTERS, Plan, Wish},
    world::State,
};

/// Tolerance for the difference between two correct clocks.
pub(super) const SLACK: Duration = Duration::from_millis(2500);

/// The least caution of several policies.
pub(super) struct Least {
    /// Minimum and maximum number of canary targets, and their minimum bake time.
    canary: Option<(usize, usize, Duration)>,
    /// Maximum number of unavailable targets per domain.
    unavailable: Option<usize>,
    /// Maximum number of targets in flight.
    in_flight: Option<usize>,
    /// Order of the domains; `None` if the policies differ or have none.
    order: Option<Vec<String>>,
    /// For each wave: its size as each policy gives it, and its minimum bake time.
    waves: Vec<(Vec<Amount>, Duration)>,
    /// Minimum bake time of the whole rollout and of each domain.
    pub(super) bake: Duration,
}

/// A push that brings the new content of a rollout to an asset.
struct Turn {
    /// Number of the asset.
    at: usize,
    /// Incarnation of the new content.
    to: u32,
    /// All assets of its group with new content.
    targets: Vec<usize>,
    /// Failure domain of each asset.
    clusters: Vec<usize>,
    /// Number of assets that leave the group with the new incarnation. They are rolled out too, but not judged.
    leaving: usize,
    /// Number of assets in the group.
    members: usize,
}

impl State {
    /// R18, R21: canaries come first, then domain by domain. Each step follows when the targets before it have arrived,
    /// baked and were observed healthy.
    pub(super) fn judge_turn(&mut self, at: usize, group: usize, to: u32, cause: Cause) {
        let head = self.judge.groups[group].head;
        self.judge_held(at, group, to);
        self.judge_stopped(at, group, to);
        if cause == Cause::Emergency || (head.is_none() && !self.is_gradual(group, to)) {
            return;
        }
        if self.judge.eyes[at].late {
            return self.judge.look("late");
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

    /// R18: whether an asset gets the content of `to` because it came while an older incarnation is rolled out. It closes no
    /// gate, and none of those that follow wait for it.
    pub(super) fn came_later(&self, at: usize, group: usize, to: u32) -> bool {
        let live = self.judge.groups[group].live.1.filter(|live| *live < to);
        live.is_some_and(|live| self.mark_at(live, at).is_none())
    }

    /// Judges a wave like a canary, with the smallest and the largest size that the wave may have.
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

    /// Whether an asset is certainly a target: it has to move, or it has moved.
    fn is_target(&self, at: usize, to: u32) -> bool {
        let eye = &self.judge.eyes[at];
        let there = eye.arrived.map(|(mark, _)| mark) == self.mark_at(to, at);
        let steady = self.plan.wishes[at].steady && eye.held.is_empty();
        self.moved(at, to) || (steady && !there)
    }

    /// R18: at least `fewest` targets have baked before more than `most` are pushed.
    fn judge_first(
        &mut self,
        turn: &Turn,
        (fewest, most, bake): (usize, usize, Duration),
        who: &'static str,
    ) {
        self.judge.look(who);
        let (at, to) = (turn.at, turn.to);
        let selected = self.selected(turn);
        // A tree of edges counts once: one of its assets was selected, and the closure added the others.
        let moved = self.untied(turn).filter(|it| self.moved(*it, to));
        let moved: BTreeSet<usize> = moved.map(|it| self.plan.root(it)).collect();
        let moved = moved.len();
        // Assets that were elsewhere and return to the group's content count as first targets too.
        let back = |it: &usize| self.judge.eyes[*it].pinned.is_some_and(|(no, _)| no == to);
        let there = (0..turn.clusters.len()).filter(|it| turn.targets.contains(it) || back(it));
        let over = there.filter(|it| *it != at && self.is_over(*it, to, bake, selected));
        let over = over.count();
        // Assets that have left the group since may have been among the first targets.
        let left = |it: &&usize| !self.plan.wishes[**it].steady;
        let left = turn.targets.iter().filter(left).count();
        let fewest = fewest.saturating_sub(turn.leaving + left);
        if moved >= most && over < fewest {
            let what = format!(
                "asset/{at:02} gets the new content of @{to} after {moved} others, of which {over} have baked: \
                 the {who} comes first"
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
        // An asset with edges to an earlier domain is selected with that domain.
        let first = self.tied(turn.at).map(rank).min();
        let first = first.unwrap_or(rank(turn.at));
        let before = |it: &usize| rank(*it) < first && steady(*it);
        let selected = self.selected(turn);
        let mut before = turn.targets.iter().copied().filter(before);
        if let Some(early) = before.find(|it| !self.is_over(*it, turn.to, bake, selected)) {
            let (at, to) = (turn.at, turn.to);
            let what = format!(
                "asset/{at:02} gets the new content of @{to} before the domain of asset/{early:02} is complete"
            );
            self.violated("R18", what);
        }
    }

    /// R18: not more targets are in flight than the limit allows. A tree of edges may exceed it if there was room for
    /// one of its assets.
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
            let what = format!("more than {most} assets {of} are pushed to @{to} at once");
            self.violated("R18", what);
        }
    }

    /// Time at which the strategist selected the asset: it moved the pin.
    fn selected(&self, turn: &Turn) -> Instant {
        let pinned = self.judge.eyes[turn.at].pinned;
        let pinned = pinned.filter(|(no, _)| *no == turn.to);
        pinned.map_or(self.now, |(_, since)| since)
    }

    /// The other assets with new content, without those of the same tree of edges, which move together with the asset.
    fn untied<'a>(&'a self, turn: &'a Turn) -> impl Iterator<Item = usize> + 'a {
        let tied = |it: usize| self.plan.is_tied(it, turn.at);
        turn.targets.iter().copied().filter(move |it| !tied(*it))
    }

    /// The assets of an asset's tree, itself included, whose pins have moved to the new incarnation.
    fn pinned_with(&self, turn: &Turn, at: usize) -> impl Iterator<Item = usize> {
        let to = turn.to;
        let pinned = move |it: &usize| self.judge.eyes[*it].pinned.is_some_and(|(no, _)| no == to);
        self.tied(at).filter(pinned)
    }

    /// The assets of an asset's tree of edges, itself included.
    fn tied(&self, at: usize) -> impl Iterator<Item = usize> {
        (0..self.plan.wishes.len()).filter(move |it| self.plan.is_tied(*it, at))
    }

    /// R18: no asset gets new content while every policy that may be in use has a hold.
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
            let what = format!(
                "asset/{at:02} gets the new content of @{to} although its policy has a hold"
            );
            self.violated("R18", what);
        }
    }

    /// Whether every policy that may be in use asks for a gradual first turnup.
    pub(super) fn is_gradual(&self, group: usize, to: u32) -> bool {
        let policies = self.policies(group, to);
        let gradual = |policy: &&RolloutPolicy| policy.first_turnup == FirstTurnup::Gradual;
        !policies.is_empty() && policies.iter().all(gradual)
    }

    /// The group's policies in `to` and all later incarnations.
    pub(super) fn policies(&self, group: usize, to: u32) -> Vec<&RolloutPolicy> {
        let accepted = self.sealed.accepted.range(to..).flat_map(|(_, all)| all);
        accepted.map(|it| &it.plan.groups[group].policy).collect()
    }

    /// Number of assets that were in the group at its head and are not in `plan`.
    fn leaving(&self, group: usize, head: u32, plan: &Plan) -> usize {
        let was = self.plan_at(head).map(|plan| plan.wishes.iter());
        let both = was.into_iter().flatten().zip(&plan.wishes);
        let here = |wish: &Wish| wish.group == Some(group);
        both.filter(|(was, is)| here(was) && !here(is)).count()
    }

    /// Whether a rollout has pushed an asset to the incarnation `to`.
    pub(super) fn moved(&self, at: usize, to: u32) -> bool {
        let eye = &self.judge.eyes[at];
        !eye.again && eye.forward.is_some_and(|(no, _)| no == to)
    }

    /// Whether an asset was pushed to `to` and its new content has not arrived.
    fn is_away(&self, at: usize, to: u32) -> bool {
        let eye = &self.judge.eyes[at];
        let arrived = eye.arrived.map(|(mark, _)| mark);
        // An asset that has left its group since counts for no group.
        let stays = self.plan.wishes[at].steady;
        stays && self.moved(at, to) && arrived != self.mark_at(to, at)
    }

    /// Whether an asset has had its new content for `bake` and was observed healthy since, or an operator promoted it.
    /// The content may have changed again: then the assets that follow were selected before that, whatever was observed
    /// of the newer content.
    ///
    /// `selected` is the time at which an asset was selected for which this one had to be over. Its push may come much
    /// later, after the checks, when this asset has moved on more than once.
    pub(super) fn is_over(&self, at: usize, to: u32, bake: Duration, selected: Instant) -> bool {
        let mut had = self.judge.eyes[at].had_after(selected, self.now);
        let there = had.find(|had| self.mark_at(to, at) == Some(had.mark));
        there.is_some_and(|had| {
            let baked = had.since + bake;
            // The clock of the metrics may be wrong. A bake is measured as time elapsed, which no clock changes.
            let shaky = self.judge.is_shaky(had.since);
            let seen = shaky || had.seen.is_some_and(|seen| seen + SLACK >= baked);
            let promoted = self.is_promoted(at, to, had.since);
            promoted || (had.until + SLACK >= baked && seen)
        })
    }

    /// The least caution of the group's policies in `to` and all later incarnations. `None`: there are none, or one of
    /// them declares an emergency.
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

/// The waves of the policies; empty if the policies differ in their number of waves.
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
