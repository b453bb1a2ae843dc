//! Begins the actions that are enabled, and withdraws those that are not any more.

use std::sync::Arc;

use plugin_sdk::{
    Class, DispatchRequest, Mono, Now,
    workflow::{StateName, Task},
};
use prodspec_model::IncarnationNo;

use super::{
    Lane,
    admit::AGAIN,
    event::{Call, Effects},
    sparse::Until,
    state::{Execution, ExecutionNo, Phase, Step, StepId, Why},
};
use crate::definition::{MachineNo, StateNo};

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
            if execution.waits_to_start() || execution.live.terminated.is_some() {
                continue;
            }
            let enabled = execution
                .workflow
                .is_enabled(id.machine, &execution.position);
            let phase = execution.steps.at(id.machine).map(|step| &step.phase);
            match phase {
                // A machine that is about to be set back is not in the state that its position says.
                None | Some(Phase::Rests)
                    if enabled && execution.depends_on_restart(id.machine) => {}
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
            &execution.live.origin.cause,
            execution.transitions > 0,
            action.cleans_up,
        );
        let state = execution
            .workflow
            .state(id.machine, execution.position.state(id.machine));
        let steps = &mut execution.steps;
        let step = steps.at_or_insert(id.machine, || Step::new((now.mono, now.wall)));
        step.begin(class);
        // Attempts have their time from the first one on: delays and pauses before it do not count.
        if let Some(time) = action.deadline.filter(|_| !action.task.goes_on()) {
            step.rare.expires = Some(now.mono + time);
        }
        let mut over = false;
        if let Some(most) = action.at_most {
            let begun = step.rare.begun.entry(state.clone()).or_default();
            *begun += 1;
            over = *begun > most;
        }
        let task = action.task.clone();
        self.changed(id);
        if over {
            return self.conclude(now, id, &StateName::from(StateName::EXPIRED));
        }
        self.perform(now, id, &task, out);
    }

    /// Does what an action is for, once the child execution of an older run has ended.
    fn perform(&mut self, now: Now, id: StepId, task: &Task, out: &mut Effects) {
        if let Some(step) = self.step_of(id)
            && let Some(child) = step.rare.older_child.clone()
        {
            if self.is_live(&child) {
                return self.enter(now, id, Phase::Child(Box::new(child)), None);
            }
            if let Some(step) = self.step_mut(id) {
                step.rare.older_child = None;
            }
        }
        match task {
            Task::Call { .. } | Task::Start { .. } => self.due(now, id, out),
            Task::Ask { .. } => self.enter(now, id, Phase::Asking, None),
            Task::Wait { time } => self.enter(now, id, Phase::Waiting, Some(now.mono + *time)),
            Task::Restore { machines } => self.put_back(now, id, machines, out),
            Task::Edit { machines } => self.make_gathered(now, id, machines, out),
        }
    }

    /// Goes on with the action of a step that has begun.
    pub(super) fn go_on(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let execution = self.live.get(&id.execution);
        let action = execution.and_then(|execution| execution.action(id.machine));
        if let Some(task) = action.map(|action| action.task.clone()) {
            self.perform(now, id, &task, out);
        }
    }

    /// Lets the next attempt of a step begin, in its turn.
    pub(super) fn due(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let Some(execution) = self.live.get(&id.execution) else {
            return;
        };
        let Some(step) = execution.steps.at(id.machine) else {
            return;
        };
        if step.rare.restarts {
            return self.restart_in_time(now, id, out);
        }
        if step.edit.is_pending() {
            return self.make_edit(now, id, out);
        }
        let paused = execution.live.paused.is_some();
        let function = match execution.action(id.machine).map(|action| &action.task) {
            Some(Task::Call { function }) => function,
            Some(task) => {
                let task = task.clone();
                return self.due_without_call(now, id, &task, paused, out);
            }
            None => return,
        };
        if execution.is_disabled(id.machine, step) {
            self.rest(now, id);
            return self.changed(id);
        }
        let function = function.clone();
        let (suspect, under_way) = (step.suspect, step.under_way);
        if let Some(step) = self.step_mut(id) {
            step.rare.due.get_or_insert((now.mono, now.wall));
        }
        if !self.settings.functions.contains_key(&function) {
            return self.missing(now, id, function);
        }
        if suspect {
            self.enter(now, id, Phase::Suspect, None);
            return self.suspects.waiting.push_back(id);
        }
        // What is under way goes on, whatever delays starts.
        if under_way {
            return self.queue(now, id);
        }
        if paused {
            return self.pauses(now, id);
        }
        match self.settings.dispatches && !self.has_its_turn(now, id) {
            true => self.ask_dispatch(now, id, out),
            false => self.queue(now, id),
        }
    }

    /// Keeps a step due until its execution is resumed. The time for its attempts does not run meanwhile.
    pub(super) fn pauses(&mut self, now: Now, id: StepId) {
        if let Some(rare) = self.step_mut(id).and_then(|step| step.rare.present()) {
            rare.expires = None;
        }
        self.enter(now, id, Phase::Due, None);
    }

    /// Whether a step has waited only for its turn at a rate since the dispatch stack let it go, not long ago and for the
    /// same intent, from which layers take their limits.
    fn has_its_turn(&self, now: Now, id: StepId) -> bool {
        self.step_of(id).is_some_and(|step| {
            let fresh = |(at, of): (Mono, IncarnationNo)| {
                now.mono.since(at) < AGAIN && self.latest == Some(of)
            };
            let rate = matches!(step.phase, Phase::Delayed(Why::Rate(_)));
            rate && step.rare.let_go.is_some_and(fresh)
        })
    }

    /// A function or a workflow is not registered: the step waits for it, however long.
    pub(super) fn missing(&mut self, now: Now, id: StepId, name: Arc<str>) {
        if let Some(step) = self.step_mut(id) {
            step.rare.expires = None;
        }
        self.enter(now, id, Phase::Missing(name), None);
        self.changed(id);
    }

    /// Goes on with a step that is due and calls no function.
    fn due_without_call(
        &mut self,
        now: Now,
        id: StepId,
        task: &Task,
        paused: bool,
        out: &mut Effects,
    ) {
        match task {
            Task::Restore { machines } => self.put_back(now, id, machines, out),
            Task::Edit { machines } => self.make_gathered(now, id, machines, out),
            Task::Start { .. } if paused => self.pauses(now, id),
            Task::Start { workflow } => self.start_child(now, id, workflow, out),
            Task::Call { .. } | Task::Ask { .. } | Task::Wait { .. } => {}
        }
    }

    /// Puts a step into the queue of those that may begin.
    pub(super) fn queue(&mut self, now: Now, id: StepId) {
        self.enter(now, id, Phase::Due, None);
        if let Some(step) = self.step_mut(id) {
            step.rare.due.get_or_insert((now.mono, now.wall));
            let (class, age) = (step.class, step.age());
            self.ready.insert(class, age, id);
        }
    }

    /// Asks the dispatch stack for an attempt, or for the start of an execution.
    pub(super) fn ask_dispatch(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let call = self.call_no();
        let (Some(execution), Some(step)) = (self.live.get(&id.execution), self.step_of(id)) else {
            return;
        };
        let mut request = DispatchRequest::start(
            execution.id.clone(),
            execution.live.origin.cause.clone(),
            now,
        )
        .labels(execution.live.origin.labels.clone())
        .since(step.rare.due.unwrap_or(step.since).1);
        if !id.is_start()
            && let Some(action) = execution.action(id.machine)
        {
            let function = match &action.task {
                Task::Call { function } => Some(function.clone()),
                _ => None,
            };
            let name = execution.machine_name(id.machine).clone();
            request = request.step(name, function, action.cleans_up);
            request = request.attempt(step.attempt + 1);
        }
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
        let Some(step) = execution.steps.at(id.machine) else {
            return;
        };
        let cancelled = execution.position.cancelled();
        let unmade = self.is_unmade(&step.phase);
        let may_have_effect = match unmade {
            true => step.under_way || step.uncertain,
            false => step.may_have_effect(),
        };
        let has_begun = step.tries > u32::from(unmade) || step.edit.is_pending();
        let keep = may_have_effect || step.phase == Phase::Poisoned || (has_begun && !cancelled);
        let phase = step.phase.clone();
        if let Phase::Child(child) = phase {
            let of_this_run = step.rare.older_child.is_none();
            match (cancelled, of_this_run) {
                (true, true) => self.cancel_child(now, &child, out),
                (false, true) => {}
                // The child of the older run is cancelled, and this run has begun nothing.
                (_, false) => {
                    self.rest(now, id);
                    self.changed(id);
                }
            }
            return;
        }
        if keep {
            return;
        }
        self.take_back(now, id);
        if let Phase::Dispatching(call) | Phase::Settling(call) = phase {
            self.drop_call(call, out);
        }
        self.leave_made(id);
        self.rest(now, id);
        self.changed(id);
    }

    /// Counts an action that is withdrawn after its edit was made: if it begins again, its edit is another one.
    fn leave_made(&mut self, id: StepId) {
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let step = execution.steps.at_mut(id.machine);
        if let Some(step) = step.filter(|it| it.edit.is_pending() && !it.edit.may_come()) {
            step.transitions += 1;
            execution.transitions += 1;
        }
    }

    /// Whether a step is in an attempt whose call has not been made yet.
    pub(super) fn is_unmade(&self, phase: &Phase) -> bool {
        match phase {
            Phase::Calling(call) => self.held.iter().any(|(_, held, _)| held == call),
            _ => false,
        }
    }

    /// Takes back the attempt of a step whose call has not been made yet, if there is one. The step is due then, but in no
    /// queue.
    pub(super) fn take_back(&mut self, now: Now, id: StepId) {
        let phase = self.step_of(id).map(|step| step.phase.clone());
        let Some(Phase::Calling(call)) = phase.filter(|phase| self.is_unmade(phase)) else {
            return;
        };
        self.held.retain(|(_, held, _)| *held != call);
        self.calls.remove(&call);
        self.running -= 1;
        self.enter(now, id, Phase::Due, None);
        if let Some(step) = self.step_mut(id) {
            step.tries -= 1;
            if step.tries == 0 {
                step.rare.expires = None;
            }
            // What was not called reaches nowhere; an earlier attempt may.
            if !step.uncertain {
                step.rare.reach = None;
            }
        }
        self.changed(id);
    }

    /// Ends the action of a step: it holds and waits for nothing.
    pub(super) fn rest(&mut self, now: Now, id: StepId) {
        if let Some(step) = self.step_mut(id) {
            step.edit.end();
        }
        self.enter(now, id, Phase::Rests, None);
        let Some(step) = self.step_mut(id) else {
            return;
        };
        step.rare.expires = None;
        step.rare.wanted.clear();
        step.rare.let_go = None;
        step.under_way = false;
        step.incarnation = None;
        step.settles_until = Until::NONE;
        step.rare.due = None;
        step.rare.reach = None;
        let claims = std::mem::take(&mut step.rare.claims);
        let woken = step.rare.woken.take();
        self.list(id);
        self.claims.rates.forget(&id);
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
        self.settles_until = Until::NONE;
        self.tries = 0;
        self.incarnation = None;
        self.under_way = false;
        if let Some(rare) = self.rare.present() {
            rare.error = None;
            rare.expires = None;
            rare.needs.clear();
            rare.rounds = 0;
            rare.untold = 0;
        }
    }
}

impl Execution {
    /// Whether the guard of a machine mentions another one that is about to be set back from a later state.
    fn depends_on_restart(&self, machine: MachineNo) -> bool {
        let later = |other| self.position.state(other) != StateNo::FIRST;
        let waiting = self.steps.iter().filter(|(_, step)| step.rare.restarts);
        let mut waiting = waiting.filter(|(other, _)| *other != machine && later(*other));
        waiting.any(|(other, _)| self.workflow.mentioning(other).contains(&machine))
    }

    /// Whether the execution is cancelled and does not let this step begin anything more.
    fn is_disabled(&self, machine: MachineNo, step: &Step) -> bool {
        self.position.cancelled()
            && !step.may_have_effect()
            && !self.workflow.is_enabled(machine, &self.position)
    }
}
