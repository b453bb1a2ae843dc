//! Writes what a step of the kernel has changed, in one commit.

use control_plane_runtime::StoredWait;
use plugin_sdk::{Mono, Now, workflow::Task};

use super::{
    CommitNo, Lane,
    event::{Effects, Record},
    log,
    state::{Execution, ExecutionNo, Phase, StepId, Why},
};
use crate::definition::MachineNo;
use crate::record::{Does, OpenCall, StepRecord};

impl Lane {
    /// Ends a step: gives its records the number of their commit.
    pub(super) fn write(&mut self, now: Now, out: &mut Effects) {
        self.write_steps(now, None, out);
        for id in std::mem::take(&mut self.live_changed) {
            if let Some(execution) = self.live.get(&id) {
                out.records.push(Record::Live(
                    execution.id.clone(),
                    Box::new(execution.live.clone()),
                ));
                out.urgent = true;
            }
        }
        for (id, entries) in std::mem::take(&mut self.log) {
            if let Some(execution) = self.live.get_mut(&id) {
                log::write(&execution.id, &mut execution.log, entries, out);
            }
        }
        self.schedules.write(now.wall, out);
        self.watches.write(out);
        if !out.records.is_empty() {
            self.commit = CommitNo(self.commit.0 + 1);
            out.commit = Some(self.commit);
        }
    }

    /// Writes the changed steps of one execution, or of all.
    pub(super) fn write_steps(&mut self, now: Now, of: Option<ExecutionNo>, out: &mut Effects) {
        let dirty: Vec<StepId> = match of {
            None => std::mem::take(&mut self.dirty).into_iter().collect(),
            Some(of) => self.dirty.extract_if(.., |id| id.execution == of).collect(),
        };
        for id in dirty {
            if let Some(execution) = self.live.get(&id.execution)
                && let Some(record) = self.record(now, execution, id.machine)
            {
                let machine = execution.machine_name(id.machine).clone();
                out.records.push(Record::Step(
                    execution.id.clone(),
                    machine,
                    Box::new(record),
                ));
            }
            // Those of an execution that ends go with it.
            if of.is_none()
                && let Some(step) = self.step_mut(id)
            {
                step.trim();
            }
        }
    }

    fn record(&self, now: Now, execution: &Execution, machine: MachineNo) -> Option<StepRecord> {
        let step = execution.steps.at(machine)?;
        let stored = |at: Mono| StoredWait::new(now, at.since(now.mono));
        let alarm = step.alarm.time().map(stored);
        let open = |in_flight, handed_over, counts| {
            alarm.map(|until| OpenCall {
                token: self.token,
                owner: self.settings.identity,
                handed_over,
                until,
                in_flight,
                counts,
            })
        };
        Some(StepRecord {
            state: execution.state_name(machine).clone(),
            run: step.run,
            identity: step.rare.identity,
            transitions: step.transitions,
            begun: step.rare.begun.clone(),
            attempt: step.attempt,
            failures: step.failures,
            deaths: step.rare.deaths.clone(),
            error: step.rare.error.clone(),
            tries: step.tries,
            does: does(execution, machine, &step.phase),
            call: match step.phase {
                Phase::Calling(_) => open(true, false, false),
                Phase::HandedOver => open(false, true, false),
                Phase::Fencing(counts) | Phase::Probing(_, counts) => open(false, false, counts),
                _ => None,
            },
            // What a rule delays is asked for again by the next owner.
            wait: match step.phase {
                Phase::Delayed(Why::Settling) | Phase::Settling(_) => {
                    step.settles_until.time().map(stored)
                }
                Phase::Delayed(Why::Failed | Why::UnderWay) | Phase::Waiting => alarm,
                _ => None,
            },
            expires: step.rare.expires.map(stored),
            reach: step.rare.reach.filter(|at| *at > now.mono).map(stored),
            restarts: step.rare.restarts,
            overtaken: step.rare.overtaken,
            claims: step.rare.claims.clone(),
            under_way: step.under_way,
            uncertain: step.uncertain,
            edit: step.edit.get().map(|edit| Box::new(edit.into_owned())),
            child: match &step.phase {
                Phase::Child(child) => Some((**child).clone()),
                _ => None,
            },
            older_child: step.rare.older_child.clone(),
        })
    }

    /// Checks what has to hold after every step (R27): each live execution has something under way, or waits for
    /// something.
    pub(super) fn check(&mut self, out: &mut Effects) {
        for id in std::mem::take(&mut self.touched) {
            if let Some(execution) = self.live.get(&id)
                && execution.is_over()
            {
                let message = format!("{} is live and waits for nothing", execution.id);
                out.violation.get_or_insert(message);
            }
        }
    }
}

fn does(execution: &Execution, machine: MachineNo, phase: &Phase) -> Does {
    let starts = || {
        let action = execution.action(machine);
        action.is_some_and(|action| matches!(action.task, Task::Start { .. }))
    };
    match phase {
        Phase::Rests => Does::Rests,
        Phase::Asking => Does::Asks,
        Phase::Waiting => Does::Waits,
        Phase::Child(_) => Does::Starts,
        Phase::Editing(_) => Does::Edits,
        Phase::Settling(_) | Phase::Delayed(Why::Settling) => Does::Settles,
        Phase::Unsettled => Does::Unsettled,
        Phase::Poisoned => Does::Poisoned,
        _ if starts() => Does::Starts,
        _ => Does::Calls,
    }
}
