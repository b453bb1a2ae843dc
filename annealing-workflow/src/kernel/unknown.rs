//! Calls whose outcome is not known: deadlines, deaths of owners, lost answers.

use plugin_sdk::{
    Guard, Mono, Now,
    operation::{Probed, Repeat},
    plugin,
    workflow::{StateName, Task},
};

use super::{
    Bug, Function, Lane,
    event::{Call, CallNo, Effects},
    show::parked,
    sparse::Until,
    state::{Execution, Phase, StepId, Why},
    text::cut,
};
use crate::{
    definition::MachineNo,
    record::{Entry, What},
};

/// Time until a probe is asked again.
const PROBE_AGAIN: std::time::Duration = std::time::Duration::from_secs(5);
/// Time until a step is looked at again whose function is not registered.
const MISSING: std::time::Duration = std::time::Duration::from_secs(60);
/// Time after which the next suspect is tried although the last one has not answered.
const NEXT_SUSPECT: std::time::Duration = std::time::Duration::from_secs(10);

impl Lane {
    /// Whether the function of a machine's action has a probe.
    pub(super) fn has_probe(&self, execution: &Execution, machine: MachineNo) -> bool {
        match execution.action(machine).map(|action| &action.task) {
            Some(Task::Call { function }) => {
                let function = self.settings.functions.get(function);
                function.is_some_and(|function| function.has_probe)
            }
            _ => false,
        }
    }

    /// The function of a step that calls one.
    pub(super) fn function(&self, id: StepId) -> Option<&Function> {
        let execution = self.live.get(&id.execution)?;
        match &execution.action(id.machine)?.task {
            Task::Call { function } => self.settings.functions.get(function),
            _ => None,
        }
    }

    /// The outcome of the last attempt is not known.
    pub(super) fn unknown(&mut self, now: Now, id: StepId, why: &str, out: &mut Effects) {
        let Some(execution) = self.live.get(&id.execution) else {
            return;
        };
        let attempt = execution
            .steps
            .at(id.machine)
            .map_or(0, |step| step.attempt);
        let entry = Entry {
            at: now.wall,
            machine: Some(execution.machine_name(id.machine).clone()),
            what: What::Unknown {
                attempt,
                why: cut(why),
            },
        };
        self.log.entry(id.execution).or_default().push(entry);
        if let Some(step) = self.step_mut(id) {
            step.rare.error = Some(format!("{} (outcome unknown)", cut(why)));
        }
        self.changed(id);
        out.urgent = true;
        self.resolve(now, id, true, out);
    }

    /// Decides what follows an unknown outcome. `counts`: whether it counts as a failure.
    pub(super) fn resolve(&mut self, now: Now, id: StepId, counts: bool, out: &mut Effects) {
        if self.step_of(id).is_some_and(|step| step.rare.restarts) {
            return self.restart_in_time(now, id, out);
        }
        let reach = self.step_of(id).and_then(|step| step.rare.reach);
        let until = reach.filter(|at| *at > now.mono);
        let Some((repeat, guard, probe)) = self
            .function(id)
            .map(|it| (it.info.repeat, it.info.guard, it.has_probe))
        else {
            // What may be done is known when the function is registered again.
            let again = until.unwrap_or(now.mono + MISSING);
            return self.enter(now, id, Phase::Fencing(counts), Some(again));
        };
        let handed_over = self
            .step_of(id)
            .is_some_and(|step| step.phase == Phase::HandedOver);
        let repeat = match repeat {
            Repeat::Never if self.planted(Bug::RepeatNever) => Repeat::Keyed,
            repeat => repeat,
        };
        if let Some(step) = self.step_mut(id) {
            step.uncertain = repeat != Repeat::Safe;
        }
        match (probe, repeat) {
            // R26: an owner that ends asks nothing more.
            (true, _) if self.draining => {
                let again = until.unwrap_or(now.mono + PROBE_AGAIN);
                self.enter(now, id, Phase::Fencing(counts), Some(again));
            }
            (true, _) => self.probe(now, id, counts, out),
            (false, Repeat::Safe) => self.again(now, id, counts, out),
            (false, Repeat::Keyed) => match until {
                Some(_) if guard == Guard::Advisory => {
                    self.enter(now, id, Phase::Fencing(counts), until)
                }
                _ => self.again(now, id, counts, out),
            },
            // R26: it is not parked before its own deadline because its owner has ended in order.
            (false, _) if handed_over && until.is_some() => {
                self.enter(now, id, Phase::Fencing(counts), until);
            }
            (false, _) => self.park(now, id, Phase::Unsettled),
        }
        self.changed(id);
    }

    /// Parks a step, in this phase, until a person says how it goes on.
    pub(super) fn park(&mut self, now: Now, id: StepId, phase: Phase) {
        self.enter(now, id, phase, None);
        let (Some(execution), Some(step)) = (self.live.get(&id.execution), self.step_of(id)) else {
            return;
        };
        let entry = Entry {
            at: now.wall,
            machine: Some(execution.machine_name(id.machine).clone()),
            what: What::Parked(parked(step)),
        };
        self.log.entry(id.execution).or_default().push(entry);
    }

    /// Tries a step again whose last attempt had no effect, or may be repeated.
    fn again(&mut self, now: Now, id: StepId, counts: bool, out: &mut Effects) {
        if !counts {
            return self.due(now, id, out);
        }
        let limit = self
            .live
            .get(&id.execution)
            .and_then(|it| it.action(id.machine))
            .map_or(1, |it| it.retry_limit);
        let Some(step) = self.step_mut(id) else {
            return;
        };
        step.failures += 1;
        step.incarnation = None;
        step.rare.rounds = 0;
        let failures = step.failures;
        match failures < limit {
            true => {
                let wait = self.backoff(failures);
                self.enter(now, id, Phase::Delayed(Why::Failed), Some(now.mono + wait));
            }
            false => self.conclude(now, id, &StateName::from(StateName::FAILED)),
        }
        self.look_at(id.execution, [id.machine]);
    }

    /// Asks the probe of a step.
    fn probe(&mut self, now: Now, id: StepId, counts: bool, out: &mut Effects) {
        let call = self.call_no();
        let Some(name) = self.function(id).map(|function| function.info.name.clone()) else {
            return;
        };
        let Some(key) = self.live.get(&id.execution).map(|it| it.key(id.machine)) else {
            return;
        };
        self.calls.insert(call, id);
        self.running += 1;
        self.enter(
            now,
            id,
            Phase::Probing(call, counts),
            Some(now.mono + super::DISPATCH),
        );
        out.calls.push(Call::Probe(call, name, key));
    }

    /// Takes the answer of a probe.
    pub(super) fn probed(
        &mut self,
        now: Now,
        call: CallNo,
        answer: Result<Probed, plugin::Error>,
        out: &mut Effects,
    ) {
        let Some(id) = self.calls.remove(&call) else {
            return;
        };
        self.running -= 1;
        let Some(Phase::Probing(asked, counts)) = self.step_of(id).map(|step| step.phase.clone())
        else {
            return;
        };
        if asked != call {
            return;
        }
        match answer {
            Ok(Probed::Happened(answer)) => {
                if let Some(step) = self.step_mut(id) {
                    step.uncertain = false;
                    step.rare.reach = None;
                }
                self.suspect_answered(id);
                self.done(now, id, answer, out);
            }
            Ok(Probed::NotHappened) => {
                if let Some(step) = self.step_mut(id) {
                    step.uncertain = false;
                    step.rare.reach = None;
                }
                self.again(now, id, counts, out);
            }
            // Asked again, also by the next owner, because the record says that a call is open.
            other => {
                if let (Err(why), Some(step)) = (other, self.step_mut(id)) {
                    step.rare.error = Some(cut(format!("the probe: {why}")));
                }
                let again = now.mono + PROBE_AGAIN;
                self.enter(now, id, Phase::Fencing(counts), Some(again));
            }
        }
        self.changed(id);
    }

    /// A step has answered that was in flight when an owner ended.
    pub(super) fn suspect_answered(&mut self, id: StepId) {
        if let Some(step) = self.step_mut(id) {
            step.suspect = false;
            step.rare.deaths.clear();
        }
        self.suspect_put_off(id);
    }

    /// The call of a step that was in flight when an owner ended is put off: it may be the turn of the next one.
    pub(super) fn suspect_put_off(&mut self, id: StepId) {
        if self.suspects.tried.is_some_and(|(tried, _)| tried == id) {
            self.suspects.tried = None;
        }
    }

    /// Tries the next step that was in flight when an owner ended, if it is its turn.
    pub(super) fn try_suspects(&mut self, now: Now) {
        if self.suspects.tried.is_some_and(|(_, next)| next > now.mono) {
            return;
        }
        self.suspects.tried = None;
        while let Some(id) = self.suspects.waiting.front().copied() {
            self.suspects.waiting.pop_front();
            let paused = self
                .live
                .get(&id.execution)
                .is_none_or(|it| it.live.paused.is_some());
            if self
                .step_of(id)
                .is_none_or(|step| step.phase != Phase::Suspect)
            {
                continue;
            }
            if paused {
                self.enter(now, id, Phase::Due, None);
                continue;
            }
            self.queue(now, id);
            self.suspects.tried = Some((id, now.mono + NEXT_SUSPECT));
            return;
        }
    }

    /// Looks at the steps whose time has come.
    pub(super) fn fire_alarms(&mut self, now: Now, out: &mut Effects) {
        while let Some(id) = self.agenda.pop(now.mono) {
            let Some(step) = self.step_mut(id) else {
                continue;
            };
            step.listed = Until::NONE;
            let expired = step.ends().is_some_and(|at| at <= now.mono);
            if step.alarm.time().is_some_and(|at| at <= now.mono) {
                step.alarm = Until::NONE;
            } else if !expired {
                self.list(id);
                continue;
            }
            self.fired(now, id, expired, out);
        }
    }

    fn fired(&mut self, now: Now, id: StepId, expired: bool, out: &mut Effects) {
        let Some(phase) = self.step_of(id).map(|step| step.phase.clone()) else {
            return;
        };
        if id.is_start() {
            return self.start_fired(now, id, &phase, out);
        }
        match phase {
            Phase::Calling(call) => self.call_is_late(now, id, call, out),
            Phase::Waiting => self.conclude(now, id, &StateName::from(StateName::DONE)),
            Phase::Asking => self.conclude(now, id, &StateName::from(StateName::EXPIRED)),
            // What may have happened is not called failed by a clock.
            Phase::Unsettled
            | Phase::HandedOver
            | Phase::Poisoned
            | Phase::Suspect
            | Phase::Child(_)
            | Phase::Rests => {}
            Phase::Dispatching(call) => {
                self.drop_call(call, out);
                if expired {
                    return self.out_of_time(now, id);
                }
                let why = Why::NoDispatch("the dispatch stack has not answered in time".into());
                self.enter(
                    now,
                    id,
                    Phase::Delayed(why),
                    Some(now.mono + super::DISPATCH),
                );
            }
            Phase::Editing(call) => {
                self.drop_call(call, out);
                let why = "it is not known whether the edit was made in time";
                self.may_be_edited(now, id, why, out);
            }
            Phase::Settling(call) => {
                self.drop_call(call, out);
                self.expired(now, id);
            }
            Phase::Delayed(Why::Settling) if self.settling_is_over(now, id) => {
                self.expired(now, id)
            }
            Phase::Probing(call, counts) => {
                self.abandon(call, out);
                let again = Some(now.mono + PROBE_AGAIN);
                self.enter(now, id, Phase::Fencing(counts), again);
            }
            Phase::Fencing(counts) => self.resolve(now, id, counts, out),
            _ if expired => self.out_of_time(now, id),
            _ => self.due(now, id, out),
        }
    }

    /// The deadline of a call has passed.
    fn call_is_late(&mut self, now: Now, id: StepId, call: CallNo, out: &mut Effects) {
        let began = !self.held.iter().any(|(_, held, _)| *held == call);
        self.abandon(call, out);
        let restarts = self.step_of(id).is_some_and(|step| step.rare.restarts);
        match began {
            _ if restarts => self.restart_in_time(now, id, out),
            true => self.unknown(now, id, "no answer by the deadline", out),
            false => self.due(now, id, out),
        }
    }

    /// The time for all attempts of a step is over.
    fn out_of_time(&mut self, now: Now, id: StepId) {
        if let Some(step) = self.step_mut(id) {
            let why = || "the time for all attempts is over".to_owned();
            step.rare.error.get_or_insert_with(why);
        }
        self.conclude(now, id, &StateName::from(StateName::FAILED));
        self.changed(id);
    }

    fn settling_is_over(&self, now: Now, id: StepId) -> bool {
        let until = self.step_of(id).and_then(|step| step.settles_until.time());
        until.is_some_and(|until| until <= now.mono)
    }

    /// The assets of an edit were not in sync in time.
    fn expired(&mut self, now: Now, id: StepId) {
        if let Some(step) = self.step_mut(id) {
            step.rare.error.get_or_insert_with(|| {
                "the assets of its edit were not in sync in time".to_owned()
            });
        }
        self.conclude(now, id, &StateName::from(StateName::EXPIRED));
    }
}

impl super::Suspects {
    pub(super) fn next_wake(&self) -> Option<Mono> {
        let (_, next) = self.tried?;
        (!self.waiting.is_empty()).then_some(next)
    }
}
