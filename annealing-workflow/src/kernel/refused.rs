//! Why commands do not fit.

use std::borrow::Cow;

use jiff::Timestamp;
use plugin_sdk::{
    operation::ExecutionId,
    workflow::{MachineName, WorkflowName},
};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use super::{
    intended::ScheduleWord,
    say::{Say, WorkflowWord},
};

/// Why a command does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refused {
    /// No workflow has this name.
    #[error("no workflow is named {0}; register it, or start one of: {1}")]
    UnknownWorkflow(WorkflowName, String),
    /// An operation has the name of a registered workflow.
    #[error("a workflow is named {0}; give the operation another name")]
    NameTaken(WorkflowName),
    /// The key belongs to an execution with another input, or of another operation.
    #[error(
        "the key has started {0} with another input or operation; use another key, or the same content"
    )]
    OtherInput(ExecutionId),
    /// A part of the start cannot be accepted.
    #[error(transparent)]
    #[serde(skip)]
    Start(#[from] plugin_sdk::operation::InvalidStart),
    /// Too many executions are live.
    #[error(
        "{0} executions are live, which is the limit; cancel some, or wait until some have ended"
    )]
    TooMany(usize),
    /// The chain of causes is too long: a loop of starts.
    #[error("the chain of causes would be longer than {limit}: {chain}; break the loop", limit = super::CHAIN)]
    Loop {
        /// The chain, the nearest cause last.
        chain: String,
    },
    /// No such execution is live.
    #[error(
        "no live execution has the id {0}; of one that has ended, only machines can be restarted"
    )]
    NotLive(ExecutionId),
    /// The execution was live again after what was read of it for a restart.
    #[error(
        "{0} was restarted meanwhile and has ended again; look at it, then give the word again"
    )]
    EndedAgain(ExecutionId),
    /// The execution has no such machine.
    #[error("{execution} has no machine {machine}; it has: {machines}")]
    NoMachine {
        /// Id of the execution that the command is for.
        execution: ExecutionId,
        /// The name that was given.
        machine: MachineName,
        /// The names of its machines.
        machines: String,
    },
    /// The word does not fit what the execution waits for.
    #[error("{word} does not fit {execution} now: {why}")]
    DoesNotFit {
        /// Id of the execution that the command is for.
        execution: ExecutionId,
        /// The refused command, in the form of its `Display`.
        word: String,
        /// Why it does not fit, and what is waited for.
        why: String,
    },
    /// No schedule is of this asset.
    #[error("no schedule is of the asset {0}; list them with `schedules()`")]
    NoSchedule(AssetId),
    /// The word does not fit the schedule now.
    #[error("{word} does not fit the schedule {asset} now: {why}")]
    Schedule {
        /// The asset with the schedule.
        asset: AssetId,
        /// The command that the schedule refuses.
        word: ScheduleWord,
        /// Why it does not fit, and what to do.
        why: Cow<'static, str>,
    },
    /// The word does not fit the workflow now.
    #[error("{word} does not fit the workflow {workflow} now: {why}")]
    Workflow {
        /// Name of the workflow that the command is for.
        workflow: WorkflowName,
        /// The command that the workflow refuses.
        word: WorkflowWord,
        /// Why it does not fit.
        why: Cow<'static, str>,
    },
    /// No watch is of this asset.
    #[error("no watch is of the asset {0}; list them with `watches()`")]
    NoWatch(AssetId),
    /// The word does not fit the watch now.
    #[error("{word} does not fit the watch {asset} now: {why}")]
    Watch {
        /// The asset with the watch.
        asset: AssetId,
        /// The command that the watch refuses.
        word: ScheduleWord,
        /// Why it does not fit, and what to do.
        why: Cow<'static, str>,
    },
    /// A command of another process came too late: it is older than ten minutes, by the clock of the owner.
    #[error(
        "the command was given at {at}, which is more than {} min ago; give it again, or set the clocks",
        crate::record::InboxRecord::TIME.as_secs() / 60
    )]
    TooOld {
        /// Time of the command, by the clock of its process.
        at: Timestamp,
    },
    /// The owner of the partition refuses a command of another process, for this reason.
    #[error("{0}")]
    ByOwner(String),
    /// There is no incarnation yet, so there is no intent to work on.
    #[error("there is no incarnation yet; seal one first")]
    NoIntent,
}

impl Refused {
    /// The error of a word that does not fit, and why.
    pub(super) fn does_not_fit(execution: &ExecutionId, word: &Say, why: &str) -> Self {
        Self::DoesNotFit {
            execution: execution.clone(),
            word: word.to_string(),
            why: why.to_owned(),
        }
    }

    /// Whether the same command may be accepted later, without a change of anything that people make.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::TooMany(_) | Self::NoIntent)
    }
}
