//! The judge's observations of rollouts, and conditions on rollbacks. They rest on sealed contents and policies, on
//! acknowledged records and on the history of production, not on the strategist's state in memory.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use plugin_sdk::{Cause, Pin};
use prodspec_model::{Message, addons::Turndown};

use super::{Call, waited::FailedRollout};
use crate::{
    executor::Instant,
    intent::{Bad, Plan},
    production::{EVIDENCE, Push},
    world::{Accepted, State},
};

/// Observations of the rollouts of one asset.
#[derive(Debug, Clone, Default)]
pub struct Eye {
    /// Mark of the content of the last push; `None` after a turndown.
    last: Option<u64>,
    /// Incarnation and content mark of the last push forward by a rollout.
    pub(super) forward: Option<(u32, u64)>,
    /// Mark of the asset's content, and the time at which the content took effect.
    pub(super) arrived: Option<(u64, Instant)>,
    /// The contents before that, oldest first.
    left: Vec<Had>,
    /// Time of the newest sample that was read and healthy; `None` if the last one read was unhealthy.
    pub(super) seen: Option<Instant>,
    /// Mark of the content from which the asset was rolled back.
    pub(super) failed: Option<u64>,
    /// Whether an operator gave the command to retry or to abort since the asset last moved forward. Then the asset may
    /// be pinned to `NotYet` and begin anew.
    pub(super) again: bool,
    /// Whether the asset had its group's content, and was healthy, when the group completed a rollout. Then it can be
    /// rolled back.
    arrived_once: bool,
    /// Incarnation of the asset's pin, and the time of the last move.
    pub(super) pinned: Option<(u32, Instant)>,
    /// Whether the asset came later than the incarnation of the rollout that last moved its pin forward.
    pub(super) late: bool,
    /// Whether the last move of the pin had the cause `Emergency`.
    pub(super) urgent: bool,
    /// Incarnation of the pin before the last rollback, and the time of the move to that incarnation.
    pub(super) back_from: Option<(u32, Instant)>,
    /// Whether the last move of the pin was a rollback.
    pub(super) goes_back: bool,
    /// Whether the pin is `NotYet`, so that the asset is left alone.
    pub nowhere: bool,
    /// Time at which the pin last moved from `NotYet` to an incarnation.
    pub(super) reached: Instant,
    /// Keys of the quarantine records of the asset's content.
    pub held: BTreeSet<String>,
}

/// Content that an asset has, or had.
#[derive(Debug, Clone, Copy)]
pub(super) struct Had {
    pub(super) mark: u64,
    pub(super) since: Instant,
    pub(super) until: Instant,
    /// The value of [`Eye::seen`] at the end of that time.
    pub(super) seen: Option<Instant>,
}

/// Observations of one policy group.
#[derive(Debug, Clone, Default)]
pub struct GroupEye {
    /// Head of the group: the incarnation that it completed last.
    pub head: Option<u32>,
    /// All incarnations that the group has completed, oldest first.
    pub(super) heads: Vec<u32>,
    /// The id of the newest rollout, and its incarnation unless it has ended.
    pub(super) live: (u64, Option<u32>),
    /// The rollout that is being rolled back: its id, the incarnation it rolls back from, and the start.
    pub(super) goes_back: Option<(u64, u32, Instant)>,
    /// The incarnation whose rollout an operator paused or aborted, and the time.
    pub(super) stopped: Option<(u32, Instant)>,
    /// Time of the last completion, rollback, or command to go on.
    pub(super) turned: Instant,
    /// Number of rollouts that the group has completed.
    pub(super) completed: u64,
    /// Time of the last completion.
    pub(super) completed_at: Instant,
    /// The rollouts that failed and were not fixed since.
    pub(super) failed: Vec<FailedRollout>,
}

impl Eye {
    /// Records that samples up to `at` were read, and whether all of them were healthy. An unhealthy sample voids the
    /// healthy ones before it.
    pub fn seen(&mut self, at: Instant, well: bool) {
        self.seen = match well {
            true => self.seen.max(Some(at)),
            false => None,
        };
    }

    /// Records that the asset has the content with the mark `there`, or none.
    pub(super) fn gets(&mut self, there: Option<u64>, now: Instant) {
        let before = self.arrived.map(|(mark, _)| mark);
        if before != there {
            let seen = self.seen;
            let left = self.arrived.map(|(mark, since)| Had {
                mark,
                since,
                until: now,
                seen,
            });
            self.left.extend(left);
            self.arrived = there.map(|mark| (mark, now));
        }
    }

    /// Time at which the asset got the content with this mark; `None` unless that is its current content or the one
    /// before.
    pub(super) fn had(&self, mark: Option<u64>) -> Option<Instant> {
        let left = self.left.last().map(|left| (left.mark, left.since));
        let mut had = self.arrived.into_iter().chain(left);
        had.find(|(had, _)| Some(*had) == mark)
            .map(|(_, since)| since)
    }

    /// The asset's content, the one before, and all older ones that it still had after `then`, newest first.
    pub(super) fn had_after(&self, then: Instant, now: Instant) -> impl Iterator<Item = Had> {
        let here = self.arrived.map(|(mark, since)| Had {
            mark,
            since,
            until: now,
            seen: self.seen,
        });
        let newest = self.left.len().saturating_sub(1);
        let left = self.left.iter().enumerate().rev();
        let left = left.filter(move |(nth, left)| *nth == newest || left.until >= then);
        here.into_iter().chain(left.map(|(_, left)| Had {
            seen: left.seen.max(self.seen),
            ..*left
        }))
    }
}

impl State {
    /// Content mark of an asset at an incarnation; `None` if the incarnation does not contain it or was never accepted.
    pub fn mark_at(&self, incarnation: u32, at: usize) -> Option<u64> {
        self.accepted(incarnation)?.marks.get(&at).copied()
    }

    /// The plan of an incarnation; `None` if it was never accepted.
    pub(super) fn plan_at(&self, incarnation: u32) -> Option<&Arc<Plan>> {
        Some(&self.accepted(incarnation)?.plan)
    }

    /// The accepted incarnation with this number: the one that was written, else the newest accepted one.
    fn accepted(&self, incarnation: u32) -> Option<&Accepted> {
        let all = self.sealed.accepted.get(&incarnation)?;
        let written = self.sealed.written.get(&incarnation);
        written.and_then(|nth| all.get(*nth)).or(all.last())
    }

    /// Whether L2 requires diffs of an asset. Assets that no rollout has reached are left alone.
    pub fn is_due(&self, at: usize) -> bool {
        let wish = &self.plan.wishes[at];
        let group = wish.group.map(|group| &self.judge.groups[group]);
        let reached = |group: &GroupEye| {
            let there = group.head.and_then(|head| self.mark_at(head, at));
            let eye = &self.judge.eyes[at];
            there.is_some() && there == eye.last && !eye.nowhere
        };
        !wish.pool || group.is_some_and(reached)
    }

    /// Time of the last diff of an asset. While its pin is `NotYet` it is left alone (R17), so the time begins when
    /// that ends.
    pub(super) fn unseen_since(&self, at: usize) -> Instant {
        let looked_at = self.production.resources[at].looked_at;
        let reached = self.judge.eyes[at].reached;
        looked_at.unwrap_or_default().max(reached)
    }

    /// Records that a group has completed a rollout. Failed content that is no longer wanted is forgotten.
    pub fn completed(&mut self, group: usize, head: u32) {
        self.goes_on(group);
        let now = self.now;
        let eye = &mut self.judge.groups[group];
        (eye.head, eye.completed) = (Some(head), eye.completed + 1);
        eye.completed_at = now;
        eye.heads.push(head);
        for at in 0..self.judge.eyes.len() {
            let there = self.mark_at(head, at);
            let resource = &self.production.resources[at];
            let well = resource.content.filter(|_| !resource.serves_badly());
            let has = well.map(|it| it.mark);
            let eye = &mut self.judge.eyes[at];
            eye.arrived_once |= there.is_some() && there == has;
            eye.failed = eye.failed.filter(|failed| there == Some(*failed));
        }
        self.release_waited(group, head);
    }

    /// R18: a push does not apply content that the resource has already.
    pub(super) fn judge_once(&mut self, at: usize, push: Push) {
        let wish = self.plan.wishes[at];
        // Content that never settles is pushed for ever.
        let Some(to) = push
            .to
            .filter(|to| wish.pool && to.bad != Bad::NeverSettles)
        else {
            return;
        };
        self.judge.look("once");
        let resource = &self.production.resources[at];
        // A person may have reverted a change by hand while the push that repairs it was on its way.
        let by_hand = resource.changed_by_hand;
        let known = by_hand.is_none_or(|by_hand| by_hand + EVIDENCE < push.started);
        if resource.content == Some(to) && known {
            let what = format!("a push of asset/{at:02} applies the content that it has already");
            self.violated("R18", what);
        }
    }

    /// Records an acknowledged write or removal of a pin.
    pub fn pin_moved(&mut self, at: usize, to: Pin) {
        self.stirs(at);
        let made_at = self.judge.made_at;
        let cause = match to {
            Pin::At(_, cause) => Some(cause),
            _ => None,
        };
        let back = cause == Some(Cause::Rollback);
        let group = self.plan.wishes[at].group;
        let late = group
            .zip(to.incarnation())
            .is_some_and(|(group, to)| self.came_later(at, group, to.0));
        let eye = &mut self.judge.eyes[at];
        let left_alone = to == Pin::NotYet;
        if eye.nowhere && !left_alone {
            eye.reached = made_at;
        }
        eye.nowhere = left_alone;
        let there = to.incarnation().map(|no| no.0);
        if eye.pinned.map(|(no, _)| no) != there {
            if back {
                eye.back_from = eye.pinned;
            }
            eye.goes_back = back;
            eye.late = late && !back;
            eye.urgent = cause == Some(Cause::Emergency);
            eye.pinned = there.map(|no| (no, made_at));
            self.judge.moved.push(at);
        }
        if let Some(group) = group.filter(|_| back) {
            self.goes_on(group);
        }
    }

    /// Records that a push of an asset took effect.
    pub(super) fn arrived(&mut self, at: usize) {
        let now = self.now;
        let there = self.production.resources[at].content.map(|it| it.mark);
        self.judge.eyes[at].gets(there, now);
    }

    /// R17, R18, R21, R22: judges a push of a governed asset that brings other content than the push before.
    pub(super) fn judge_rollout(&mut self, at: usize, call: &Call<'_>) {
        let mark = self.production.content(call.asset).mark;
        let mark = (!call.asset.has_addon(Turndown::TYPE)).then_some(mark);
        let before = std::mem::replace(&mut self.judge.eyes[at].last, mark);
        let wish = self.plan.wishes[at];
        let Some(group) = wish.group.filter(|_| wish.steady && before != mark) else {
            return;
        };
        let Some(mark) = mark else { return };
        let head = self.judge.groups[group].head;
        let back = head.is_some_and(|head| self.mark_at(head, at) == Some(mark));
        let cause = call.cause.unwrap_or(Cause::Intent);
        if cause == Cause::Rollback {
            self.judge_where(at, group, mark);
            return self.judge_back(at, group);
        }
        let forward = self.judge.eyes[at].forward;
        if back && let Some((no, _)) = forward.filter(|(no, _)| *no >= call.incarnation) {
            self.judge.eyes[at].forward = None;
            if cause == Cause::Intent {
                let what = format!(
                    "asset/{at:02} is rolled back from @{no} for the cause Intent, not Rollback"
                );
                self.violated("R22", what);
            }
            return;
        }
        self.judge_turn(at, group, call.incarnation, cause);
        let eye = &mut self.judge.eyes[at];
        // A rollout to the incarnation of one that came later is another one.
        eye.forward = (!eye.late).then_some((call.incarnation, mark));
        eye.again = false;
        self.judge_failed(at, group, mark);
    }

    /// R6: the check for the cause `Intent` delays a push; it must not be asked about a rollback.
    pub fn judge_red(&mut self, at: usize, incarnation: u32) {
        let wish = self.plan.wishes[at];
        let Some(group) = wish.group.filter(|_| wish.steady) else {
            return;
        };
        let head = self.judge.groups[group].head;
        let back = head.and_then(|head| self.mark_at(head, at));
        let there = self.mark_at(incarnation, at);
        let forward = self.judge.eyes[at].forward;
        let forward = forward.filter(|(no, mark)| *no > incarnation && Some(*mark) != there);
        if let Some((no, _)) = forward.filter(|_| there.is_some() && there == back) {
            let what =
                format!("the rollback of asset/{at:02} from @{no} waits for a check of intent");
            self.violated("R6", what);
        }
    }

    /// R22: at the end, the assets of the group that keeps bad content in intent are back at the group's head, and
    /// healthy.
    pub(super) fn judge_stubborn(&mut self, at: usize) {
        self.judge.look("R22");
        let head = self.plan.wishes[at]
            .group
            .and_then(|group| self.judge.groups[group].head);
        let before = head.and_then(|head| self.mark_at(head, at));
        let (eye, resource) = (&self.judge.eyes[at], &self.production.resources[at]);
        let has = resource.content.map(|it| it.mark);
        let stays = self.plan.wishes[at].steady && before.is_some() && !eye.nowhere;
        let failed =
            before.is_some() && eye.arrived_once && !eye.nowhere && resource.serves_badly();
        // An asset that was left out of the rollout to the head keeps the content of its older pin.
        let older = |(no, _): &(u32, Instant)| head.is_some_and(|head| *no < head);
        let left_out = eye.pinned.filter(older);
        let left_out = left_out.is_some_and(|(no, _)| has == self.mark_at(no, at));
        if failed || (stays && has != before && !left_out) {
            let there = resource.clone();
            let what = format!("asset/{at:02} was not rolled back from failed content: {there:?}");
            self.violated("R22", what);
        }
    }

    /// Maximum duration of the bakes of a rollout, with 100 s for its observation, over all groups.
    pub fn bakes(&self) -> Duration {
        let groups = self.plan.groups.iter();
        let bakes = groups.map(|group| Duration::from_secs(group.bakes() + 100));
        bakes.max().unwrap_or_default()
    }
}
