//! The times at which steps have to be looked at.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::Mono;

use super::state::StepId;

/// At most one time per step.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    order: BTreeSet<(Mono, StepId)>,
    times: BTreeMap<StepId, Mono>,
}

impl Agenda {
    /// Sets, or removes, the time of a step.
    pub(super) fn set(&mut self, step: StepId, at: Option<Mono>) {
        let before = match at {
            Some(at) => self.times.insert(step, at),
            None => self.times.remove(&step),
        };
        if let Some(before) = before {
            self.order.remove(&(before, step));
        }
        if let Some(at) = at {
            self.order.insert((at, step));
        }
    }

    /// The earliest time of all.
    pub(super) fn first(&self) -> Option<Mono> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Removes and returns a step whose time has come.
    pub(super) fn pop(&mut self, now: Mono) -> Option<StepId> {
        let &(at, step) = self.order.first().filter(|(at, _)| *at <= now)?;
        self.order.remove(&(at, step));
        self.times.remove(&step);
        Some(step)
    }
}
