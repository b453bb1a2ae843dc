//! The problems for which a definition is refused, each with the place and what to do.

use std::fmt;

use plugin_sdk::workflow::{
    Guard, InvalidName, MAX_DEFINITION, MAX_MACHINES, MAX_STATES, MachineName, StateName,
    WorkflowName,
};

use super::clause::{FalseClause, GuardOf};

/// A definition that was refused, with every problem found in it. Nothing of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The workflow that was refused.
    pub workflow: WorkflowName,
    /// The problems in the order of the machines, at least one.
    pub problems: Vec<Problem>,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the workflow `{}` is refused: ", self.workflow)?;
        separated(f, &self.problems, "; ")
    }
}

/// One reason for which a definition is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A name has characters that names cannot have, or is too long.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The workflow has no machine.
    #[error("it has no machine; add one")]
    NoMachine,
    /// The workflow has more machines than an execution can have.
    #[error("it has {0} machines, more than {MAX_MACHINES}; move some into child executions")]
    TooManyMachines(usize),
    /// The definition is larger than what is stored.
    #[error(
        "its definition has {0} bytes, more than {MAX_DEFINITION}; move large inputs into assets and read them by id"
    )]
    TooLarge(usize),
    /// The definition has no canonical JSON.
    #[error("its definition cannot be written as JSON: {0}")]
    NotJson(prodspec_model::canonical::Error),
    /// Two machines have one name.
    #[error("more than one machine is named `{0}`; rename all but one")]
    Duplicate(MachineName),
    /// Something was set on a machine before it had the action that it is for.
    #[error(
        "something is set on the machine `{0}` before the action in its first state, which would be lost; set it on the action"
    )]
    SetNothing(MachineName),
    /// A machine has more states than fit into a set of states.
    #[error("the machine `{machine}` has {states} states, more than {MAX_STATES}; split it")]
    TooManyStates {
        /// The machine with these states.
        machine: MachineName,
        /// The number of its states.
        states: usize,
    },
    /// A guard or task names a machine that the workflow does not have.
    #[error("{of} names the machine `{machine}`, which is not there; add it or correct the name")]
    NoSuchMachine {
        /// The guard or action with the name.
        of: GuardOf,
        /// The name that is not there.
        machine: MachineName,
    },
    /// A guard names a state that the machine does not have.
    #[error(
        "{of} names the state `{state}` of `{machine}`, which has only {}",
        quoted(known)
    )]
    NoSuchState {
        /// The guard with the name.
        of: GuardOf,
        /// The machine that is named.
        machine: MachineName,
        /// The state that the machine does not have.
        state: StateName,
        /// All states of the machine.
        known: Vec<StateName>,
    },
    /// An action cannot be run as it is.
    #[error("{of} {why}")]
    Action {
        /// The action, as the owner of its guard.
        of: GuardOf,
        /// What is wrong with it, and what to change.
        why: String,
    },
    /// No end of the workflow is good.
    #[error("no end is good; say with `ends_well` in which states it has succeeded")]
    NoGoodEnd,
    /// The guard of an action never holds while its machine is in the action's state.
    #[error("{of} is never enabled: {guard} never holds there; {advice}")]
    NeverEnabled {
        /// The action that is never enabled.
        of: GuardOf,
        /// The guard of the action, as the definition has it.
        guard: Guard,
        /// Advice for the author of the definition: which part to add, correct or remove.
        advice: &'static str,
    },
    /// No outcome that can occur leads to a state.
    #[error(
        "the state `{state}` of `{machine}` is never reached; let an outcome lead to it or remove it"
    )]
    NeverReached {
        /// The machine with the state.
        machine: MachineName,
        /// The state that is never reached.
        state: StateName,
    },
    /// An execution can end where it is neither good, bad nor cancelled.
    #[error(transparent)]
    Stuck(Box<StuckEnd>),
}

/// An end that is neither good nor bad, with a shortest way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckEnd {
    /// The transitions that lead from the first states to the end.
    pub path: Vec<Transition>,
    /// The conditions that do not hold at the end, of which one should.
    pub clauses: Vec<FalseClause>,
}

impl std::error::Error for StuckEnd {}

impl fmt::Display for StuckEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => f.write_str("it ends at once, neither good nor bad: ")?,
            false => {
                f.write_str("it can end neither good nor bad, after ")?;
                separated(f, &self.path, ", ")?;
                f.write_str(": ")?;
            }
        }
        separated(f, &self.clauses, ", ")?;
        f.write_str("; add an action for this case, or name the end in `ends_well` or `ends_badly`")
    }
}

/// One step of an execution on the way to an end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transition {
    /// The action of a machine had an outcome.
    Outcome {
        /// The machine that had the action.
        machine: MachineName,
        /// The outcome, which leads to the machine's next state.
        outcome: StateName,
    },
    /// The action of a machine was due when its guard stopped to hold, and was not begun.
    Withdrawn {
        /// The machine that had the action.
        machine: MachineName,
    },
    /// Cancelling the execution was asked for.
    Cancelled,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outcome { machine, outcome } => write!(f, "`{machine}` {outcome}"),
            Self::Withdrawn { machine } => write!(f, "`{machine}` withdrawn"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

fn separated<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    separator: &str,
) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        let separator = if at == 0 { "" } else { separator };
        write!(f, "{separator}{item}")?;
    }
    Ok(())
}

fn quoted(states: &[StateName]) -> String {
    let quoted: Vec<String> = states.iter().map(|state| format!("`{state}`")).collect();
    quoted.join(", ")
}
