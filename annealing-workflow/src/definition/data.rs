//! Definitions: workflows as plain data, not checked yet.

use plugin_sdk::workflow::{Guard, Machine, WorkflowName};
use serde::{Deserialize, Serialize};

/// A workflow as plain data: its machines, and the states in which an execution ended well or badly.
///
/// [`build`](Self::build) checks it and makes it a [`Workflow`](super::Workflow). The order of the machines decides their numbers and
/// nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Definition {
    /// The name of the workflow, unique in its partition.
    pub name: WorkflowName,
    /// The machines, each with a name of its own.
    pub machines: Vec<Machine>,
    /// The states in which an ended execution succeeded.
    pub ends_well: Guard,
    /// The states in which an ended execution failed, beside those with a machine in `failed` or `expired`. Default:
    /// none.
    #[serde(default = "Guard::never", skip_serializing_if = "Guard::is_never")]
    pub ends_badly: Guard,
}

impl Definition {
    pub(super) fn new(name: WorkflowName) -> Self {
        Self {
            name,
            machines: Vec::new(),
            ends_well: Guard::never(),
            ends_badly: Guard::never(),
        }
    }

    /// Adds a machine to the workflow.
    #[must_use]
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machines.push(machine);
        self
    }

    /// Adds several machines to the workflow.
    #[must_use]
    pub fn machines(mut self, machines: impl IntoIterator<Item = Machine>) -> Self {
        self.machines.extend(machines);
        self
    }

    /// Sets the condition under which an ended execution succeeded. It is judged before `ends_badly`.
    #[must_use]
    pub fn ends_well(mut self, guard: Guard) -> Self {
        self.ends_well = guard;
        self
    }

    /// Sets the condition under which an ended execution failed. One with a machine in `failed` or `expired` that did
    /// not end well failed in any case.
    #[must_use]
    pub fn ends_badly(mut self, guard: Guard) -> Self {
        self.ends_badly = guard;
        self
    }
}
