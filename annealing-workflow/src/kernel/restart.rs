//! Restarts of machines.

use plugin_sdk::{Now, workflow::MachineName};

use super::{
    Bug, Lane,
    event::{Call, Effects, Record},
    refused::Refused,
    say::Say,
    state::{Execution, ExecutionNo, Phase, StepId, Why},
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
        let mut numbers: Vec<MachineNo> = numbers.collect::<Result<_, _>>()?;
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
        if takes_back {
            numbers.extend(execution.overtaken());
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
            self.set_back_in_time(now, id, out);
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

    /// Sets one machine back, or notes that it is to be set back when its last attempt can no longer take effect. The new
    /// run has another key, and a callee may compare fences per key, so only the deadline keeps the old attempt out.
    fn set_back_in_time(&mut self, now: Now, id: StepId, out: &mut Effects) {
        self.take_back(now, id);
        let overlaps = self.planted(Bug::RestartOverlaps);
        let Some(step) = self.step_mut(id) else {
            return;
        };
        let reach = step.rare.reach.filter(|at| *at > now.mono && !overlaps);
        if reach.is_none() {
            return self.set_back(now, id, out);
        }
        step.rare.restarts = true;
        match step.phase.clone() {
            // R30: its outcome counts for the clean-up, if a cancel comes before it.
            Phase::Calling(_) => {}
            phase => {
                self.leave_call(&phase, out);
                self.enter(now, id, Phase::Delayed(Why::OlderRun), reach);
            }
        }
        self.changed(id);
    }

    /// Sets a machine back whose restart waits, if its last attempt can no longer take effect.
    pub(super) fn restart_in_time(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let reach = self.step_of(id).and_then(|step| step.rare.reach);
        match reach.filter(|at| *at > now.mono) {
            Some(at) => self.enter(now, id, Phase::Delayed(Why::OlderRun), Some(at)),
            None => {
                self.set_back(now, id, out);
                self.look_around(id);
            }
        }
        self.changed(id);
    }

    /// Puts off the restarts of an execution that is cancelled and that wait for their last attempts: what these did is
    /// found out, and counts for the clean-up.
    pub(super) fn overtake_restarts(&mut self, now: Now, no: ExecutionNo, out: &mut Effects) {
        let Some(execution) = self.live.get_mut(&no) else {
            return;
        };
        let mut open = Vec::new();
        for (machine, step) in execution.steps.iter_mut() {
            let waits = step.rare.present().filter(|rare| rare.restarts);
            if let Some(rare) = waits {
                (rare.restarts, rare.overtaken) = (false, true);
                open.push((machine, step.phase.clone()));
            }
        }
        let (limit, forgets) = (
            self.settings.config.death_limit as usize,
            self.planted(Bug::RestartForgets),
        );
        for (machine, phase) in open {
            let execution = no;
            let id = StepId { execution, machine };
            let deaths = self.step_of(id).map_or(0, |step| step.rare.deaths.len());
            match phase {
                _ if forgets => self.set_back(now, id, out),
                Phase::Calling(_) => {}
                _ if deaths >= limit => self.park(now, id, Phase::Poisoned),
                _ => self.resolve(now, id, false, out),
            }
            self.look_around(id);
            self.changed(id);
        }
    }

    /// Looks at a machine, and at those whose guards mention it.
    fn look_around(&mut self, id: StepId) {
        if let Some(execution) = self.live.get(&id.execution) {
            let around = execution.workflow.mentioning(id.machine).to_vec();
            self.look_at(id.execution, around.into_iter().chain([id.machine]));
        }
    }

    /// Drops the call of a phase, whose answer does not count any more.
    pub(super) fn leave_call(&mut self, phase: &Phase, out: &mut Effects) {
        match *phase {
            Phase::Calling(call) | Phase::Probing(call, _) => self.abandon(call, out),
            Phase::Dispatching(call) => {
                self.calls.remove(&call);
                out.calls.push(Call::Abandon(call));
            }
            Phase::Editing(call) | Phase::Settling(call) => self.drop_call(call, out),
            _ => {}
        }
    }

    /// Sets one machine back to its first state, with a new run.
    fn set_back(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let Some(step) = self.step_of(id) else {
            return;
        };
        let keeps = self.planted(Bug::RestartKeepsOutput);
        let mut older_child = step.rare.older_child.clone();
        let phase = step.phase.clone();
        self.leave_call(&phase, out);
        if let Phase::Child(child) = phase {
            self.cancel_child(now, &child, out);
            older_child = Some(*child);
        }
        self.rest(now, id);
        self.forget_gathered(id);
        let identity = self.settings.identity;
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
            // R25: a store restored from an older copy gives the number of this run again.
            step.rare.identity = Some(identity);
            step.transitions = 0;
            step.rare.begun.clear();
            step.failures = 0;
            step.rare.deaths.clear();
            step.rare.error = None;
            step.suspect = false;
            step.uncertain = false;
            (step.rare.restarts, step.rare.overtaken) = (false, false);
            step.rare.older_child = older_child;
        }
        if !keeps {
            out.records
                .push(Record::Output(execution_id, machine, None));
        }
        self.changed(id);
    }
}

impl Execution {
    /// The machines whose restarts a cancel came before.
    fn overtaken(&self) -> impl Iterator<Item = MachineNo> {
        let steps = self.steps.iter();
        steps.filter_map(|(machine, step)| step.rare.overtaken.then_some(machine))
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
