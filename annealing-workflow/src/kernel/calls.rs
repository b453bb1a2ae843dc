//! Calls: their numbers, and when they are made or dropped. Hundreds of thousands of waits for production may be under
//! way, so these are in no map of calls: the number of a wait names its execution, whose step has it in its phase.

use plugin_sdk::Now;

use super::{
    Bug, Lane,
    event::{Call, CallNo, CommitNo, Effects},
    state::{ExecutionNo, Phase, StepId},
};

/// The bit that the numbers of waits have. Those of other calls are counted from 1, and never have it.
const WAIT: u64 = 1 << 63;
/// Number of low bits that tell the waits of one execution apart. Those above name the execution.
const COUNT: u32 = 23;

impl CallNo {
    /// The number of a wait of this execution in place of this number, of which it keeps the low bits. The end of an earlier
    /// wait could be taken for that of this one only if it came 2^23 calls late.
    pub(super) fn of_wait(self, execution: ExecutionNo) -> Self {
        let count = self.0 & ((1 << COUNT) - 1);
        // A lane has fewer than 2^40 executions in its time.
        Self(WAIT | (execution.0 << COUNT) | count)
    }

    /// Whether it is the number of a wait for production.
    pub(crate) fn is_wait(self) -> bool {
        self.0 & WAIT != 0
    }

    /// The execution of a wait.
    fn execution(self) -> Option<ExecutionNo> {
        let execution = (self.0 & !WAIT) >> COUNT;
        self.is_wait().then_some(ExecutionNo(execution))
    }
}

impl Lane {
    /// The step that waits for production under this number. `None`: none does any more.
    pub(super) fn settling(&self, wait: CallNo) -> Option<StepId> {
        let execution = wait.execution()?;
        let mut steps = self.live.get(&execution)?.steps.iter();
        let (machine, _) = steps.find(|(_, step)| step.phase == Phase::Settling(wait))?;
        Some(StepId { execution, machine })
    }

    /// The numbers of all waits for production.
    pub(crate) fn waits(&self) -> impl Iterator<Item = CallNo> {
        let executions = self.live.values();
        let steps = executions.flat_map(|execution| execution.steps.values());
        steps.filter_map(|step| match step.phase {
            Phase::Settling(wait) => Some(wait),
            _ => None,
        })
    }

    /// The number of the next call.
    pub(super) fn call_no(&mut self) -> CallNo {
        self.next_call += 1;
        CallNo(self.next_call)
    }

    /// Keeps a call until the record of its step, which is written now, is durable.
    pub(super) fn hold(&mut self, id: StepId, call: CallNo, made: Call, out: &mut Effects) {
        self.changed(id);
        out.urgent = true;
        self.held
            .push_back((CommitNo(self.commit.0 + 1), call, made));
    }

    /// Makes the calls whose attempts are durable, while the lease is fresh. An attempt that became durable too late is made
    /// again.
    pub(super) fn release(&mut self, now: Now, out: &mut Effects) {
        let mut late = Vec::new();
        while now.mono < self.leased_until()
            && !self.draining
            && let Some((_, call, made)) = self.held.pop_front_if(|(at, ..)| *at <= self.durable)
        {
            match (&made, self.calls.get(&call).copied()) {
                (Call::Run(_, run), Some(id)) if now.mono >= run.begins_by => late.push((call, id)),
                _ => out.calls.push(made),
            }
        }
        for (call, id) in late {
            self.calls.remove(&call);
            self.running -= 1;
            self.due(now, id, out);
        }
    }

    /// Drops a call that is neither of a function nor of a probe.
    pub(super) fn drop_call(&mut self, call: CallNo, out: &mut Effects) {
        self.calls.remove(&call);
        let before = self.held.len();
        self.held.retain(|(_, held, _)| *held != call);
        if self.held.len() == before {
            out.calls.push(Call::Abandon(call));
        }
    }

    /// Tells the shell that the answer of a call does not count any more.
    pub(super) fn abandon(&mut self, call: CallNo, out: &mut Effects) {
        if self.planted(Bug::TrustLateAnswer) {
            return;
        }
        if self.calls.contains_key(&call) {
            self.running -= 1;
        }
        self.drop_call(call, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_a_wait_names_its_execution() {
        let last = ExecutionNo((1 << 40) - 1);
        for execution in [ExecutionNo(1), ExecutionNo(70_000), last] {
            let waits = [1, 2, (1 << 23) - 1].map(|no| CallNo(no).of_wait(execution));
            assert!(waits.iter().all(|wait| wait.is_wait()));
            assert!(waits.is_sorted_by(|one, next| one < next));
            assert_eq!(waits.map(CallNo::execution), [Some(execution); 3]);
        }
        assert!(!CallNo(1 << 40).is_wait());
        assert_eq!(CallNo(1 << 40).execution(), None);
    }
}
