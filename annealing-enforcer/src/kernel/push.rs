//! Push: from admission to a known outcome. A push is recorded ahead, called, and resolved or closed.

use control_plane_store::records::Outcome;
use plugin_sdk::{Cause, Claim, Key, Mono, Now, Pushed, Run, plugin};
use prodspec_model::{Digest, addons::DependsOn};

use super::{
    Kernel,
    branch::Branch,
    event::{Call, Effects, PushCall, Target},
    report::class_of,
    state::{
        attempt::{NOT_CONVERGING, Phase, Wait},
        numbers::AttemptNo,
        numbers::SlotNo,
        slot::{Class, Trigger},
    },
};
use crate::bug::Bug;

impl Kernel {
    /// Opens an admitted push. It starts once its record is durable (R13).
    pub(super) fn admitted(&mut self, now: Now, at: AttemptNo, out: &mut Effects) {
        self.count(Branch::Admitted);
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let slot = it.slot;
        it.stales = 0;
        // The push may have been admitted without the claim for which it was woken.
        let woken_for = it.woken_for.take();
        let taken = |key: &Key| {
            let of = |claim: &Claim| matches!(claim, Claim::Exclusive(own) | Claim::AtMost(own, _) if own == key);
            it.claims.iter().any(of)
        };
        let free = woken_for.filter(|key| !taken(key));
        let config = &self.kinds[self.table.slot(slot).kind.index()].config;
        it.push_until = now.mono + config.push_total;
        it.call_until = (now.mono + config.push_deadline).min(it.push_until);
        let (finishes_own, incarnation) = (it.voids >= 3, it.incarnation.clone());
        if finishes_own {
            self.count(Branch::FinishesOwn);
        }
        let Some(id) = self.table.id(slot) else {
            return;
        };
        let before = self.edges.count();
        if let Some(asset) = incarnation.asset(&id) {
            self.edges.bring(&id, &DependsOn::edges_of(&asset));
            self.level_at_push(now, slot, at);
        }
        if self.edges.count() > before {
            self.count(Branch::NewEdge);
        }
        self.decide(now, slot, Outcome::Admitted, out);
        self.forget_unhealthy(slot);
        let number = self.remember(now, slot, out);
        if let Some(it) = self.attempts.at_mut(at) {
            it.phase = Phase::Journaling(number);
            it.advance();
        }
        self.ledger.await_durable(number, at);
        self.pass_on(now, free);
        if self.planted(Bug::PushBeforeDurable) {
            self.durable(now, number, out);
        }
    }

    /// Starts the pushes and follow-ups whose records are durable.
    pub(super) fn durable(&mut self, now: Now, upto: u64, out: &mut Effects) {
        while let Some((number, at)) = self.ledger.next_durable(upto) {
            let journaling = |it: &super::state::attempt::Attempt| matches!(it.phase, Phase::Journaling(n) if n == number);
            if self.attempts.at(at).is_some_and(journaling) {
                self.start_push(now, at, out);
            }
        }
    }

    /// Starts the push, unless the pin moved, a pause began, or the lease or the evidence expired before its record
    /// became durable.
    fn start_push(&mut self, now: Now, at: AttemptNo, out: &mut Effects) {
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        if std::mem::take(&mut it.follows) {
            return self.start_follow_up(now, at, out);
        }
        let late = now.mono >= self.begin_by(at);
        if !self.may_start(now) || !self.may_go_on(now, at) || late {
            return self.withdraw(now, at, out);
        }
        self.call_push(now, at, false, out);
    }

    /// Returns the time by which an admitted push must have begun. R10: by the birth of the verdict's evidence. R13:
    /// while more than half of the recorded call deadline is left, since an advisory provider may take as long as the
    /// deadline, however late the call began.
    fn begin_by(&self, at: AttemptNo) -> Mono {
        let Some(it) = self.attempts.at(at) else {
            return Mono(0);
        };
        let config = &self.kinds[self.table.slot(it.slot).kind.index()].config;
        let half = config.push_deadline.min(config.push_total) / 2;
        it.good_until.min(it.call_until - half)
    }

    /// Withdraws an admitted push that never began: it gives everything back, and the asset is diffed again.
    fn withdraw(&mut self, now: Now, at: AttemptNo, out: &mut Effects) {
        let Some(slot) = self.attempts.at(at).map(|it| it.slot) else {
            return;
        };
        self.count(Branch::Withdrawn);
        self.count_void(at);
        self.give_back_new(now, at);
        self.give_back_waivers(at, out);
        let before = self.attempts.at_mut(at).and_then(|it| it.before.take());
        if let Some(before) = before.filter(|_| self.table.has_intent(slot)) {
            self.table.last_settled_mut().put_back(slot, before);
        }
        self.close(now, at, out);
        self.remember(now, slot, out);
        self.enqueue(now, slot, Trigger::RetryDue, Class::Retry);
    }

    /// R10: handles a call that did not begin, because a clock read at that moment showed that it was too late.
    pub(super) fn push_not_started(
        &mut self,
        now: Now,
        run: Run,
        continuation: bool,
        out: &mut Effects,
    ) {
        match self.awaiting(run, |phase| matches!(phase, Phase::Pushing)) {
            Some(at) if continuation => self.follow_up_soon(now, at),
            Some(at) => self.withdraw(now, at, out),
            None => self.count(Branch::Late),
        }
    }

    /// Whether ownership, pin, intent and pauses still allow the push.
    pub(super) fn may_go_on(&self, now: Now, at: AttemptNo) -> bool {
        let Some(it) = self.attempts.at(at) else {
            return false;
        };
        let slot = self.table.slot(it.slot);
        let moved = slot.pin != it.pin
            || (slot.changed > it.latest && it.voids < 3)
            || self.table.intent(it.slot).is_none();
        let moved = moved && !self.planted(Bug::IgnoreMovedPin) && !self.planted(Bug::RemoveOrphan);
        let id = self.table.id(it.slot);
        let type_name = self.kinds[slot.kind.index()].config.name.as_str();
        let paused = id.is_some_and(|id| self.people.pause(&id, type_name, now.wall).is_some());
        self.has_lease(now) && !moved && !paused
    }

    /// R11: counts a void if newer intent ended an admitted push.
    pub(super) fn count_void(&mut self, at: AttemptNo) {
        if let Some(it) = self.attempts.at_mut(at)
            && self.table.slot(it.slot).changed > it.latest
        {
            it.voids = it.voids.saturating_add(1);
        }
    }

    pub(super) fn call_push(
        &mut self,
        now: Now,
        at: AttemptNo,
        continuation: bool,
        out: &mut Effects,
    ) {
        if let Some(violation) = self.would_break(now, at, continuation) {
            out.violation = Some(violation);
            return;
        }
        let broken = self.is_broken_on_purpose();
        let begin_by = self.begin_by(at);
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let slot = self.table.slot_mut(it.slot);
        slot.n += 1;
        let kind = slot.kind;
        it.run = slot.n;
        let run = Run {
            slot: it.slot.bare(),
            n: slot.n,
            incarnation: it.incarnation.no(),
        };
        self.table.fences.raise(it.slot, run.n);
        it.phase = Phase::Pushing;
        it.advance();
        let begin_by = match continuation {
            _ if broken => Mono(u64::MAX),
            true => it.call_until,
            false => begin_by,
        };
        self.schedule.set(it.call_until, at, it.generation);
        let known = self.table.known(it.slot);
        let asset = known
            .as_ref()
            .and_then(|known| it.incarnation.snapshot().get(known.id_str()))
            .or(known);
        let (Some(asset), Some(change)) = (asset, &it.change) else {
            return;
        };
        out.calls.push(Call::Push(PushCall {
            target: Target {
                run,
                fence: run.n,
                plugin: kind,
                asset,
                incarnation: it.incarnation.clone(),
            },
            cause: it.cause,
            change: change.digest,
            continuation,
            turndown: it.turndown,
            begin_by,
        }));
    }

    pub(super) fn push_done(
        &mut self,
        now: Now,
        run: Run,
        answer: Result<Pushed, plugin::Error>,
        out: &mut Effects,
    ) {
        match self.awaiting(run, |phase| matches!(phase, Phase::Pushing)) {
            Some(at) => self.push_ended(now, at, answer, false, out),
            None => self.count(Branch::Late),
        }
    }

    /// Handles the end of a call of push, or its passed deadline. `is_late`: the deadline passed while this process
    /// stood still.
    pub(super) fn push_ended(
        &mut self,
        now: Now,
        at: AttemptNo,
        answer: Result<Pushed, plugin::Error>,
        is_late: bool,
        out: &mut Effects,
    ) {
        let Some(slot) = self.attempts.at(at).map(|it| it.slot) else {
            return;
        };
        self.push_call_ended(now, slot, answer.as_ref().err(), is_late, out);
        match &answer {
            Ok(Pushed::InProgress { .. }) | Err(plugin::Error::Unknown { .. }) => {}
            Ok(_) => self.tell_push_ended(now, slot, "done", out),
            Err(error) => self.tell_push_ended(now, slot, class_of(error).1, out),
        }
        match answer {
            Ok(Pushed::InProgress { check_again_in }) => {
                self.count(Branch::PushInProgress);
                let Some(it) = self.attempts.at_mut(at) else {
                    return;
                };
                it.phase = Phase::Continuing;
                it.advance();
                let least = self.config.backoff_base / 10;
                let wait = check_again_in.clamp(least, self.config.drift_period.max(least));
                self.schedule.set(now.mono + wait, at, it.generation);
            }
            Ok(_) => self.pushed(now, at, out),
            Err(plugin::Error::Unknown { message }) => self.outcome_unknown(now, at, message, out),
            Err(error) => {
                self.close(now, at, out);
                self.remember(now, slot, out);
                self.failed(now, slot, &error, out);
            }
        }
    }

    fn pushed(&mut self, now: Now, at: AttemptNo, out: &mut Effects) {
        self.count(Branch::Pushed);
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let (slot, turndown) = (it.slot, it.turndown);
        let digest = it
            .change
            .as_ref()
            .map_or(Digest([0; 32]), |change| change.digest);
        let times = it
            .pushed
            .filter(|(last, _)| *last == digest)
            .map_or(0, |(_, times)| times);
        it.pushed = Some((digest, times + 1));
        it.pushes = it.pushes.saturating_add(1);
        (it.failures, it.voids) = (0, 0);
        it.told &= NOT_CONVERGING;
        let repairs = it.cause == Cause::Drift && it.pushes == 1;
        if turndown {
            self.count(Branch::TurnedDown);
        }
        if repairs {
            self.repaired(now, slot, out);
        }
        self.close(now, at, out);
        self.decide(now, slot, Outcome::Pushed, out);
        self.remember(now, slot, out);
        let class = self.table.slot(slot).class;
        self.enqueue(now, slot, Trigger::LookAgain, class);
    }

    /// Handles an unknown outcome: the push may still take effect, so a diff comes before anything else.
    pub(super) fn outcome_unknown(
        &mut self,
        now: Now,
        at: AttemptNo,
        why: String,
        out: &mut Effects,
    ) {
        self.count(Branch::OutcomeUnknown);
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let (slot, until) = (it.slot, it.call_until);
        it.failures = it.failures.saturating_add(1);
        self.tell_push_ended(now, slot, "unknown", out);
        self.decide(now, slot, Outcome::Failed(why), out);
        if self.is_guarded(slot) {
            self.release_permit(now, slot, out);
            return self.enqueue(now, slot, Trigger::RetryDue, Class::Retry);
        }
        self.wait_unknown(now, slot, until.since(now.mono), out);
    }

    /// Waits until a push at an advisory provider must be over, longer than a drift period if necessary.
    pub(super) fn wait_unknown(
        &mut self,
        now: Now,
        slot: SlotNo,
        wait: std::time::Duration,
        out: &mut Effects,
    ) {
        self.wait_out(now, slot, Wait::Unknown, wait, out);
        self.waits_for_deadline(now, slot);
    }

    /// Closes a push of unknown outcome, as a diff has shown its effect.
    pub(super) fn resolve(&mut self, now: Now, at: AttemptNo, out: &mut Effects) {
        self.count(Branch::Resolved);
        self.close(now, at, out);
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let slot = it.slot;
        it.seq = self.table.slot(slot).seq;
        self.remember(now, slot, out);
    }

    /// Closes a push whose outcome is known: its counter is even again, its holds and exclusive claims are free, and
    /// the assets that waited for them are diffed again.
    fn close(&mut self, now: Now, at: AttemptNo, out: &mut Effects) {
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let slot = it.slot;
        (it.pushed_at, it.pushed_guard, it.before) = (None, None, None);
        it.waivers.clear();
        let relied_on = std::mem::take(&mut it.relies_on);
        let (kept, free): (Vec<_>, Vec<_>) = std::mem::take(&mut it.claims)
            .into_iter()
            .partition(|claim| matches!(claim, Claim::AtMost(..)));
        // An asset that is pushed repeatedly without settling still holds each `AtMost` key only once.
        let (kept, again) = once_each(kept);
        it.claims = kept;
        self.table.slot_mut(slot).seq += 1;
        self.followed.touch(slot);
        self.push_under_new_id_ended(slot);
        self.floors_after_push(now, slot);
        for relied in relied_on {
            self.drop_hold(now, relied);
        }
        for claim in free.into_iter().chain(again) {
            self.give_back(now, slot, &claim);
        }
        self.wake_hold_waiters(now, slot);
        self.release_permit(now, slot, out);
    }

    fn drop_hold(&mut self, now: Now, relied: SlotNo) {
        if self.holds.release(relied) {
            self.wake_hold_waiters(now, relied);
            // The asset may have left meanwhile.
            self.give_up(now, relied);
        }
    }

    pub(super) fn wake_hold_waiters(&mut self, now: Now, slot: SlotNo) {
        for waiter in self.holds.take_waiters(slot) {
            self.trigger(now, waiter, Trigger::DependencySettled, Class::Retry);
        }
    }

    fn give_back(&mut self, now: Now, slot: SlotNo, claim: &Claim) {
        if let Some((key, next)) = self.claims.give_back(&slot, claim) {
            self.wake_for(now, next, key);
        }
    }

    /// Gives back the claims that a withdrawn push took, and keeps those of an earlier push.
    fn give_back_new(&mut self, now: Now, at: AttemptNo) {
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let (slot, held) = (it.slot, it.held.min(it.claims.len()));
        for claim in it.claims.split_off(held) {
            self.give_back(now, slot, &claim);
        }
    }

    /// Gives back the claims that last until the asset settles, fails permanently or is pinned elsewhere.
    ///
    /// Returns whether there were any.
    pub(super) fn give_back_all(&mut self, now: Now, slot: SlotNo) -> bool {
        let at = self.table.slot(slot).attempt;
        let claims = self
            .attempts
            .at_mut(at)
            .map(|it| std::mem::take(&mut it.claims))
            .unwrap_or_default();
        for claim in &claims {
            self.give_back(now, slot, claim);
        }
        !claims.is_empty()
    }

    pub(super) fn release_permit(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        let entry = self.table.slot(slot);
        // A push in flight or of unknown outcome keeps its permit only while a call or a follow-up is due.
        let kind = entry.kind;
        let Some(it) = self.attempts.at_mut(entry.attempt) else {
            return;
        };
        if std::mem::take(&mut it.permit) {
            let kind_of = &mut self.kinds[kind.index()];
            kind_of.pushes -= 1;
            if std::mem::take(&mut it.probes) {
                kind_of.push_breaker.probe_withdrawn();
            }
            self.grant_permits(now, kind, out);
        }
    }
}

/// Splits claims into the first one of each key, and the rest.
fn once_each(claims: Vec<Claim>) -> (Vec<Claim>, Vec<Claim>) {
    let mut seen = std::collections::BTreeSet::new();
    claims.into_iter().partition(|claim| match claim {
        Claim::Exclusive(key) | Claim::AtMost(key, _) => seen.insert(key.clone()),
        _ => false,
    })
}
