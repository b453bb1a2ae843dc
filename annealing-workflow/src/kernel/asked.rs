//! What processes ask of the owner through the inbox, and its answers, as they are stored.

use plugin_sdk::{
    operation::{ExecutionId, Start},
    workflow::WorkflowName,
};
use prodspec_model::{AssetId, operation::Operation};
use serde::{Deserialize, Serialize};

use super::{
    intended::ScheduleWord,
    refused::Refused,
    say::{Say, WorkflowWord},
};
use crate::record::Answered;

/// What a process asks of the owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Asked {
    /// Starts an execution, or finds the one that its key has started.
    Start(Start),
    /// Runs an operation under the workflow and the key of a start.
    Operate {
        /// The name of the operation, as the workflow, and the key.
        start: Start,
        /// The operation to run, before it is checked against the registered functions.
        operation: Operation,
    },
    /// A word for an execution.
    Say {
        /// Id of the execution that the command is for.
        execution: ExecutionId,
        /// The command that the execution has to follow.
        word: Say,
    },
    /// A word for the schedule of an asset.
    Schedule {
        /// Id of the asset that has the schedule.
        asset: AssetId,
        /// The command: pause, resume or acknowledge the schedule.
        word: ScheduleWord,
    },
    /// A word for a workflow.
    Workflow {
        /// Name of the workflow that the command is for.
        workflow: WorkflowName,
        /// The command: drain the workflow, or resume it.
        word: WorkflowWord,
    },
    /// A word for the watch of an asset.
    Watch {
        /// Id of the asset that has the watch.
        asset: AssetId,
        /// The command: pause, resume or acknowledge the watch.
        word: ScheduleWord,
    },
}

impl Answered {
    /// The answer with which a command is refused.
    pub fn refused(refused: &Refused) -> Self {
        Self::Refused {
            why: refused.to_string(),
            refused: serde_json::to_value(refused).ok(),
        }
    }

    /// Why the command is refused, as the owner has it if this program version knows that reason. `None`: it is not.
    pub fn why(self) -> Option<Refused> {
        let Self::Refused { why, refused } = self else {
            return None;
        };
        let known = refused.and_then(|refused| serde_json::from_value(refused).ok());
        Some(known.unwrap_or(Refused::ByOwner(why)))
    }
}
