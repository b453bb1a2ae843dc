//! Starts of executions that the dispatch stack or a drain delays. The start waits and takes claims as a step does; what it
//! took is held until the execution ends.

use plugin_sdk::{Class, Now};

use super::{
    Lane,
    event::{Call, Effects},
    state::{Execution, ExecutionNo, Phase, Step, StepId, Why},
};

impl Lane {
    /// Whether an execution does not begin at once: there is a dispatch stack to ask, or its workflow is drained.
    pub(super) fn is_gated(&self, execution: &Execution) -> bool {
        self.settings.dispatches || self.drains(execution).is_some()
    }

    /// Lets the dispatch stack, or the end of a drain, decide when an execution begins. None of its machines is looked at
    /// before.
    pub(super) fn await_start(&mut self, now: Now, no: ExecutionNo, out: &mut Effects) {
        let Some(execution) = self.live.get_mut(&no) else {
            return;
        };
        execution.live.waits = true;
        let class = Class::of(&execution.live.origin.cause, false, false);
        execution.start = Some(Box::new(Step::of_start(now, class)));
        self.touched.insert(no);
        self.due_start(now, StepId::start(no), out);
    }

    /// Lets an execution that is live again wait for its start. Clean-up does not wait, as in one that is cancelled before
    /// its start.
    pub(super) fn gate_again(&mut self, now: Now, no: ExecutionNo, out: &mut Effects) {
        match self.live.get_mut(&no) {
            Some(execution) if execution.live.cancelled.is_some() => execution.live.given_up = true,
            _ => self.await_start(now, no, out),
        }
    }

    /// Asks the dispatch stack for a start, if there is one, unless the execution is paused or its workflow drained.
    pub(super) fn due_start(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let execution = self.live.get(&id.execution);
        let held =
            execution.is_some_and(|it| it.live.paused.is_some() || self.drains(it).is_some());
        let Some(step) = self.step_mut(id) else {
            return;
        };
        step.rare.due.get_or_insert((now.mono, now.wall));
        match (held, self.settings.dispatches) {
            (true, _) => self.enter(now, id, Phase::Due, None),
            (false, true) => self.ask_dispatch(now, id, out),
            (false, false) => {
                self.rest(now, id);
                self.begin_started(now, id);
            }
        }
    }

    /// Looks at a start whose time has come.
    pub(super) fn start_fired(&mut self, now: Now, id: StepId, phase: &Phase, out: &mut Effects) {
        match *phase {
            Phase::Dispatching(call) => {
                self.calls.remove(&call);
                out.calls.push(Call::Abandon(call));
                let why = Why::NoDispatch("the dispatch stack has not answered in time".into());
                let again = now.mono + super::DISPATCH;
                self.enter(now, id, Phase::Delayed(why), Some(again));
            }
            Phase::Rests => {}
            _ => self.due_start(now, id, out),
        }
    }

    /// Begins an execution that has all claims of its start.
    pub(super) fn begin_started(&mut self, now: Now, id: StepId) {
        self.enter(now, id, Phase::Rests, None);
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        execution.live.waits = false;
        if let Some(start) = execution.start.take() {
            let claims = start.rare.claims.clone();
            // It stays for as long as it holds claims.
            execution.start = (!claims.is_empty()).then(|| Box::new(Step::holding(now, &claims)));
            execution.live.claims = claims.into();
        }
        let machines: Vec<_> = execution.workflow.numbers().collect();
        self.live_changed.insert(id.execution);
        self.look_at(id.execution, machines);
    }

    /// Lets an execution go on that is cancelled before it began, so that it cleans up and ends.
    pub(super) fn give_up_start(&mut self, now: Now, no: ExecutionNo, out: &mut Effects) {
        let id = StepId::start(no);
        let Some(phase) = self.step_of(id).map(|step| step.phase.clone()) else {
            return;
        };
        if phase == Phase::Rests {
            return;
        }
        if let Phase::Dispatching(call) = phase {
            self.calls.remove(&call);
            out.calls.push(Call::Abandon(call));
        }
        self.rest(now, id);
        if let Some(execution) = self.live.get_mut(&no) {
            execution.live.given_up = true;
        }
        self.begin_started(now, id);
    }
}
