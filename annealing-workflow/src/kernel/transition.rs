//! Transitions of machines, and ends of executions.

use jiff::Timestamp;
use plugin_sdk::{By, Now, operation::StartCause, workflow::StateName};

use super::{
    Bug, CommitNo, Lane, RECENT,
    event::{Call, Effects, Record},
    state::{Execution, ExecutionNo, StepId},
    text::cut_one_of,
};
use crate::{
    definition::Outcome,
    record::{Ended, Entry, Live, Said, What},
};

impl Lane {
    /// Ends the action of a machine with one of its outcomes. Its claims are given back, and the machine goes to the state
    /// to which the outcome leads. An outcome that is not declared leaves the machine where it is: `build` refuses actions
    /// without the outcomes that the kernel itself uses.
    pub(super) fn conclude(&mut self, now: Now, id: StepId, outcome: &StateName) {
        self.rest(now, id);
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let from = execution.position.state(id.machine);
        let Some(to) = execution.workflow.leads(id.machine, from, outcome) else {
            return;
        };
        execution.position.set(id.machine, to);
        execution.transitions += 1;
        if let Some(step) = execution.steps.at_mut(id.machine) {
            step.transitions += 1;
            step.failures = 0;
            step.rare.deaths.clear();
            step.suspect = false;
            step.uncertain = false;
        }
        let moved = Entry {
            at: now.wall,
            machine: Some(execution.machine_name(id.machine).clone()),
            what: What::Moved {
                from: execution.workflow.state(id.machine, from).clone(),
                to: execution.workflow.state(id.machine, to).clone(),
            },
        };
        let mentioning = execution.workflow.mentioning(id.machine).to_vec();
        let bound = execution
            .live
            .bound
            .unwrap_or(self.settings.config.transitions);
        let mut parked = None;
        if execution.transitions >= bound && execution.live.paused.is_none() {
            let why = format!("{bound} transitions, which is the limit; resume it to go on");
            let said = Said {
                by: By::new("control plane", why.clone()),
                at: now.wall,
            };
            execution.live.paused = Some(Box::new(said));
            self.live_changed.insert(id.execution);
            parked = Some(Entry {
                at: now.wall,
                machine: None,
                what: What::Parked(why),
            });
        }
        let log = self.log.entry(id.execution).or_default();
        log.extend(std::iter::once(moved).chain(parked));
        self.changed(id);
        self.look_at(id.execution, mentioning.into_iter().chain([id.machine]));
    }

    /// Ends the executions in which nothing can happen any more.
    pub(super) fn end_those_over(&mut self, now: Now, out: &mut Effects) {
        for id in self.touched.clone() {
            let look = |step: &StepId| step.execution == id;
            if self.looks.iter().any(look) {
                continue;
            }
            let hasty = self.planted(Bug::EndInFlight);
            let over = |execution: &Execution| {
                execution.is_over() || hasty && execution.has_only_calls_in_flight()
            };
            let terminated = |execution: &Execution| execution.live.terminated.is_some();
            if self
                .live
                .get(&id)
                .is_some_and(|it| over(it) || terminated(it))
            {
                self.end(now, id, out);
            }
        }
    }

    fn end(&mut self, now: Now, id: ExecutionNo, out: &mut Effects) {
        // Write what has changed while the execution is still there.
        self.rest(now, StepId::start(id));
        self.write_steps(now, Some(id), out);
        let Some(mut execution) = self.live.remove(&id) else {
            return;
        };
        self.touched.remove(&id);
        self.live_changed.remove(&id);
        let outcome = match execution.live.terminated {
            Some(_) => Outcome::Terminated,
            None => execution.workflow.outcome(&execution.position),
        };
        let may_take_effect = std::mem::take(&mut self.terminated);
        let mut entries = self.log.remove(&id).unwrap_or_default();
        entries.push(Entry {
            at: now.wall,
            machine: None,
            what: What::Ended(outcome.to_string()),
        });
        execution.run_ended(&outcome, now.wall);
        if let Some(record) = execution.key_record(Some(outcome.clone())) {
            let name = (record.workflow.clone(), record.key.clone());
            self.keys.remove(&name);
            self.recent_until
                .push_back((now.mono + RECENT, name.0.clone(), name.1.clone()));
            self.recent.insert(name, record.clone());
            out.records.push(Record::Key(Box::new(record)));
        }
        let mut ended = execution.ended(outcome.clone(), now.wall);
        ended.may_take_effect = may_take_effect;
        let mut log = execution.log;
        super::log::write(&execution.id, &mut log, entries, out);
        out.records.push(Record::Ended(Box::new(ended.clone())));
        if execution.steps.values().any(|step| step.edit.is_some()) {
            let release = Call::Release(super::edit::holder(&execution.id));
            let call = self.call_no();
            self.held
                .push_back((CommitNo(self.commit.0 + 1), call, release));
        }
        out.urgent = true;
        out.ended.push(ended);
        match &execution.live.origin.cause {
            StartCause::Parent(parent) => {
                self.child_ended(now, parent, &execution.id, &outcome, out);
            }
            StartCause::Slot { schedule, at } => self.schedules.ended(schedule, *at),
            StartCause::Watch { watch, .. } => {
                self.watches.ended(watch, execution.live.key.as_deref());
            }
            _ => {}
        }
    }
}

impl Execution {
    /// The record of the execution when it has ended.
    fn ended(&self, outcome: Outcome, at: Timestamp) -> Ended {
        let machines = self.workflow.numbers();
        let states = machines.map(|machine| {
            let name = self.machine_name(machine).clone();
            (name, self.state_name(machine).clone())
        });
        let errors = self
            .steps
            .iter()
            .filter_map(|(machine, step)| Some((machine, step.rare.error.as_deref()?)));
        let errors: Vec<_> = errors.collect();
        let cut = |error| cut_one_of(errors.len(), error);
        let errors = errors
            .iter()
            .map(|(machine, error)| (self.machine_name(*machine).clone(), cut(error)));
        Ended {
            id: self.id.clone(),
            states: states.collect(),
            errors: errors.collect(),
            outcome,
            may_take_effect: Default::default(),
            ended: at,
            live: Live {
                claims: Box::default(),
                ends: self.live.ends.saturating_add(1),
                ..self.live.clone()
            },
        }
    }
}
