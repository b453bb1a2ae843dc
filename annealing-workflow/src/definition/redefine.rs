//! Another definition for an execution that has begun.

use plugin_sdk::workflow::{MachineName, StateName};

use super::{
    error::Error,
    position::{MachineNo, Position},
    workflow::Workflow,
};

/// Why an execution cannot go on with another definition. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedefineError {
    /// The other definition lacks a machine of the execution.
    #[error("the new definition has no machine `{0}`; keep it, or start another execution")]
    NoMachine(MachineName),
    /// The other definition lacks the state in which a machine is.
    #[error(
        "`{machine}` is in the state `{state}`, which the new definition does not have; keep the state, or give the word \
         when the machine has left it"
    )]
    NoState {
        /// The machine whose present state the new definition lacks.
        machine: MachineName,
        /// The state in which it is.
        state: StateName,
    },
    /// From the present states, the other definition leads to an end that is neither good nor bad.
    #[error("from the present states, {0}")]
    Refused(Error),
}

impl Workflow {
    /// The workflow with the definition of `new`, and the position in it, for an execution that is at `position`, in which
    /// the machines `begun` have begun and calls of those `in_flight` are in flight. Each machine has to be there under its
    /// name, and each that has begun also its state; the others are in their new first states. The machines keep their
    /// numbers; those that are new have the numbers after them.
    ///
    /// All states that can be reached from the position are explored.
    ///
    /// # Errors
    /// When a machine or its state is not there, or an end is stuck.
    pub fn redefined(
        &self,
        new: &Self,
        position: &Position,
        begun: &[MachineNo],
        in_flight: &[MachineNo],
    ) -> Result<(Self, Position), RedefineError> {
        let mut states = Position::first(new.len());
        for machine in self.numbers() {
            let name = &self.machine(machine).name;
            let there = new.machine_no(name);
            let there = there.ok_or_else(|| RedefineError::NoMachine(name.clone()))?;
            if !begun.contains(&machine) {
                continue;
            }
            let state = self.state(machine, position.state(machine));
            let state = new.state_no(there, state).ok_or_else(|| {
                let (machine, state) = (name.clone(), state.clone());
                RedefineError::NoState { machine, state }
            })?;
            states.set(machine, state);
        }
        if position.cancelled() {
            states.cancel();
        }
        let mut definition = new.definition().clone();
        // The sort is stable, so those that are new keep their order.
        definition.machines.sort_by_key(|machine| {
            let number = self.machine_no(&machine.name);
            number.map_or(self.len(), MachineNo::index)
        });
        let redefined = Self::explored(definition, &states, in_flight, new.len());
        Ok((redefined.map_err(RedefineError::Refused)?, states))
    }
}
