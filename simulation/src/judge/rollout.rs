//! What the judge remembers of rollouts, and what it asks of their ways back. It knows the contents that were
//! sealed, the policies that people wanted, and what production had when; nothing of what the strategist thinks.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use plane_store::records::PinRecord;
use plugin_sdk::Cause;
use prodspec_model::{Message, addons::Turndown};

use super::Call;
use crate::{
    executor::Instant,
    intent::{Bad, Plan},
    production::{EVIDENCE, Push},
    world::{Accepted, State},
};

/// What was seen of one asset.
#[derive(Debug, Clone, Default)]
pub struct Eye {
    /// The content that it was last pushed to.
    last: Option<u64>,
    /// The incarnation and content that a rollout moved it to.
    pub(super) forward: Option<(u32, u64)>,
    /// Since when it has had its content.
    pub(super) arrived: Option<(u64, Instant)>,
    /// The content that it had before, from when to when.
    pub(super) left: Option<(u64, Instant, Instant)>,
    /// Until when somebody could see that it serves as it should.
    pub(super) seen: Option<Instant>,
    /// The content that it was taken back from.
    pub(super) failed: Option<u64>,
    /// A person has asked to try again since it moved, or stopped it: it may have been sent back to nowhere, and begin anew.
    pub(super) again: bool,
    /// It was where its group was, and well, when that completed something: that is where it goes back to.
    arrived_once: bool,
    /// Where its pin stands, and since when.
    pub(super) pinned: Option<(u32, Instant)>,
    /// Its pin stands there for the sake of an emergency.
    pub(super) urgent: bool,
    /// Where its pin stood before it was last taken back, and since when.
    pub(super) back_from: Option<(u32, Instant)>,
    /// It was taken back, and its pin has not moved since.
    pub(super) goes_back: bool,
    /// It is pinned to nowhere, and left alone.
    pub nowhere: bool,
    /// When it was last pinned to somewhere again.
    pub(super) reached: Instant,
    /// Content of it has failed before, and is kept away: by the names of the records that say so.
    pub held: BTreeSet<String>,
}

/// What was seen of one policy group.
#[derive(Debug, Clone, Default)]
pub struct GroupEye {
    /// The incarnation that it completed last.
    pub head: Option<u32>,
    /// All that it has completed.
    pub(super) heads: Vec<u32>,
    /// The rollout that goes back, from which incarnation, and since when.
    pub(super) goes_back: Option<(u64, u32, Instant)>,
    /// What people have stopped, and since when.
    pub(super) stopped: Option<(u32, Instant)>,
    /// When something last began to go back, or was completed, or was let go on.
    pub(super) turned: Instant,
    /// How often it has completed something, and when that was last.
    pub(super) completed: u64,
    pub(super) completed_at: Instant,
}

impl Eye {
    /// Samples up to this time were shown to somebody: all of them `well`, or not. Whoever saw that one was not does not
    /// go on by what was seen before.
    pub fn seen(&mut self, at: Instant, well: bool) {
        self.seen = match well {
            true => self.seen.max(Some(at)),
            false => None,
        };
    }

    /// Since when it has had a content, or had it until it got the present one.
    pub(super) fn had(&self, mark: Option<u64>) -> Option<Instant> {
        let left = self.left.map(|(left, since, _)| (left, since));
        let mut had = self.arrived.into_iter().chain(left);
        had.find(|(had, _)| Some(*had) == mark)
            .map(|(_, since)| since)
    }
}

impl State {
    /// The content of an asset at an incarnation, if it was ever accepted with one.
    pub fn mark_at(&self, incarnation: u32, at: usize) -> Option<u64> {
        self.accepted(incarnation)?.marks.get(&at).copied()
    }

    pub(super) fn plan_at(&self, incarnation: u32) -> Option<&Arc<Plan>> {
        Some(&self.accepted(incarnation)?.plan)
    }

    /// Of those accepted with one number the one that was written, or may be.
    fn accepted(&self, incarnation: u32) -> Option<&Accepted> {
        let all = self.sealed.accepted.get(&incarnation)?;
        let written = self.sealed.written.get(&incarnation);
        written.and_then(|nth| all.get(*nth)).or(all.last())
    }

    /// Whether an asset has to be looked at: one that no rollout has reached is left alone.
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

    /// Since when an asset that has to be looked at was not: what is pinned to nowhere is left alone (R17), and its owner's
    /// time begins when that ends.
    pub(super) fn unseen_since(&self, at: usize) -> Instant {
        let looked_at = self.production.resources[at].looked_at;
        let reached = self.judge.eyes[at].reached;
        looked_at.unwrap_or_default().max(reached)
    }

    /// A group has completed a rollout: content that failed, and is no longer wanted, is forgotten.
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
    }

    /// R18: what was pushed, took effect and has not changed since does not take effect once more.
    pub(super) fn judge_once(&mut self, at: usize, push: Push) {
        let wish = self.plan.wishes[at];
        // What never settles is pushed for ever.
        let Some(to) = push
            .to
            .filter(|to| wish.pool && to.bad != Bad::NeverSettles)
        else {
            return;
        };
        self.judge.look("once");
        let resource = &self.production.resources[at];
        // Somebody may have put right by hand what a push was on its way to put right.
        let by_hand = resource.changed_by_hand;
        let known = by_hand.is_none_or(|by_hand| by_hand + EVIDENCE < push.started);
        if resource.content == Some(to) && known {
            let what = format!("asset/{at:02} is changed to what it has");
            self.violated("R18", what);
        }
    }

    /// A pin has moved, and that was acknowledged.
    pub fn pin_moved(&mut self, at: usize, to: Option<PinRecord>) {
        let made_at = self.judge.made_at;
        let cause = match to {
            Some(PinRecord::At { cause, .. }) => Some(cause),
            _ => None,
        };
        let back = cause == Some(Cause::Rollback);
        let group = self.plan.wishes[at].group;
        let eye = &mut self.judge.eyes[at];
        let left_alone = matches!(to, Some(PinRecord::NotYet));
        if eye.nowhere && !left_alone {
            eye.reached = made_at;
        }
        eye.nowhere = left_alone;
        let there = match to {
            Some(PinRecord::At { incarnation, .. }) => Some(incarnation.0),
            _ => None,
        };
        if eye.pinned.map(|(no, _)| no) != there {
            if back {
                eye.back_from = eye.pinned;
            }
            eye.goes_back = back;
            eye.urgent = cause == Some(Cause::Emergency);
            eye.pinned = there.map(|no| (no, made_at));
            self.judge.moved.push(at);
        }
        if let Some(group) = group.filter(|_| back) {
            self.goes_on(group);
        }
    }

    /// A push took effect.
    pub(super) fn arrived(&mut self, at: usize) {
        let now = self.now;
        let there = self.production.resources[at].content.map(|it| it.mark);
        let eye = &mut self.judge.eyes[at];
        let before = eye.arrived.map(|(mark, _)| mark);
        if before != there {
            eye.left = eye.arrived.map(|(mark, since)| (mark, since, now));
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
                let what = format!("asset/{at:02} goes back from @{no} as if that were intent");
                self.violated("R22", what);
            }
            return;
        }
        self.judge_turn(at, group, call.incarnation, cause);
        let eye = &mut self.judge.eyes[at];
        eye.forward = Some((call.incarnation, mark));
        eye.again = false;
        self.judge_failed(at, group, mark);
    }

    /// R6: what applies to intent only has said no; a way back does not ask it.
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
                format!("asset/{at:02} goes back from @{no}, and waits for what holds up intent");
            self.violated("R6", what);
        }
    }

    /// R22: in the end everything that was with its group is back at what the group completed last, and serves as it did.
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
        // It was left out when the head was completed: it is where it was.
        let older = |(no, _): &(u32, Instant)| head.is_some_and(|head| *no < head);
        let left_out = eye.pinned.filter(older);
        let left_out = left_out.is_some_and(|(no, _)| has == self.mark_at(no, at));
        if failed || (stays && has != before && !left_out) {
            let there = resource.clone();
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
