//! What an asset goes through: queue, diff, permit, check; and how it waits in between.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use plane_store::records::Outcome;
use plugin_sdk::{Cause, Change, Diff, Guard, Now, Observed, Run, Verdict, plugin};
use prodspec_model::{Asset, Message, addons};

use super::{
    Kernel,
    branch::{Branch, Bug},
    event::{Call, CheckCall, Effects, Target},
    iteration::{Phase, Wait},
    slot::{Class, NONE, State, Trigger, flag},
    waiting::until,
};

/// A finding older than this is looked at again before checks are asked: it would be too old when they answer.
const FRESH: Duration = Duration::from_secs(25);

/// From so many successful pushes without being in sync, each further one is waited for longer.
const MANY_PUSHES: u32 = 10;

impl Kernel {
    /// The asset's turn: compare it with production.
    pub(super) fn start_diff(&mut self, now: Now, slot: u32, out: &mut Effects) {
        let Some((asset, incarnation)) = self.intent_of(slot) else {
            self.stands_alone(now, slot, out);
            self.finish(now, slot);
            return;
        };
        if self.follow_type(now, slot, asset.type_str()) {
            return;
        }
        let reached = self.table.slot(slot).has(flag::REACHED);
        let cause = match self.table.pin_cause(slot) {
            Some(cause) if cause != Cause::Intent => cause,
            _ if reached => Cause::Drift,
            _ => Cause::Intent,
        };
        let entry = self.table.slot_mut(slot);
        if entry.iteration == NONE {
            entry.iteration = self.iterations.insert(slot, incarnation.clone(), cause);
        }
        entry.n += 1;
        entry.state = State::Running;
        // Whatever asked for a rerun before now is answered by this one.
        entry.set(flag::RERUN, false);
        let (at, kind, n) = (entry.iteration, entry.kind, entry.n);
        let run = Run {
            slot,
            n: entry.n,
            incarnation: incarnation.no(),
        };
        let (pin, seq) = (entry.pin, entry.seq);
        let Some(iteration) = self.iterations.at_mut(at) else {
            return;
        };
        iteration.run = n;
        iteration.latest = self.table.latest().no();
        iteration.incarnation = incarnation.clone();
        iteration.cause = cause;
        (iteration.pin, iteration.seq, iteration.diff_started) = (pin, seq, now.mono);
        (iteration.phase, iteration.wakes) = (Phase::Diffing, None);
        iteration.advance();
        let generation = iteration.generation;
        let state = &mut self.kinds[kind as usize];
        state.diffs += 1;
        state.breaker.called();
        self.timers
            .set_diff(now.mono + state.config.diff_deadline, at, generation);
        out.calls.push(Call::Diff(Target {
            run,
            plugin: kind,
            asset,
            incarnation,
        }));
    }

    /// The intent that an asset is enforced at: none for orphans and for those not pinned yet.
    fn intent_of(&self, slot: u32) -> Option<(Asset, prodspec_model::Incarnation)> {
        if let Some(intent) = self.table.intent(slot) {
            return Some(intent);
        }
        let entry = self.table.slot(slot);
        // An open push of an orphan still has to be resolved, by looking.
        (entry.in_flight() || (entry.has(flag::ORPHAN) && self.planted(Bug::RemoveOrphan)))
            .then(|| {
                let there = self.table.elsewhere(slot).map(|there| there.last.clone());
                let last = there.unwrap_or_else(|| self.table.latest().clone());
                self.table.known(slot).map(|asset| (asset, last))
            })
            .flatten()
    }

    /// An asset whose intent is of another type now goes to that type's plugin. Says whether it did.
    fn follow_type(&mut self, now: Now, slot: u32, type_name: &str) -> bool {
        let entry = self.table.slot(slot);
        let (kind, trigger, class) = (entry.kind, entry.trigger, entry.class);
        if self.kinds[kind as usize].config.name.as_str() == type_name {
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
        self.diff_ended(now, self.table.slot(run.slot).kind, answer.as_ref().err());
        let diff = match answer {
            Ok(diff) => diff,
            Err(error) => return self.failed(now, run.slot, &error, out),
        };
        if self.table.slot(run.slot).in_flight() {
            if let Diff::InProgress { check_again_in } = diff {
                return self.wait_for(now, run.slot, Wait::Unknown, check_again_in, out);
            }
            self.resolve(now, at, out);
        }
        self.found(now, run.slot, at, diff, out);
    }

    /// What a diff found of an asset that has no push in flight.
    fn found(&mut self, now: Now, slot: u32, at: u32, diff: Diff, out: &mut Effects) {
        if self.table.intent(slot).is_none() && !self.planted(Bug::RemoveOrphan) {
            self.stands_alone(now, slot, out);
            return self.finish(now, slot);
        }
        if self.overtaken(at) {
            return self.enqueue(now, slot, Trigger::IntentChanged, Class::Intent);
        }
        match diff {
            Diff::InSync { look_again_at, .. } => self.in_sync(now, slot, look_again_at, out),
            Diff::Differs { change, observed } => {
                self.differs(now, slot, Arc::new(*change), observed, out)
            }
            Diff::InProgress { check_again_in } => {
                self.count(Branch::DiffInProgress);
                self.out_of_sync(now, slot, out);
                self.wait_for(now, slot, Wait::InProgress, check_again_in, out);
            }
            Diff::Foreign { owner } => {
                self.count(Branch::Foreign);
                self.out_of_sync(now, slot, out);
                self.held(
                    now,
                    slot,
                    format!("the resource belongs to {owner}; only one system may own it"),
                    out,
                );
            }
            _ => self.failed(
                now,
                slot,
                &plugin::Error::permanent("the plugin answered something unknown"),
                out,
            ),
        }
    }

    /// The iteration that waits for the answer of `run` in a phase, if any still does. The slot's own count of calls
    /// may have gone on: observations of the asset count too.
    pub(super) fn awaiting(&self, run: Run, phase: fn(&Phase) -> bool) -> Option<u32> {
        if run.slot >= self.table.len() {
            return None;
        }
        let at = self.table.slot(run.slot).iteration;
        let iteration = self.iterations.at(at)?;
        (iteration.run == run.n && phase(&iteration.phase)).then_some(at)
    }

    /// Whether newer intent voids what this run found (R11).
    pub(super) fn overtaken(&mut self, at: u32) -> bool {
        let Some(iteration) = self.iterations.at_mut(at) else {
            return true;
        };
        let slot = self.table.slot(iteration.slot);
        if slot.pin != iteration.pin {
            return true;
        }
        if slot.changed <= iteration.latest {
            return false;
        }
        if iteration.voids >= 3 {
            return false;
        }
        iteration.voids += 1;
        self.count(Branch::MovedIntent);
        true
    }

    fn in_sync(
        &mut self,
        now: Now,
        slot: u32,
        look_again_at: Option<Timestamp>,
        out: &mut Effects,
    ) {
        self.count(Branch::InSync);
        let at = self.table.slot(slot).iteration;
        // A run that finished at its own, older incarnation says nothing about the newer one.
        if self
            .iterations
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
                if let Some(iteration) = self.iterations.at_mut(at) {
                    iteration.failures = 0;
                }
                self.wait_for(now, slot, Wait::LookAgain, wait, out);
            }
        }
    }

    fn differs(
        &mut self,
        now: Now,
        slot: u32,
        change: Arc<Change>,
        observed: Observed,
        out: &mut Effects,
    ) {
        self.count(Branch::Differs);
        self.out_of_sync(now, slot, out);
        let entry = self.table.slot(slot);
        let (at, kind) = (entry.iteration, entry.kind);
        let Some(iteration) = self.iterations.at_mut(at) else {
            return;
        };
        let Some(asset) = iteration
            .incarnation
            .snapshot()
            .get(self.table.known(slot).as_ref().map_or("", Asset::id_str))
        else {
            return self.finish(now, slot);
        };
        iteration.turndown = asset.has_addon(addons::Turndown::TYPE);
        iteration.observed = observed;
        iteration.change = Some(change.clone());
        let turndown = iteration.turndown;
        if let Some(why) = self.may_not_push(kind, turndown) {
            return self.held(now, slot, why, out);
        }
        let Some(iteration) = self.iterations.at_mut(at) else {
            return;
        };
        if let Some(mut asleep) = iteration.asleep.take()
            && asleep.change == change.digest
            && asleep.lasts(now, self.claims.rates.moved_up(slot, now.mono))
        {
            self.count(Branch::Asleep);
            return self.sleep(now, slot, asleep.delays, asleep.until, out);
        }
        if self.throttled(now, at, out) || self.not_converging(now, at, &change, out) {
            return;
        }
        let Some(iteration) = self.iterations.at_mut(at) else {
            return;
        };
        iteration.phase = Phase::Permit;
        iteration.advance();
        let generation = iteration.generation;
        // L2: it is looked at again though all capacity is taken for long.
        let period = now.mono + self.config.drift_period;
        self.timers.set(period, at, generation);
        self.kinds[kind as usize]
            .permits
            .push_back((at, generation));
        self.grant_permits(now, kind, out);
    }

    /// Whether the provider asked for pushes to wait longer: then it waits on.
    fn throttled(&mut self, now: Now, at: u32, out: &mut Effects) -> bool {
        let it = self.iterations.at(at);
        let told = it.and_then(|it| Some((it.slot, it.throttled.clone()?)));
        let Some((slot, (then, why))) = told.filter(|(_, (then, _))| now.mono < *then) else {
            return false;
        };
        self.wait_for(now, slot, Wait::Backoff(why), then.since(now.mono), out);
        true
    }

    /// Why assets of a type are never pushed, or never in this way.
    fn may_not_push(&mut self, kind: u16, turndown: bool) -> Option<String> {
        let config = &self.kinds[kind as usize].config;
        if turndown && !config.turndown {
            let why = format!(
                "no plugin turns {} down; register one with Turndown",
                config.name
            );
            self.count(Branch::NoTurndown);
            return Some(why);
        }
        if self.config.observe_only || config.observe_only {
            self.count(Branch::ObserveOnly);
            return Some("observe-only: it is diffed, never pushed".into());
        }
        None
    }

    /// The same change again after successful pushes: flagged, and slowed down.
    fn not_converging(&mut self, now: Now, at: u32, change: &Change, out: &mut Effects) -> bool {
        let Some(iteration) = self.iterations.at_mut(at) else {
            return true;
        };
        let Some((digest, times)) = iteration.pushed else {
            return false;
        };
        if digest != change.digest || times < 3 {
            return self.slowed_down(now, at, out);
        }
        // After the wait, one more push.
        iteration.pushed = Some((digest, times - 1));
        let (slot, period) = (iteration.slot, self.config.drift_period);
        self.count(Branch::NotConverging);
        let why = "not converging: the same change again after 3 successful pushes; look at the plugin's diff".to_owned();
        self.decide(now, slot, Outcome::Held(why.clone()), out);
        self.wait_for(now, slot, Wait::Backoff(why), period, out);
        true
    }

    /// Another change after every push, without end: a plugin that flaps is not pushed in a hot loop.
    fn slowed_down(&mut self, now: Now, at: u32, out: &mut Effects) -> bool {
        let Some(iteration) = self.iterations.at_mut(at) else {
            return true;
        };
        let (slot, pushes) = (iteration.slot, iteration.pushes);
        if pushes < MANY_PUSHES || iteration.slowed == pushes {
            return false;
        }
        iteration.slowed = pushes;
        self.count(Branch::NotConverging);
        let why = "not converging: it still differs after many successful pushes; look at the plugin's diff".to_owned();
        self.decide(now, slot, Outcome::Held(why.clone()), out);
        let wait = self.backoff(pushes - MANY_PUSHES);
        self.wait_for(now, slot, Wait::Backoff(why), wait, out);
        true
    }

    /// Gives push capacity to those who wait for it, in order, and starts their checks.
    pub(super) fn grant_permits(&mut self, now: Now, kind: u16, out: &mut Effects) {
        loop {
            let state = &mut self.kinds[kind as usize];
            if !state.may_push(now.mono) {
                return;
            }
            let Some((at, generation)) = state.permits.pop_front() else {
                return;
            };
            let Some(iteration) = self
                .iterations
                .at_mut(at)
                .filter(|it| it.generation == generation)
            else {
                continue;
            };
            if !matches!(iteration.phase, Phase::Permit) {
                continue;
            }
            if now.mono.since(iteration.diff_started) > FRESH {
                let slot = iteration.slot;
                self.enqueue(now, slot, Trigger::RetryDue, Class::Retry);
                continue;
            }
            iteration.permit = true;
            iteration.probes = state.push_breaker.is_open();
            state.push_breaker.called();
            state.pushes += 1;
            self.start_check(now, at, out);
        }
    }

    fn start_check(&mut self, now: Now, at: u32, out: &mut Effects) {
        let edges_seen = self.edges.count();
        let Some(iteration) = self.iterations.at_mut(at) else {
            return;
        };
        let slot = iteration.slot;
        let (Some(change), Some(known)) = (iteration.change.clone(), self.table.known(slot)) else {
            return;
        };
        let Some(asset) = iteration.incarnation.snapshot().get(known.id_str()) else {
            return;
        };
        let reached = self.table.slot(slot).has(flag::REACHED);
        let brought = match reached {
            true => Vec::new(),
            false => self.edges.brought(&asset),
        };
        let entry = self.table.slot_mut(slot);
        // The check's observations count calls on; its own answer is recognised by this number.
        entry.n += 1;
        iteration.run = entry.n;
        let run = Run {
            slot,
            n: entry.n,
            incarnation: iteration.incarnation.no(),
        };
        iteration.phase = Phase::Checking;
        iteration.advance();
        iteration.check_started = now.mono;
        iteration.edges_seen = edges_seen;
        iteration.settles_seen = self.settles;
        self.checking += 1;
        self.timers.set(
            now.mono + self.config.check_deadline,
            at,
            iteration.generation,
        );
        out.calls.push(Call::Check(CheckCall {
            target: Target {
                run,
                plugin: entry.kind,
                asset,
                incarnation: iteration.incarnation.clone(),
            },
            change,
            observed: iteration.observed.clone(),
            cause: iteration.cause,
            edges: self.edges.shared(),
            latest: self.table.latest().clone(),
            brought,
        }));
    }

    pub(super) fn check_done(
        &mut self,
        now: Now,
        run: Run,
        answer: Result<Verdict, String>,
        out: &mut Effects,
    ) {
        match self.awaiting(run, |phase| matches!(phase, Phase::Checking)) {
            Some(at) => self.checked(now, at, answer, out),
            None => self.count(Branch::Late),
        }
    }

    /// The checks of an iteration ended, or their deadline passed.
    pub(super) fn checked(
        &mut self,
        now: Now,
        at: u32,
        answer: Result<Verdict, String>,
        out: &mut Effects,
    ) {
        self.checking -= 1;
        let verdict = match answer {
            Ok(verdict) => verdict,
            Err(_) if self.planted(Bug::PushOnTimedOutCheck) => Verdict::proceed(now.wall),
            Err(why) => super::admission::failed_check(now, why),
        };
        self.decide_admission(now, at, &verdict, out);
    }

    /// Whether an advisory provider may still be at work on a push of unknown outcome: no intent cuts that short.
    pub(super) fn must_wait(&self, slot: u32) -> bool {
        let it = self.iterations.at(self.table.slot(slot).iteration);
        let unknown =
            |it: &super::iteration::Iteration| matches!(it.phase, Phase::Waiting(Wait::Unknown));
        it.is_some_and(unknown) && !self.is_guarded(slot)
    }

    /// Whether a diff alone tells what became of an open push: the provider refuses late calls.
    pub(super) fn is_guarded(&self, slot: u32) -> bool {
        self.kinds[self.table.slot(slot).kind as usize].config.guard == Guard::Guarded
    }
}
