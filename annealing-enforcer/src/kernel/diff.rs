//! Diff: comparing an asset with production, and what each finding leads to.

use std::sync::Arc;

use jiff::Timestamp;
use plugin_sdk::{Cause, Change, Diff, Guard, Now, Observed, Run, plugin};
use prodspec_model::{Asset, Message, addons};

use super::{
    Kernel,
    branch::Branch,
    clock::{until, wall_then},
    event::{Call, Effects, Target},
    state::{
        attempt::{Phase, Wait},
        numbers::AttemptNo,
        numbers::SlotNo,
        slot::{Class, State, Trigger, flag},
    },
};
use crate::bug::Bug;

impl Kernel {
    /// Starts the diff of an asset whose turn has come.
    pub(super) fn start_diff(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        if !self.has_plugin(slot) {
            return self.start_without_plugin(now, slot, out);
        }
        if self.waits_for_old_id(now, slot, out) {
            return;
        }
        self.call_diff(now, slot, out);
    }

    fn call_diff(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        let before = self.before_edit(slot);
        let cures = before.is_some();
        let Some((asset, incarnation)) = before.or_else(|| self.intent_of(slot)) else {
            self.report_not_enforced(now, slot);
            self.finish(now, slot);
            return;
        };
        if self.follow_type(now, slot, asset.type_str()) {
            return;
        }
        let intended = || self.table.intent(slot).map(|(asset, _)| asset.digest());
        let resolves = self.table.slot(slot).in_flight() && intended() != Some(asset.digest());
        let cause = match cures {
            true => Cause::Drift,
            false => self.cause_of(slot).unwrap_or(Cause::Intent),
        };
        let entry = self.table.slot_mut(slot);
        if entry.attempt == AttemptNo::NONE {
            entry.attempt = self.attempts.insert(slot, incarnation.clone(), cause);
        }
        entry.n += 1;
        entry.state = State::Running;
        // This diff answers all earlier requests for a rerun.
        entry.set(flag::RERUN, false);
        let (at, kind, n) = (entry.attempt, entry.kind, entry.n);
        let run = Run {
            slot: slot.bare(),
            n: entry.n,
            incarnation: incarnation.no(),
        };
        let (pin, seq) = (entry.pin, entry.seq);
        let fence = self.fence_of_diff(slot);
        let Some(attempt) = self.attempts.at_mut(at) else {
            return;
        };
        attempt.run = n;
        attempt.latest = self.table.latest().no();
        attempt.incarnation = incarnation.clone();
        attempt.cause = cause;
        (attempt.cures, attempt.looks_for_drift) = (cures, false);
        (attempt.resolves, attempt.prolonged, attempt.unhealthy) = (resolves, false, false);
        (attempt.pin, attempt.seq, attempt.diff_started) = (pin, seq, now.mono);
        (attempt.phase, attempt.wakes) = (Phase::Diffing, None);
        attempt.advance();
        let generation = attempt.generation;
        let state = &mut self.kinds[kind.index()];
        state.diffs += 1;
        state.breaker.called();
        self.schedule
            .set_diff(now.mono + state.config.diff_deadline, at, generation);
        out.calls.push(Call::Diff(Target {
            run,
            fence,
            plugin: kind,
            asset,
            incarnation,
        }));
    }

    /// Returns the number that a diff carries. R13: after one that looks for the outcome of a push, the provider refuses
    /// that push, should it arrive late.
    fn fence_of_diff(&mut self, slot: SlotNo) -> u32 {
        let entry = self.table.slot(slot);
        let (in_flight, n) = (entry.in_flight(), entry.n);
        if in_flight {
            self.table.fences.raise(slot, n);
        }
        self.table.fences.of(slot)
    }

    /// Returns the content that the asset settled with last, if this run compares with that (R6). `None` while a push
    /// is open, which is resolved first, and after the pin moved for a cause that does not wait, such as a rollback.
    fn before_edit(&self, slot: SlotNo) -> Option<(Asset, prodspec_model::Incarnation)> {
        let entry = self.table.slot(slot);
        let looks = self
            .attempts
            .at(entry.attempt)
            .is_some_and(|it| it.looks_for_drift);
        (looks && !entry.in_flight() && self.may_wait(slot))
            .then(|| self.settled_last(slot))
            .flatten()
    }

    /// Returns the cause that a push of the asset would have now. `None`: it has no intent, and is left alone.
    pub(super) fn cause_of(&self, slot: SlotNo) -> Option<Cause> {
        let reached = self.table.slot(slot).has(flag::REACHED);
        match self.table.pin_cause(slot) {
            _ if !self.table.has_intent(slot) => None,
            Some(cause) if cause != Cause::Intent => Some(cause),
            _ if reached => Some(Cause::Drift),
            _ => Some(Cause::Intent),
        }
    }

    /// Returns the content to diff and its incarnation: the asset's intent. `None` for orphans and for assets not
    /// pinned yet.
    fn intent_of(&self, slot: SlotNo) -> Option<(Asset, prodspec_model::Incarnation)> {
        let entry = self.table.slot(slot);
        let looked_at_by = |asset: &Asset| self.kind_of(asset.type_str()) == Some(entry.kind);
        if let Some(intent) = self.table.intent(slot)
            && (!entry.in_flight() || looked_at_by(&intent.0))
        {
            return Some(intent);
        }
        // The plugin that made an open push also finds its outcome, although the asset's intent has another type now.
        if let Some(pushed) = self
            .being_pushed(slot)
            .filter(|pushed| looked_at_by(&pushed.0))
        {
            return Some(pushed);
        }
        // An open push of an orphan still has to be resolved by a diff.
        (entry.in_flight() || (entry.has(flag::ORPHAN) && self.planted(Bug::RemoveOrphan)))
            .then(|| {
                let there = self.table.elsewhere(slot).map(|there| there.last.clone());
                let last = there.unwrap_or_else(|| self.table.latest().clone());
                self.table.known(slot).map(|asset| (asset, last))
            })
            .flatten()
    }

    /// Returns the content and the incarnation of the push in flight.
    pub(super) fn being_pushed(
        &self,
        slot: SlotNo,
    ) -> Option<(Asset, prodspec_model::Incarnation)> {
        let it = self.attempts.at(self.table.slot(slot).attempt)?;
        let pushed = it.pushed_at.clone()?;
        let known = self.table.known(slot)?;
        Some((pushed.snapshot().get(known.id_str())?, pushed))
    }

    /// Moves an asset whose intent has another type now to the plugin of that type. Returns whether it did.
    pub(super) fn follow_type(&mut self, now: Now, slot: SlotNo, type_name: &str) -> bool {
        let entry = self.table.slot(slot);
        let (kind, trigger, class) = (entry.kind, entry.trigger, entry.class);
        if self.kinds[kind.index()].config.name.as_str() == type_name {
            return false;
        }
        let Some(other) = self.kind_of(type_name) else {
            return false;
        };
        let entry = self.table.slot_mut(slot);
        (entry.kind, entry.state) = (other, State::Idle);
        self.enqueue(now, slot, trigger, class);
        true
    }

    /// Handles several answers with one epilogue: time and queues are looked at once for all of them.
    pub(super) fn diffs_done(
        &mut self,
        now: Now,
        all: Vec<(Run, Result<Diff, plugin::Error>)>,
        out: &mut Effects,
    ) {
        for (run, answer) in all {
            self.diff_done(now, run, answer, out);
        }
    }

    pub(super) fn diff_done(
        &mut self,
        now: Now,
        run: Run,
        answer: Result<Diff, plugin::Error>,
        out: &mut Effects,
    ) {
        let Some(at) = self.awaiting(run, |phase| matches!(phase, Phase::Diffing)) else {
            if !self.observed(now, run, answer, out) {
                self.count(Branch::Late);
            }
            return;
        };
        let slot = SlotNo::of_run(run);
        let kind = self.table.slot(slot).kind;
        self.diff_ended(now, kind, slot, answer.as_ref().err(), false, out);
        let diff = match answer {
            Ok(diff) => diff,
            Err(error) => return self.failed(now, slot, &error, out),
        };
        if self.table.slot(slot).in_flight() {
            if let Diff::InProgress { check_again_in } = diff {
                return self.wait_for(now, slot, Wait::Unknown, check_again_in, out);
            }
            self.resolve(now, at, out);
            if self.attempts.at(at).is_some_and(|it| it.resolves) {
                return self.enqueue(now, slot, Trigger::IntentChanged, Class::Intent);
            }
        }
        self.own_level_seen(now, slot, at, &diff);
        self.found(now, slot, at, diff, out);
    }

    /// Notes the capacity that the diff of an attempt found, whatever the diff means for the asset itself.
    fn own_level_seen(&mut self, now: Now, slot: SlotNo, at: AttemptNo, diff: &Diff) {
        let entry = self.table.slot(slot);
        let it = self.attempts.at(at).filter(|it| it.seq == entry.seq);
        if let Some(it) = it.filter(|_| !entry.in_flight()) {
            let (of_intent, mono) = (!it.cures, it.diff_started);
            let wall = wall_then(now, mono);
            self.level_seen(now, slot, diff, of_intent, Now { wall, mono });
        }
    }

    /// Handles the finding of a diff of an asset without a push in flight.
    fn found(&mut self, now: Now, slot: SlotNo, at: AttemptNo, diff: Diff, out: &mut Effects) {
        if !self.table.has_intent(slot) && !self.planted(Bug::RemoveOrphan) {
            self.report_not_enforced(now, slot);
            return self.finish(now, slot);
        }
        if self.overtaken(at) {
            return self.enqueue(now, slot, Trigger::IntentChanged, Class::Intent);
        }
        if self.attempts.at(at).is_some_and(|it| it.cures) {
            return self.found_for_drift(now, slot, diff, out);
        }
        match diff {
            Diff::InSync { look_again_at, .. } => self.in_sync(now, slot, look_again_at, out),
            Diff::Differs { change, observed } => {
                self.differs(now, slot, Arc::new(*change), observed, out)
            }
            other => self.cannot_push(now, slot, other, out),
        }
    }

    /// Handles a finding that does not allow a push: work in progress, or another owner of the resource.
    pub(super) fn cannot_push(&mut self, now: Now, slot: SlotNo, diff: Diff, out: &mut Effects) {
        match diff {
            Diff::InProgress { check_again_in } => {
                self.count(Branch::DiffInProgress);
                self.drifted(now, slot, out);
                self.wait_for(now, slot, Wait::InProgress, check_again_in, out);
            }
            Diff::Foreign { owner } => {
                self.count(Branch::Foreign);
                self.drifted(now, slot, out);
                self.held(
                    now,
                    slot,
                    format!("the resource belongs to {owner}; only one system may own a resource"),
                    out,
                );
            }
            _ => self.failed(
                now,
                slot,
                &plugin::Error::permanent("the plugin's diff returned an unknown kind of finding"),
                out,
            ),
        }
    }

    /// Returns the attempt that waits in this phase for the answer of `run`, if any. The slot's own call number may
    /// be higher, because observations of the asset raise it too.
    pub(super) fn awaiting(&self, run: Run, phase: fn(&Phase) -> bool) -> Option<AttemptNo> {
        let slot = SlotNo::of_run(run);
        if !slot.is_below(self.table.len()) {
            return None;
        }
        let at = self.table.slot(slot).attempt;
        let attempt = self.attempts.at(at)?;
        (attempt.run == run.n && phase(&attempt.phase)).then_some(at)
    }

    /// Whether newer intent voids the findings of this run (R11).
    pub(super) fn overtaken(&mut self, at: AttemptNo) -> bool {
        let Some(attempt) = self.attempts.at_mut(at) else {
            return true;
        };
        let slot = self.table.slot(attempt.slot);
        if slot.pin != attempt.pin {
            return true;
        }
        if slot.changed <= attempt.latest {
            return false;
        }
        if attempt.voids >= 3 {
            return false;
        }
        attempt.voids += 1;
        self.count(Branch::MovedIntent);
        true
    }

    fn in_sync(
        &mut self,
        now: Now,
        slot: SlotNo,
        look_again_at: Option<Timestamp>,
        out: &mut Effects,
    ) {
        self.count(Branch::InSync);
        let at = self.table.slot(slot).attempt;
        // A run that finished at its own, older incarnation shows nothing about the newer one.
        if self
            .attempts
            .at(at)
            .is_some_and(|it| self.table.slot(slot).changed > it.latest)
        {
            return self.enqueue(now, slot, Trigger::IntentChanged, Class::Intent);
        }
        self.settle(now, slot, out);
        match look_again_at {
            None => self.finish(now, slot),
            Some(then) => {
                let wait = until(now, then).min(self.config.drift_period);
                if let Some(attempt) = self.attempts.at_mut(at) {
                    attempt.failures = 0;
                }
                self.wait_for(now, slot, Wait::LookAgain, wait, out);
            }
        }
    }

    pub(super) fn differs(
        &mut self,
        now: Now,
        slot: SlotNo,
        change: Arc<Change>,
        observed: Observed,
        out: &mut Effects,
    ) {
        self.count(Branch::Differs);
        self.drifted(now, slot, out);
        let entry = self.table.slot(slot);
        let (at, kind) = (entry.attempt, entry.kind);
        let Some(attempt) = self.attempts.at_mut(at) else {
            return;
        };
        let Some(asset) = attempt
            .incarnation
            .snapshot()
            .get(self.table.known(slot).as_ref().map_or("", Asset::id_str))
        else {
            return self.finish(now, slot);
        };
        attempt.turndown = asset.has_addon(addons::Turndown::TYPE);
        attempt.observed = observed;
        attempt.change = Some(change.clone());
        let turndown = attempt.turndown;
        if let Some(why) = self.may_not_push(kind, turndown) {
            if turndown && self.look_for_drift(now, slot, out) {
                return;
            }
            return self.held(now, slot, why, out);
        }
        if self.sleeps_on(now, at, &change, out)
            || self.throttled(now, at, out)
            || self.not_converging(now, at, &change, out)
        {
            return;
        }
        let Some(attempt) = self.attempts.at_mut(at) else {
            return;
        };
        attempt.phase = Phase::Permit;
        attempt.advance();
        let generation = attempt.generation;
        let rolls_back = attempt.cause == Cause::Rollback;
        // L2: the asset is diffed again even if all capacity stays taken for long.
        let period = now.mono + self.config.drift_period;
        self.schedule.set(period, at, generation);
        self.kinds[kind.index()]
            .permits
            .push((at, generation), rolls_back);
        self.grant_permits(now, kind, out);
    }

    /// Whether an advisory provider may still be working on a push of unknown outcome. Changed intent does not end that
    /// wait.
    pub(super) fn must_wait(&self, slot: SlotNo) -> bool {
        let it = self.attempts.at(self.table.slot(slot).attempt);
        let unknown =
            |it: &super::state::attempt::Attempt| matches!(it.phase, Phase::Waiting(Wait::Unknown));
        it.is_some_and(unknown) && !self.is_guarded(slot)
    }

    /// Whether a diff alone shows the outcome of an open push, because the provider refuses late calls.
    pub(super) fn is_guarded(&self, slot: SlotNo) -> bool {
        let entry = self.table.slot(slot);
        let it = self.attempts.at(entry.attempt);
        // A guard that was registered after the push does not refuse that push.
        let then = it.and_then(|it| it.pushed_guard);
        let now = self.kinds[entry.kind.index()].config.guard;
        now == Guard::Guarded && then.is_none_or(|then| then == Guard::Guarded)
    }
}
