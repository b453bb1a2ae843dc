//! Restarts of machines.

use plugin_sdk::{Now, workflow::MachineName};

use super::{
    Bug, Lane,
    event::{Call, Effects, Record},
    refused::Refused,
    say::Say,
    state::{Execution, ExecutionNo, Phase, StepId},
};
use crate::definition::{MachineNo, StateNo};

impl Lane {
    /// Sets machines, and all whose guards depend on them, back to their first state with a new run. A cancel is taken back,
    /// unless all these machines clean up.
    pub(super) fn restart(
        &mut self,
        now: Now,
        no: ExecutionNo,
        machines: &[MachineName],
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let numbers = machines
            .iter()
            .map(|name| self.machine(no, name).map(|id| id.machine));
        let numbers: Vec<MachineNo> = numbers.collect::<Result<_, _>>()?;
        let Some(execution) = self.live.get(&no) else {
            return Ok(());
        };
        let takes_back = takes_cancel_back(execution, &numbers);
        if takes_back && execution.live.given_up {
            // The cancel taken back, it would run without the claims of its start, and in a drain.
            let why =
                "it was cancelled before its start and cleans up; restart it when it has ended";
            let word = Say::Restart(machines.to_vec());
            return Err(Refused::does_not_fit(&execution.id, &word, why));
        }
        let all = execution.workflow.depending(numbers);
        // The new run has another id, so an edit of the old one that is made later would belong to no step.
        let ids = all.iter().map(|machine| StepId {
            execution: no,
            machine: *machine,
        });
        let mut ids = ids.filter(|id| self.step_of(*id).is_some_and(|step| step.edit_may_come()));
        if let Some(id) = ids.next() {
            return Err(self.unfit(id, &Say::Restart(machines.to_vec())));
        }
        for machine in &all {
            let id = StepId {
                execution: no,
                machine: *machine,
            };
            self.set_back(now, id, out);
        }
        if takes_back && let Some(execution) = self.live.get_mut(&no) {
            execution.live.cancelled = None;
            execution.position.uncancel();
            let disabled = execution.workflow.mentioning_cancelled().to_vec();
            self.live_changed.insert(no);
            self.look_at(no, disabled);
        }
        if let Some(execution) = self.live.get(&no) {
            let around: Vec<_> = all
                .iter()
                .flat_map(|machine| execution.workflow.mentioning(*machine).to_vec())
                .collect();
            self.look_at(no, all.into_iter().chain(around));
        }
        Ok(())
    }

    /// Sets one machine back. What an old attempt may still do is waited for before the new run calls anything.
    fn set_back(&mut self, now: Now, id: StepId, out: &mut Effects) {
        self.take_back(now, id);
        let Some(step) = self.step_of(id) else {
            return;
        };
        // The new run has another key. A callee may compare fences per key, so the deadline keeps the old attempt out too.
        let not_before = step.rare.not_before.max(step.rare.reach);
        let (overlaps, keeps) = (
            self.planted(Bug::RestartOverlaps),
            self.planted(Bug::RestartKeepsOutput),
        );
        let not_before = not_before.filter(|at| *at > now.mono && !overlaps);
        let mut older_child = step.rare.older_child.clone();
        match step.phase.clone() {
            Phase::Calling(call) | Phase::Probing(call, _) => self.abandon(call, out),
            Phase::Dispatching(call) => {
                self.calls.remove(&call);
                out.calls.push(Call::Abandon(call));
            }
            Phase::Child(child) => {
                self.cancel_child(now, &child, out);
                older_child = Some(*child);
            }
            Phase::Editing(call) | Phase::Settling(call) => self.drop_call(call, out),
            _ => {}
        }
        self.rest(now, id);
        self.forget_gathered(id);
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        execution.position.set(id.machine, StateNo::FIRST);
        if !keeps && execution.context.contains_key(&id.machine) {
            execution.context.remove(&id.machine);
        }
        let machine = execution.machine_name(id.machine).clone();
        let execution_id = execution.id.clone();
        if let Some(step) = execution.steps.at_mut(id.machine) {
            step.run += 1;
            step.transitions = 0;
            step.rare.begun.clear();
            step.failures = 0;
            step.rare.deaths = 0;
            step.rare.error = None;
            step.suspect = false;
            step.uncertain = false;
            step.rare.not_before = not_before;
            step.rare.older_child = older_child;
        }
        if !keeps {
            out.records
                .push(Record::Output(execution_id, machine, None));
        }
        self.changed(id);
    }
}

/// Whether a restart of these machines takes a cancel back. It stays if only clean-up is set back, so that clean-up that has
/// failed can run again.
fn takes_cancel_back(execution: &Execution, machines: &[MachineNo]) -> bool {
    let cleans_up = |machine: &MachineNo| {
        let first = execution.workflow.action(*machine, StateNo::FIRST);
        first.is_some_and(|action| action.cleans_up)
    };
    execution.live.cancelled.is_some() && !machines.iter().all(cleans_up)
}
