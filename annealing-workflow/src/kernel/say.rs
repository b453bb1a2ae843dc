//! Words for live executions and for workflows.

use plugin_sdk::workflow::{MachineName, StateName};
use serde::{Deserialize, Serialize};

/// A word for a live execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Say {
    /// Cleans up and ends: begins the actions that [clean up](plugin_sdk::workflow::Action::cleans_up) and whose guards hold,
    /// beside calls in flight, and no others. An execution that is paused cleans up when it is resumed.
    Cancel,
    /// Ends now, without clean-up, whatever is in flight: the last resort. Calls are abandoned, and what may still take effect
    /// is named in the [end](crate::record::Ended::may_take_effect). Children are cancelled.
    Terminate,
    /// Starts nothing more; what is in flight ends.
    Pause,
    /// Ends a pause. An execution that was paused at its maximum number of transitions may make as many again.
    Resume,
    /// Chooses an option of a question.
    Answer {
        /// The machine that asks the question.
        machine: MachineName,
        /// The option to choose: the state to which the machine goes.
        option: StateName,
    },
    /// Says what happened in a call whose outcome is not known.
    Settle {
        /// The machine that made the call.
        machine: MachineName,
        /// Whether the call took effect, and with which outcome.
        settled: Settled,
    },
    /// Calls a function again that was in flight at too many deaths.
    Replay(MachineName),
    /// Sets machines, and all that depend on them, back to their first state. An execution that has ended is live again. A
    /// cancel is taken back, so that what it held begins, unless all these machines clean up.
    Restart(Vec<MachineName>),
    /// Goes on with the definition that the owner's program has under the workflow's name, if it has all machines of the execution
    /// and their states, and the actions with calls or edits in flight, or of unknown outcome, are the same there. An action
    /// that is another one begins anew.
    Redefine,
    /// Ends the action of a machine with one of its outcomes, if no call of it is in flight.
    Skip {
        /// The machine whose action ends.
        machine: MachineName,
        /// The outcome, one of those that the action declares.
        outcome: StateName,
    },
}

/// What happened in a call whose outcome is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// It took effect, with this outcome of the action.
    Outcome(StateName),
    /// It took no effect: call again.
    Again,
}

impl Say {
    /// Chooses `option` of the question of `machine`.
    pub fn answer(machine: impl Into<MachineName>, option: impl Into<StateName>) -> Self {
        Self::Answer {
            machine: machine.into(),
            option: option.into(),
        }
    }

    /// The last call of `machine`, whose outcome is not known, took effect with this outcome.
    pub fn settle(machine: impl Into<MachineName>, outcome: impl Into<StateName>) -> Self {
        Self::Settle {
            machine: machine.into(),
            settled: Settled::Outcome(outcome.into()),
        }
    }

    /// The last call of `machine`, whose outcome is not known, took no effect: it is made again.
    pub fn again(machine: impl Into<MachineName>) -> Self {
        Self::Settle {
            machine: machine.into(),
            settled: Settled::Again,
        }
    }

    /// Ends the action of `machine`, which is not in flight, with this outcome.
    pub fn skip(machine: impl Into<MachineName>, outcome: impl Into<StateName>) -> Self {
        Self::Skip {
            machine: machine.into(),
            outcome: outcome.into(),
        }
    }

    /// Sets `machines`, and all that depend on them, back to their first state.
    pub fn restart<M: Into<MachineName>>(machines: impl IntoIterator<Item = M>) -> Self {
        Self::Restart(machines.into_iter().map(Into::into).collect())
    }
}

impl std::fmt::Display for Say {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cancel => f.write_str("cancel"),
            Self::Terminate => f.write_str("terminate"),
            Self::Pause => f.write_str("pause"),
            Self::Resume => f.write_str("resume"),
            Self::Redefine => f.write_str("redefine"),
            Self::Answer { machine, option } => write!(f, "answer {machine} with {option}"),
            Self::Settle { machine, settled } => match settled {
                Settled::Outcome(outcome) => write!(f, "settle {machine} as {outcome}"),
                Settled::Again => write!(f, "settle {machine}: again"),
            },
            Self::Replay(machine) => write!(f, "replay {machine}"),
            Self::Skip { machine, outcome } => write!(f, "skip {machine} with {outcome}"),
            Self::Restart(machines) => {
                f.write_str("restart")?;
                machines
                    .iter()
                    .try_for_each(|machine| write!(f, " {machine}"))
            }
        }
    }
}

/// A word for a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkflowWord {
    /// No execution of the workflow begins until it is resumed. Those that have begun go on, those that are started wait.
    Drain,
    /// Ends a drain: the executions that wait for it begin.
    Resume,
}

impl std::fmt::Display for WorkflowWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Drain => "drain",
            Self::Resume => "resume",
        })
    }
}
