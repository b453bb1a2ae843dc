//! What the judge asks at the moment when a push, or a diff, is begun.

use std::time::Duration;

use plugin_sdk::Cause;
use prodspec_model::{Asset, Digest, Message, addons::Turndown};

use super::{Pinned, Said};
use crate::{
    checks,
    intent::{Kind, number},
    world::State,
};

/// A call of a plugin.
#[derive(Debug)]
pub struct Call<'a> {
    /// From which process.
    pub node: u32,
    /// The asset, as the call's incarnation has it.
    pub asset: &'a Asset,
    /// That incarnation.
    pub incarnation: u32,
    /// The owner.
    pub token: u64,
    /// The change, of a push.
    pub change: Option<Digest>,
    /// Why, of a push.
    pub cause: Option<Cause>,
    /// A follow-up of a push in progress.
    pub continuation: bool,
    /// A removal.
    pub turndown: bool,
}

/// No verdict may be older when a push begins.
const AGE: Duration = Duration::from_secs(60);

impl State {
    /// S2, S7: whatever a consumer is shown was accepted, is durable and never changes.
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
                    "asset/{at:02} at @{} was never accepted by validators",
                    call.incarnation
                ),
            );
        }
        if !self.sealed.written.contains_key(&call.incarnation) {
            self.violated(
                "S2",
                format!("@{} is used, and was never written", call.incarnation),
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
                format!("asset/{at:02} at @{} is not what it was", call.incarnation),
            );
        }
        if call.token > self.judge.token {
            (self.judge.token, self.judge.owned) = (call.token, self.now);
        }
        // A person may pin what the owner has not heard of, and checks look at others as of that.
        if call.change.is_some() && !self.judge.moves.contains_key(&at) {
            let known = self.judge.known.entry(call.token).or_default();
            *known = (*known).max(call.incarnation);
        }
    }

    /// Everything that must hold when a push is begun.
    pub fn judge_push(&mut self, call: &Call<'_>) {
        let at = number(call.asset.id_str());
        self.judge_begun(at, call);
        self.judge.look("S5");
        if call.token < self.judge.token {
            let (token, newest) = (call.token, self.judge.token);
            self.violated(
                "S5",
                format!(
                    "owner {token} begins a push of asset/{at:02}; production has heard of {newest}"
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
        self.judge_claim(at);
        self.judge_removal(at, call);
        self.judge.look("R13");
        let open = call
            .change
            .map(|change| (change, call.incarnation, call.token));
        if self.judge.open.get(&at).copied() != open {
            self.violated(
                "R13",
                format!("a push of asset/{at:02} begins that the store does not know of"),
            );
        }
    }

    /// R8, R14: a pin that was moved, and acknowledged, is heeded.
    fn judge_pin(&mut self, at: usize, call: &Call<'_>) {
        self.judge.look("R8");
        if let Some(Pinned::At(pinned)) = self.judge.pins.get(&at).copied()
            && pinned != call.incarnation
            && self.mark_at(pinned, at) != self.mark_at(call.incarnation, at)
        {
            let pushed = call.incarnation;
            self.violated(
                "R8",
                format!("asset/{at:02} is pinned at @{pinned}, a push is begun at @{pushed}"),
            );
        }
    }

    /// S1: every check that covers the asset said yes to this very change, less than a minute ago, and not no since.
    fn judge_verdicts(&mut self, at: usize, call: &Call<'_>) {
        for check in checks::covering(call.cause) {
            self.judge.look("S1");
            let said = self.judge.said.get(&(call.node, check, at)).copied();
            let passes = |said: Said| {
                said.yes
                    && said.incarnation == call.incarnation
                    && Some(said.change) == call.change
                    && self.now.since(said.at) < AGE
            };
            if !said.is_some_and(passes) {
                self.violated(
                    "S1",
                    format!("a push of asset/{at:02} begins, and check {check} said {said:?}"),
                );
            }
        }
    }

    /// S5: no two pushes of one resource at once.
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

    /// R9: of gradual resources that exclude each other one is pushed at a time.
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
                && checks::serial(*other) == checks::serial(at)
        };
        let other = (0..self.production.resources.len()).find(excluded);
        if let Some(other) = other {
            self.violated(
                "R9",
                format!("asset/{at:02} is pushed while asset/{other:02} is, which excludes it"),
            );
        }
    }

    /// S3: nothing is removed, or pushed at all, because it left intent.
    fn judge_removal(&mut self, at: usize, call: &Call<'_>) {
        self.judge.look("S3");
        let asked = call.asset.has_addon(Turndown::TYPE);
        let words = call
            .change
            .and_then(|change| self.judge.approved.get_mut(&(at, change)));
        let approved = words.is_some();
        if let Some((said, begun)) = words.filter(|_| call.turndown) {
            *begun += 1;
            let (said, begun) = (*said, *begun);
            self.judge.look("R12");
            if begun > said {
                self.violated(
                    "R12",
                    format!("asset/{at:02} is destroyed {begun} times, {said} were approved"),
                );
            }
        }
        if call.turndown != asked || (call.turndown && !approved) {
            self.violated(
                "S3",
                format!("asset/{at:02} is turned down: asked for {asked}, approved {approved}"),
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
                    "asset/{at:02} left intent in @{known} at the latest, and is pushed as of @{} for {:?}",
                    call.incarnation, call.cause
                ),
            );
        }
    }
}
