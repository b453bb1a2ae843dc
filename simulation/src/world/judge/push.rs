//! Conditions on the begin of a push or a diff.

use std::time::Duration;

use plugin_sdk::Cause;
use prodspec_model::{Asset, Digest, Message, addons::Turndown};

use super::{Pinned, Said};
use crate::{
    executor::NodeId,
    gates,
    intent::{Kind, number},
    world::State,
};

/// A call of a plugin, as the judge sees it.
#[derive(Debug)]
pub struct Call<'a> {
    /// Node of the process that calls.
    pub node: u32,
    /// The asset at the incarnation of the call.
    pub asset: &'a Asset,
    /// Number of the incarnation of the call.
    pub incarnation: u32,
    /// Fencing token of the owner.
    pub token: u64,
    /// Digest of a push's change; `None` for a diff.
    pub change: Option<Digest>,
    /// Cause of a push; `None` for a diff.
    pub cause: Option<Cause>,
    /// Whether the call is a follow-up of a push in progress.
    pub continuation: bool,
    /// Whether the call is a turndown.
    pub turndown: bool,
}

/// Maximum age of a verdict when a push begins.
const AGE: Duration = Duration::from_secs(60);

impl State {
    /// S2, S7: the incarnation of a call was accepted, was written, and its contents never change.
    pub fn judge_intent(&mut self, call: &Call<'_>) {
        let at = number(call.asset.id_str());
        let mark = self.production.content(call.asset).mark;
        self.judge.look("S2");
        let accepted = self.sealed.accepted.get(&call.incarnation);
        let mut accepted = accepted.into_iter().flatten();
        if !accepted.any(|it| it.marks.get(&at) == Some(&mark)) {
            self.violated(
                "S2",
                format!(
                    "asset/{at:02} at @{} was never accepted by the validators",
                    call.incarnation
                ),
            );
        }
        if !self.sealed.written.contains_key(&call.incarnation) {
            self.violated(
                "S2",
                format!("@{} is used and was never written", call.incarnation),
            );
        }
        self.judge.look("S7");
        let shown = *self
            .judge
            .shown
            .entry((call.incarnation, at))
            .or_insert(mark);
        if shown != mark {
            self.violated(
                "S7",
                format!(
                    "the content of asset/{at:02} at @{} has changed",
                    call.incarnation
                ),
            );
        }
        if call.token > self.judge.token {
            (self.judge.token, self.judge.owned) = (call.token, self.now);
        }
        // An operator may pin an asset to an incarnation that the owner does not know yet.
        if call.change.is_some() && !self.judge.moves.contains_key(&at) {
            let known = self.judge.known.entry(call.token).or_default();
            *known = (*known).max(call.incarnation);
        }
    }

    /// Judges all conditions on a push that begins.
    pub fn judge_push(&mut self, call: &Call<'_>) {
        let at = number(call.asset.id_str());
        self.judge_begun(at, call);
        self.judge.look("S5");
        if call.token < self.judge.token {
            let (token, newest) = (call.token, self.judge.token);
            self.violated(
                "S5",
                format!(
                    "owner {token} begins a push of asset/{at:02} after calls of the newer owner {newest}"
                ),
            );
        }
        self.judge_pin(at, call);
        self.judge_rollout(at, call);
        if call.continuation {
            return;
        }
        self.judge.begun += 1;
        self.begins_for(at, call);
        self.judge_verdicts(at, call);
        self.judge_alone(at);
        self.judge_relied_on(at, call);
        self.judge_claim(at);
        self.judge_removal(at, call);
        self.judge.look("R13");
        let open = self.judge.open.get(&at);
        let known = open.map(|it| (Some(it.change), it.incarnation.0, it.token.0));
        if known != Some((call.change, call.incarnation, call.token)) {
            self.violated(
                "R13",
                format!("a push of asset/{at:02} begins without a durable record in the store"),
            );
        }
    }

    /// R8, R14: pushes follow an acknowledged move of a pin.
    fn judge_pin(&mut self, at: usize, call: &Call<'_>) {
        self.judge.look("R8");
        if let Some(Pinned::At(pinned)) = self.judge.pins.get(&at).copied()
            && pinned != call.incarnation
            && self.mark_at(pinned, at) != self.mark_at(call.incarnation, at)
        {
            let pushed = call.incarnation;
            self.violated(
                "R8",
                format!("asset/{at:02} is pinned to @{pinned}, and a push begins at @{pushed}"),
            );
        }
    }

    /// S1: the last answer of every check that covers the asset let this very change proceed, less than a minute ago.
    fn judge_verdicts(&mut self, at: usize, call: &Call<'_>) {
        for check in gates::covering(call.cause) {
            self.judge.look("S1");
            // Both ids of a renamed asset are checked, each for its own push.
            let key = (call.node, check, call.asset.id());
            let said = self.judge.said.get(&key).copied();
            let passes = |said: Said| {
                said.yes
                    && said.incarnation == call.incarnation
                    && Some(said.change) == call.change
                    && self.now.since(said.at) < AGE
            };
            if !said.is_some_and(passes) {
                self.violated(
                    "S1",
                    format!(
                        "a push of asset/{at:02} begins at @{} with change {:?} without a valid answer of check {check}: {said:?}",
                        call.incarnation, call.change
                    ),
                );
            }
        }
    }

    /// S5: a resource has one push at a time.
    fn judge_alone(&mut self, at: usize) {
        let resource = &self.production.resources[at];
        let advisory = resource.kind == Kind::Advisory;
        let other = resource.applying.map(|it| it.push);
        let other = other.or(resource.sent.first().copied().filter(|_| advisory));
        if let Some(other) = other {
            self.violated(
                "S5",
                format!("a push of asset/{at:02} begins while {other:?} is under way"),
            );
        }
    }

    /// S4: no push that relies on the asset is under way, as the process knows.
    fn judge_relied_on(&mut self, at: usize, call: &Call<'_>) {
        self.judge.look("S4");
        let relies = |other: &usize| {
            let open = self.judge.open.get(other);
            open.is_some_and(|it| {
                it.token.0 == call.token && it.relies_on.contains(call.asset.id_str())
            })
        };
        let under_way = self.under_way_at(NodeId(call.node));
        if let Some(other) = under_way.into_iter().find(relies) {
            self.violated(
                "S4",
                format!("a push of asset/{at:02} begins while that of asset/{other:02}, which relies on it, is under way"),
            );
        }
    }

    /// R9: gradual resources with the same key are pushed one at a time.
    fn judge_claim(&mut self, at: usize) {
        if self.production.resources[at].kind != Kind::Gradual {
            return;
        }
        self.judge.look("R9");
        let excluded = |other: &usize| {
            let resource = &self.production.resources[*other];
            *other != at
                && resource.kind == Kind::Gradual
                && resource.applying.is_some()
                && gates::serial(*other) == gates::serial(at)
        };
        let other = (0..self.production.resources.len()).find(excluded);
        if let Some(other) = other {
            self.violated(
                "R9",
                format!("asset/{at:02} is pushed at the same time as asset/{other:02}, which has the same key"),
            );
        }
    }

    /// S3: a resource is removed only with a turndown and an approval, and an asset that left intent is not pushed.
    fn judge_removal(&mut self, at: usize, call: &Call<'_>) {
        self.judge.look("S3");
        let asked = call.asset.has_addon(Turndown::TYPE);
        let approvals = &self.judge.approvals;
        let approved = call.change.filter(|change| approvals.has(at, *change));
        if let Some(change) = approved.filter(|_| call.turndown) {
            self.judge.look("R12");
            let decided = self.judge.opened.get(&at).copied().unwrap_or_default();
            if !self.judge.approvals.spend(at, change, decided) {
                self.violated(
                    "R12",
                    format!("asset/{at:02} is turned down again without another approval"),
                );
            }
        }
        let approved = approved.is_some();
        if call.turndown != asked || (call.turndown && !approved) {
            self.violated(
                "S3",
                format!(
                    "asset/{at:02}: turndown is {}, intent asks for it: {asked}, approved: {approved}",
                    call.turndown
                ),
            );
        }
        let known = self
            .judge
            .known
            .get(&call.token)
            .copied()
            .unwrap_or_default();
        let newest = self.sealed.accepted.get(&known);
        let gone = newest.is_some_and(|all| all.iter().all(|it| !it.marks.contains_key(&at)));
        if gone && !self.plan.wishes[at].pool && !self.judge.pins.contains_key(&at) {
            self.violated(
                "S3",
                format!(
                    "asset/{at:02} left intent in @{known} at the latest and is pushed at @{} for the cause {:?}",
                    call.incarnation, call.cause
                ),
            );
        }
    }
}
