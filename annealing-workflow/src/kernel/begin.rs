//! Begins the actions that are enabled, and withdraws those that are not any more.

use plugin_sdk::{
    Class, DispatchRequest, Now,
    workflow::{StateName, Task},
};

use super::{
    Lane,
    event::{Call, Effects},
    state::{ExecutionNo, Phase, Step, StepId, Why},
};
use crate::definition::MachineNo;

impl Lane {
    /// Notes that the actions of these machines may be enabled now, or not any more.
    pub(super) fn look_at(
        &mut self,
        execution: ExecutionNo,
        machines: impl IntoIterator<Item = MachineNo>,
    ) {
        let steps = machines
            .into_iter()
            .map(|machine| StepId { execution, machine });
        self.looks.extend(steps);
        self.touched.insert(execution);
    }

    /// Begins or withdraws the actions that were noted.
    pub(super) fn look(&mut self, now: Now, out: &mut Effects) {
        while let Some(id) = self.looks.pop_first() {
            let Some(execution) = self.live.get(&id.execution) else {
                continue;
            };
            let enabled = execution
                .workflow
                .is_enabled(id.machine, &execution.position);
            let phase = execution.steps.get(&id.machine).map(|step| &step.phase);
            match phase {
                None | Some(Phase::Rests) if enabled => self.begin(now, id, out),
                Some(phase) if !enabled && *phase != Phase::Rests => self.withdraw(now, id, out),
                _ => {}
            }
        }
    }

    fn begin(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let Some(action) = execution
            .workflow
            .action(id.machine, execution.position.state(id.machine))
        else {
            return;
        };
        let class = Class::of(
            &execution.live.cause,
            execution.transitions > 0,
            action.cleans_up,
        );
        let state = execution
            .workflow
            .state(id.machine, execution.position.state(id.machine));
        let steps = &mut execution.steps;
        let step = steps
            .entry(id.machine)
            .or_insert_with(|| Step::new((now.mono, now.wall)));
        step.begin(class);
        step.expires = action.deadline.map(|time| now.mono + time);
        let mut over = false;
        if let Some(most) = action.at_most {
            let begun = step.begun.entry(state.clone()).or_default();
            *begun += 1;
            over = *begun > most;
        }
        let task = action.task.clone();
        self.changed(id);
        if over {
            return self.conclude(now, id, &StateName::from(StateName::EXPIRED));
        }
        match task {
            Task::Call { .. } => self.due(now, id, out),
            Task::Ask { .. } => self.enter(now, id, Phase::Asking, None),
            Task::Wait { time } => self.enter(now, id, Phase::Waiting, Some(now.mono + time)),
            Task::Start { workflow } => self.start_child(now, id, &workflow, out),
            Task::Restore { machines } => self.put_back(now, id, &machines, out),
        }
    }

    /// Lets the next attempt of a step begin, in its turn.
    pub(super) fn due(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let Some(execution) = self.live.get(&id.execution) else {
            return;
        };
        let Some(step) = execution.steps.get(&id.machine) else {
            return;
        };
        if step.open_edit().is_some() {
            return self.make_edit(now, id, out);
        }
        let function = match execution.action(id.machine).map(|action| &action.task) {
            Some(Task::Call { function }) => function,
            Some(Task::Restore { machines }) => {
                let machines = machines.clone();
                return self.put_back(now, id, &machines, out);
            }
            _ => return,
        };
        if execution.position.cancelled()
            && !step.may_have_effect()
            && !execution
                .workflow
                .is_enabled(id.machine, &execution.position)
        {
            self.rest(now, id);
            return self.changed(id);
        }
        if let Some(at) = step.not_before.filter(|at| *at > now.mono) {
            return self.enter(now, id, Phase::Delayed(Why::OlderRun), Some(at));
        }
        if !self.settings.functions.contains_key(function) {
            let name = function.clone();
            return self.enter(now, id, Phase::Missing(name), None);
        }
        if step.suspect {
            self.enter(now, id, Phase::Suspect, None);
            return self.suspects.waiting.push_back(id);
        }
        // What is under way goes on, whatever delays starts.
        if step.under_way {
            return self.queue(now, id);
        }
        if execution.live.paused.is_some() {
            return self.enter(now, id, Phase::Due, None);
        }
        match self.settings.dispatches {
            true => self.ask_dispatch(now, id, out),
            false => self.queue(now, id),
        }
    }

    /// Puts a step into the queue of those that may begin.
    pub(super) fn queue(&mut self, now: Now, id: StepId) {
        self.enter(now, id, Phase::Due, None);
        if let Some(step) = self.step_of(id) {
            let (class, since) = (step.class, step.since.0);
            self.ready.insert(class, since, id);
        }
    }

    fn ask_dispatch(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let call = self.call_no();
        let Some(execution) = self.live.get(&id.execution) else {
            return;
        };
        let (Some(step), Some(action)) = (
            execution.steps.get(&id.machine),
            execution.action(id.machine),
        ) else {
            return;
        };
        let function = match &action.task {
            Task::Call { function } => Some(function.clone()),
            _ => None,
        };
        let request =
            DispatchRequest::start(execution.id.clone(), execution.live.cause.clone(), now)
                .step(
                    execution.machine_name(id.machine).clone(),
                    function,
                    action.cleans_up,
                )
                .labels(execution.live.labels.clone())
                .attempt(step.attempt + 1);
        self.calls.insert(call, id);
        self.enter(
            now,
            id,
            Phase::Dispatching(call),
            Some(now.mono + super::DISPATCH),
        );
        out.calls.push(Call::Dispatch(call, Box::new(request)));
    }

    /// Ends an action whose guard does not hold any more, if nothing of it can have happened. Others go on until they have
    /// an outcome.
    fn withdraw(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let Some(execution) = self.live.get(&id.execution) else {
            return;
        };
        let Some(step) = execution.steps.get(&id.machine) else {
            return;
        };
        let goes_on = execution
            .action(id.machine)
            .is_some_and(|action| action.task.goes_on());
        let cancelled = execution.position.cancelled();
        let keep = step.may_have_effect()
            || step.phase == Phase::Poisoned
            || (goes_on && step.called && !cancelled);
        if let Phase::Child(child) = step.phase.clone() {
            if cancelled {
                self.cancel_child(now, &child);
            }
            return;
        }
        if keep {
            return;
        }
        if let Phase::Dispatching(call) | Phase::Settling(call) = step.phase {
            self.drop_call(call, out);
        }
        self.rest(now, id);
        self.changed(id);
    }

    /// Ends the action of a step: it holds and waits for nothing.
    pub(super) fn rest(&mut self, now: Now, id: StepId) {
        self.enter(now, id, Phase::Rests, None);
        let Some(step) = self.step_mut(id) else {
            return;
        };
        step.expires = None;
        step.wanted.clear();
        step.under_way = false;
        step.incarnation = None;
        step.settles_until = None;
        if let Some(edit) = &mut step.edit {
            edit.over = true;
        }
        let claims = std::mem::take(&mut step.claims);
        let woken = step.woken.take();
        self.agenda.set(id, None);
        self.freed.extend(woken);
        for claim in &claims {
            self.claims.give_back(&id, claim);
            self.freed.insert(claim.key().clone());
        }
    }
}

impl Step {
    /// Prepares for a new action. Attempts are counted over all actions of a run.
    fn begin(&mut self, class: Class) {
        self.class = class;
        self.failures = 0;
        self.error = None;
        self.called = false;
        self.settles_until = None;
        self.needs.clear();
        self.rounds = 0;
        self.incarnation = None;
        self.under_way = false;
    }
}
