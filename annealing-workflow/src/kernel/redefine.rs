//! Another definition for a live execution.

use std::{collections::BTreeSet, sync::Arc};

use plugin_sdk::{
    Now,
    workflow::{Action, Guard, MachineName, StateName, Task},
};

use super::{
    Bug, Lane,
    event::{Call, Effects, Record},
    refused::Refused,
    say::Say,
    state::{Execution, ExecutionNo, Phase, Step, StepId},
};
use crate::{
    definition::{MachineNo, Position, Workflow},
    record::{Entry, What},
};

/// What an execution becomes.
struct Redefined {
    workflow: Workflow,
    position: Position,
    /// The machines whose actions are other ones.
    changed: Vec<MachineNo>,
}

impl Lane {
    /// Lets an execution go on with the definition that is registered now under the name of its workflow.
    pub(super) fn redefine(
        &mut self,
        now: Now,
        no: ExecutionNo,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let Some(execution) = self.live.get(&no) else {
            return Ok(());
        };
        let Redefined {
            workflow,
            position,
            changed,
        } = self.redefined(no, execution)?;
        for machine in changed {
            let execution = no;
            self.begin_anew(now, StepId { execution, machine }, out);
        }
        let Some(execution) = self.live.get_mut(&no) else {
            return Ok(());
        };
        let entry = Entry {
            at: now.wall,
            machine: None,
            what: What::Redefined {
                from: execution.workflow.digest(),
                to: workflow.digest(),
            },
        };
        execution.position = position;
        Arc::make_mut(&mut execution.live.origin).definition = workflow.digest();
        execution.workflow = workflow.clone();
        self.log.entry(no).or_default().push(entry);
        self.live_changed.insert(no);
        self.look_at(no, workflow.numbers());
        if self.stored.insert(workflow.digest()) {
            out.records.push(Record::Definition(workflow));
        }
        Ok(())
    }

    /// Finds out what an execution becomes, or why the registered definition does not fit it.
    fn redefined(&self, no: ExecutionNo, execution: &Execution) -> Result<Redefined, Refused> {
        let refused = |why: &str| Refused::does_not_fit(&execution.id, &Say::Redefine, why);
        if execution.live.origin.operation.is_some() {
            let why = "an operation keeps to what it was started with; start another one";
            return Err(refused(why));
        }
        let registered = self.settings.workflows.get(&execution.id.workflow);
        let registered = registered.ok_or_else(|| {
            refused("no workflow of this name is registered; start a program that has it")
        })?;
        if let Some(machine) = execution.made_by_others(registered) {
            let why = format!(
                "other actions of the new definition make the edits that `{machine}` has gathered; give the word when they \
                 are made"
            );
            return Err(refused(&why));
        }
        let under_way = execution.steps.iter();
        let under_way = under_way.filter(|(_, step)| step.phase != Phase::Rests);
        let (same, changed): (Vec<_>, Vec<_>) =
            under_way.partition(|(machine, _)| execution.has_same_action(registered, *machine));
        if let Some((machine, _)) = changed.iter().find(|(_, step)| self.is_open(step))
            && !self.planted(Bug::RedefineInFlight)
        {
            let (execution, machine) = (no, *machine);
            let waits = self.waits_in_words(StepId { execution, machine });
            let why = format!(
                "{waits}, which the new definition does not leave as it is; wait for its end, settle it, or pause the \
                 execution and restart the machine"
            );
            return Err(refused(&why));
        }
        let numbers = |steps: &[(MachineNo, &Step)]| steps.iter().map(|(it, _)| *it).collect();
        let begun: Vec<_> = execution.steps.machines().collect();
        let in_flight: Vec<_> = numbers(&same);
        let (workflow, position) = execution
            .workflow
            .redefined(registered, &execution.position, &begun, &in_flight)
            .map_err(|why| refused(&why.to_string()))?;
        match workflow == execution.workflow {
            true => Err(refused("it keeps to that definition already")),
            false => Ok(Redefined {
                workflow,
                position,
                changed: numbers(&changed),
            }),
        }
    }

    /// Whether a call or an edit of a step is in flight or may have had an effect, or its assets are waited for.
    fn is_open(&self, step: &Step) -> bool {
        match self.is_unmade(&step.phase) {
            true => step.under_way || step.uncertain,
            false => {
                step.may_have_effect()
                    || step.suspect
                    || step.edit.is_pending()
                    || step.phase == Phase::Poisoned
            }
        }
    }

    /// Lets the action of a step rest of which nothing is in flight, so that another one begins in its place. What the old one
    /// has done does not count for the new one.
    fn begin_anew(&mut self, now: Now, id: StepId, out: &mut Effects) {
        self.take_back(now, id);
        self.suspect_answered(id);
        let execution = self.live.get_mut(&id.execution);
        if let Some(execution) = execution
            && let state = execution.state_name(id.machine).clone()
            && let counted = execution
                .action(id.machine)
                .is_some_and(|it| it.at_most.is_some())
            && let Some(step) = execution.steps.at_mut(id.machine)
            && let Some(begun) = step.rare.begun.get_mut(&state).filter(|_| counted)
        {
            *begun = begun.saturating_sub(1);
        }
        if let Some(Phase::Dispatching(call)) = self.step_of(id).map(|step| &step.phase) {
            let call = *call;
            self.calls.remove(&call);
            out.calls.push(Call::Abandon(call));
        }
        self.rest(now, id);
        self.changed(id);
    }
}

impl Execution {
    /// A machine whose gathered edits, which are not made yet, are made by other actions of another definition.
    fn made_by_others(&self, other: &Workflow) -> Option<&MachineName> {
        let gathered = self
            .steps
            .iter()
            .filter(|(_, step)| step.edit.is_gathered());
        let mut names = gathered.map(|(machine, _)| self.machine_name(machine));
        names.find(|name| makers(&self.workflow, name) != makers(other, name))
    }

    /// Whether a machine would do the same in its present state by another definition. The guard may be another one.
    fn has_same_action(&self, other: &Workflow, machine: MachineNo) -> bool {
        let there = other.machine_no(self.machine_name(machine));
        let state = there.and_then(|there| other.state_no(there, self.state_name(machine)));
        let action = there
            .zip(state)
            .and_then(|(machine, state)| other.action(machine, state));
        let unguarded = |action: &Action| action.clone().when(Guard::always());
        self.action(machine).map(unguarded) == action.map(unguarded)
    }
}

/// The actions that make what a machine has gathered, by machine and state.
fn makers(workflow: &Workflow, gatherer: &MachineName) -> BTreeSet<(MachineName, StateName)> {
    let machines = workflow.definition().machines.iter();
    let actions = machines.flat_map(|machine| {
        let actions = machine.actions.iter();
        actions.map(move |(state, action)| (&machine.name, state, &action.task))
    });
    let makes =
        |task: &Task| matches!(task, Task::Edit { machines } if machines.contains(gatherer));
    let makers = actions.filter(|(.., task)| makes(task));
    let makers = makers.map(|(machine, state, _)| (machine.clone(), state.clone()));
    makers.collect()
}
