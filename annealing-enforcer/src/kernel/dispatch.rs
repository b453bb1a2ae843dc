//! When each asset is diffed next: triggers and queues, what is due, and calls for which plugins have capacity.

use plugin_sdk::{Mono, Now};

use super::{
    Kernel,
    event::Effects,
    publish::AHEAD,
    state::{
        attempt::Phase,
        numbers::AttemptNo,
        numbers::SlotNo,
        numbers::TypeNo,
        registered::RegisteredType,
        slot::{Class, State, Trigger, cuts, flag},
    },
};

impl Kernel {
    /// Time at which the kernel needs an [`Event::Tick`](super::Event::Tick) if no other event comes before. `None`: no time.
    pub fn next_wake(&self, now: Now) -> Option<Mono> {
        if !self.may_start(now) {
            return self.schedule.next_timer();
        }
        let probes = self
            .kinds
            .iter()
            .filter(|kind| kind.queued > 0 || !kind.asked.is_empty())
            .filter(|kind| kind.diffs < kind.config.diffs)
            .filter_map(|kind| kind.breaker.probe_at());
        let pushes = self.kinds.iter().filter_map(RegisteredType::push_probe_at);
        let drift = self.schedule.next_drift(self.table.len());
        let remember = self.ledger.quiet_at();
        let observation = self.observations.next_deadline();
        self.schedule
            .next_timer()
            .into_iter()
            .chain(observation)
            .chain(drift)
            .chain(probes)
            .chain(pushes)
            .chain(remember)
            .chain([self.ownership.note_at()])
            .min()
    }

    /// Handles everything that is due: timers, deadlines of observations, probes and the drift scan.
    pub(super) fn time_passed(&mut self, now: Now, out: &mut Effects) {
        let attempts = &self.attempts;
        self.schedule.tidy(|at, generation| {
            attempts
                .at(at)
                .is_some_and(|it| it.generation == generation)
        });
        while let Some((due, at, generation)) = self.schedule.pop_timer(now.mono) {
            self.timer_fired(now, due, (at, generation), out);
        }
        if self
            .observations
            .next_deadline()
            .is_some_and(|at| at <= now.mono)
        {
            self.expire_observations(now, out);
        }
        self.expire_asked(now, out);
        let amounts = &mut self.claims.amounts;
        amounts.forget(now.mono, self.config.evidence_age);
        let floors = &mut self.claims.floors;
        floors.forget(now.mono, self.config.drift_period * 2);
        if self.has_lease(now) {
            self.note_owned(now, out);
            for kind in TypeNo::all(self.kinds.len()) {
                let probe = self.kinds[kind.index()].push_probe_at();
                if probe.is_some_and(|at| at <= now.mono) {
                    self.grant_permits(now, kind, out);
                }
            }
            while let Some(slot) = self.schedule.pop_drift(now.mono, self.table.len()) {
                self.trigger(now, slot, Trigger::DriftScan, Class::Drift);
            }
        }
    }

    /// Requests a diff of an asset. It is queued, runs after the current one, or is dropped if the asset has to wait.
    pub(super) fn trigger(&mut self, now: Now, slot: SlotNo, trigger: Trigger, class: Class) {
        // The slot was given up while the asset waited.
        if self.table.is_free(slot) {
            return;
        }
        let entry = self.table.slot_mut(slot);
        match entry.state {
            State::Idle => {}
            State::Queued if class >= entry.class => return,
            State::Queued => {}
            State::Running => {
                if trigger != Trigger::DriftScan {
                    // A trigger that ends a wait is not replaced by one that does not.
                    if !entry.has(flag::RERUN) || cuts(trigger) || !cuts(entry.trigger) {
                        entry.trigger = trigger;
                    }
                    entry.set(flag::RERUN, true);
                    entry.class = entry.class.min(class);
                }
                return;
            }
            State::Waiting => {
                let at = entry.attempt;
                if self.must_wait(slot) {
                    return;
                }
                let patient = self.attempts.at(at).is_some_and(
                    |it| matches!(&it.phase, Phase::Waiting(wait) if wait.is_patient()),
                );
                if (patient && !cuts(trigger)) || trigger == Trigger::DriftScan {
                    return;
                }
            }
        }
        self.enqueue(now, slot, trigger, class);
    }

    /// Puts an asset into the queue of its plugin, from any state.
    pub(super) fn enqueue(&mut self, now: Now, slot: SlotNo, trigger: Trigger, class: Class) {
        let entry = self.table.slot_mut(slot);
        if entry.state != State::Queued {
            self.kinds[entry.kind.index()].queued += 1;
        }
        (entry.state, entry.trigger, entry.class) = (State::Queued, trigger, class);
        self.kinds[entry.kind.index()]
            .ready
            .push(class, slot, now.mono);
        if let Some(attempt) = self.attempts.at_mut(entry.attempt) {
            attempt.phase = Phase::Queued;
            attempt.advance();
        }
        self.followed.touch(slot);
    }

    /// Starts diffs and observations for which the plugins have capacity.
    pub(super) fn dispatch(&mut self, now: Now, out: &mut Effects) {
        // Starting a diff for one type may wake an asset of another type.
        while TypeNo::all(self.kinds.len()).any(|kind| self.start_diffs(now, kind, out)) {}
        self.forget_seen();
        self.forget_gone(out);
        if self.ledger.has_quiet() {
            self.remember_quiet(now, out);
        }
    }

    /// Starts the diffs and observations for which one plugin has capacity. Returns whether it started any diff.
    pub(super) fn start_diffs(&mut self, now: Now, kind: TypeNo, out: &mut Effects) -> bool {
        if self.kinds[kind.index()].breaker.is_open() && self.start_probe(now, kind, out) {
            return true;
        }
        let mut started = 0;
        self.start_observations(now, kind, out);
        while self.kinds[kind.index()].queued > 0 && self.may_diff(now, kind) {
            if started % AHEAD == 0 {
                let ready = &self.kinds[kind.index()].ready;
                self.table.read_ahead(ready.first(AHEAD));
            }
            let table = &self.table;
            let stale = |slot: SlotNo, class| {
                let slot = table.slot(slot);
                slot.state != State::Queued || slot.class != class || slot.kind != kind
            };
            let patience = self.config.drift_period / 4;
            let Some(slot) = self.kinds[kind.index()]
                .ready
                .pop(now.mono, patience, stale)
            else {
                break;
            };
            self.kinds[kind.index()].queued -= 1;
            self.start_diff(now, slot, out);
            started += 1;
        }
        started > 0
    }

    /// Ends the attempt of an asset. The asset is idle then, or queued again if a rerun was requested.
    pub(super) fn finish(&mut self, now: Now, slot: SlotNo) {
        let entry = self.table.slot_mut(slot);
        let rerun = entry.has(flag::RERUN);
        entry.set(flag::RERUN, false);
        entry.state = State::Idle;
        let (trigger, class) = (entry.trigger, entry.class);
        self.give_back_all(now, slot);
        self.claims.rates.forget(&slot);
        let attempt = std::mem::replace(&mut self.table.slot_mut(slot).attempt, AttemptNo::NONE);
        let woken_for = self
            .attempts
            .at_mut(attempt)
            .and_then(|it| it.woken_for.take());
        self.attempts.remove(attempt);
        self.followed.touch(slot);
        self.pass_on(now, woken_for);
        if rerun {
            self.enqueue(now, slot, trigger, class);
        }
        self.give_up(now, slot);
    }
}
