//! The last resort: an execution ends at once, and what it may still do is named.

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{Mono, Now};

use super::{
    Lane,
    event::Effects,
    state::{ExecutionNo, Phase, Step, StepId},
};
use crate::record::{OpenEffect, Said};

impl Lane {
    /// Ends an execution in this step, whatever is in flight.
    pub(super) fn terminate(&mut self, now: Now, no: ExecutionNo, said: Said, out: &mut Effects) {
        let Some(execution) = self.live.get(&no) else {
            return;
        };
        let machines = execution.steps.machines();
        let mut ids: Vec<_> = machines
            .map(|machine| StepId {
                execution: no,
                machine,
            })
            .collect();
        ids.push(StepId::start(no));
        for id in ids {
            self.take_back(now, id);
            self.name_open(now, id);
            self.leave(now, id, out);
        }
        if let Some(execution) = self.live.get_mut(&no) {
            execution.live.terminated = Some(Box::new(said));
        }
        self.touched.insert(no);
    }

    /// Notes what a step may still do, if it may.
    fn name_open(&mut self, now: Now, id: StepId) {
        let (Some(execution), Some(step)) = (self.live.get(&id.execution), self.step_of(id)) else {
            return;
        };
        if id.is_start() || !step.may_have_effect() || matches!(step.phase, Phase::Child(_)) {
            return;
        }
        let (what, until) = step.open_effect();
        let open = OpenEffect {
            what: what.to_owned(),
            key: execution.key(id.machine),
            until: until.map(|at| wall(now, at)),
        };
        let name = execution.machine_name(id.machine).clone();
        self.terminated.insert(name, open);
    }

    /// Ends what a step does and waits for. If it is restarted later, the new run waits for the call that is abandoned.
    fn leave(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let Some(step) = self.step_of(id) else {
            return;
        };
        let (phase, reach) = (step.phase.clone(), step.rare.reach);
        self.leave_call(&phase, out);
        if let Phase::Child(child) = &phase {
            self.cancel_child(now, child, out);
        }
        self.rest(now, id);
        if let Some(step) = self.step_mut(id).filter(|_| reach.is_some()) {
            step.rare.reach = reach;
        }
        if !id.is_start() {
            self.changed(id);
        }
    }
}

impl Step {
    /// What may still take effect, and until when.
    fn open_effect(&self) -> (&'static str, Option<Mono>) {
        if self.edit_may_come() {
            return ("an edit of a source that may be made", None);
        }
        match self.under_way {
            true => ("work that the callee has begun", None),
            false => ("a call without an answer", self.rare.reach),
        }
    }
}

/// The wall time of a monotonic time.
fn wall(now: Now, at: Mono) -> Timestamp {
    let left = SignedDuration::try_from(at.since(now.mono)).unwrap_or_default();
    now.wall.checked_add(left).unwrap_or(Timestamp::MAX)
}
