//! Parts of guards that do not hold, for operators.

use std::fmt;

use plugin_sdk::workflow::{Guard, MachineName, StateName};
use serde::{Deserialize, Serialize};

/// A part of a guard that does not hold, and because of which the guard does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FalseClause {
    /// What the guard belongs to.
    pub of: GuardOf,
    /// The part that does not hold.
    pub clause: Guard,
    /// The present state of the machine that the clause names. `None`: the clause is not about the state of one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<StateName>,
}

impl fmt::Display for FalseClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, clause, found } = self;
        write!(f, "{of} needs {clause}")?;
        match (clause, found) {
            (Guard::Is { machine, .. }, Some(found)) => {
                write!(f, " but `{machine}` is `{found}`")
            }
            _ => Ok(()),
        }
    }
}

/// What a guard belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GuardOf {
    /// The states in which an execution succeeded.
    EndsWell,
    /// The states in which an execution failed.
    EndsBadly,
    /// The action of a machine in one of its states.
    Action {
        /// The machine that has the action.
        machine: MachineName,
        /// The state in which it has the action.
        state: StateName,
    },
}

impl fmt::Display for GuardOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndsWell => f.write_str("`ends_well`"),
            Self::EndsBadly => f.write_str("`ends_badly`"),
            Self::Action { machine, state } => write!(f, "the action of `{machine}` in `{state}`"),
        }
    }
}
