//! The times at which steps have to be looked at.

use std::collections::BTreeSet;

use plugin_sdk::Mono;

use super::{
    Lane,
    sparse::Until,
    state::{ExecutionNo, StepId},
};
use crate::definition::MachineNo;

/// The times, in order. The one of a step is [`Step::listed`](super::state::Step::listed).
#[derive(Debug, Default)]
pub(super) struct Agenda(BTreeSet<(Mono, OneWord)>);

/// A step in one word, in the same order: executions that wait for times have one each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OneWord(u64);

impl OneWord {
    /// A lane has fewer than 2^48 executions in its time.
    fn of(step: StepId) -> Self {
        Self(step.execution.0 << 16 | step.machine.index() as u64)
    }

    fn step(self) -> StepId {
        let (execution, machine) = (ExecutionNo(self.0 >> 16), self.0 as u16);
        StepId {
            execution,
            machine: MachineNo::of(machine),
        }
    }
}

impl Agenda {
    /// The earliest time of all.
    pub(super) fn first(&self) -> Option<Mono> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Removes and returns a step whose time has come.
    pub(super) fn pop(&mut self, now: Mono) -> Option<StepId> {
        let &(_, step) = self.0.first().filter(|(at, _)| *at <= now)?;
        self.0.pop_first();
        Some(step.step())
    }
}

impl Lane {
    /// Lists a step for the time at which it has to be looked at, or takes it from the list.
    pub(super) fn list(&mut self, id: StepId) {
        let Some(step) = self.step_mut(id) else {
            return;
        };
        let at = Until::from(step.wake());
        let before = std::mem::replace(&mut step.listed, at);
        if before == at {
            return;
        }
        if let Some(before) = before.time() {
            self.agenda.0.remove(&(before, OneWord::of(id)));
        }
        if let Some(at) = at.time() {
            self.agenda.0.insert((at, OneWord::of(id)));
        }
    }
}
