//! The states of all machines of an execution at one moment, one byte each.

use std::fmt;

use smallvec::{SmallVec, smallvec};

/// The number of a machine in its workflow, in the order of the definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineNo(pub(super) u16);

impl MachineNo {
    /// The number of no machine: where machines are numbered, it stands for the execution itself.
    pub(crate) const NONE: Self = Self(u16::MAX);

    pub(super) fn new(index: usize) -> Self {
        // A workflow has at most 1,000 machines.
        Self(index as u16)
    }

    /// The machine with this number.
    pub(crate) fn of(number: u16) -> Self {
        Self(number)
    }

    /// The number as an index into lists with an element per machine.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// The byte of the machine in a position.
    pub(super) fn place(self) -> usize {
        self.index() + 1
    }
}

/// The number of a state in its machine; 0 is the first state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateNo(pub(super) u8);

impl StateNo {
    /// The first state of every machine, in which each run begins.
    pub const FIRST: Self = Self(0);
}

/// The byte of a position that says whether the execution was cancelled.
pub(super) const CANCELLED: usize = 0;

/// The states of all machines of an execution, and whether cancelling it was asked for. It is all that guards see. Those of
/// up to fifteen machines need no memory of their own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(SmallVec<[u8; 16]>);

impl Position {
    /// Every machine in its first state, not cancelled.
    pub(super) fn first(machines: usize) -> Self {
        Self(smallvec![0; machines + 1])
    }

    /// The position with further machines in their first states.
    pub(super) fn extended(&self, machines: usize) -> Self {
        let mut places = self.0.clone();
        places.resize(machines + 1, 0);
        Self(places)
    }

    pub(super) fn of(places: impl IntoIterator<Item = u8>) -> Self {
        Self(places.into_iter().collect())
    }

    pub(super) fn places(&self) -> &[u8] {
        &self.0
    }

    /// The number of machines, each with a state.
    pub fn machines(&self) -> usize {
        self.0.len() - 1
    }

    /// The state of one machine of the workflow.
    pub fn state(&self, machine: MachineNo) -> StateNo {
        StateNo(self.0[machine.place()])
    }

    /// Sets the state of one machine of the workflow.
    pub fn set(&mut self, machine: MachineNo, state: StateNo) {
        self.0[machine.place()] = state.0;
    }

    /// Whether cancelling the execution was asked for.
    pub fn cancelled(&self) -> bool {
        self.0[CANCELLED] == 1
    }

    /// Notes that cancelling the execution was asked for.
    pub fn cancel(&mut self) {
        self.0[CANCELLED] = 1;
    }

    /// Forgets that cancelling was asked for, as a restart does.
    pub fn uncancel(&mut self) {
        self.0[CANCELLED] = 0;
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cancelled = if self.cancelled() { " cancelled" } else { "" };
        write!(f, "Position({:?}{cancelled})", &self.0[1..])
    }
}
