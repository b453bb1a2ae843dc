//! Why a question to the workflows has no answer, or a command no effect.

use std::time::Duration;

use plugin_sdk::operation::ExecutionId;
use prodspec_model::PartitionId;

use crate::{kernel::Refused, operation, record::InboxRecord};

/// Why a question has no answer, or a command has no effect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The workflows are not running in this process: its ownership of the partition ended or never began.
    #[error(
        "the workflows of partition {0} are not running in this process; ask the process that owns it"
    )]
    NotRunning(PartitionId),
    /// The stored executions cannot be read. What runs reads them again by itself.
    #[error("failed to read the stored executions of {partition}; try again: {why}")]
    Unreadable {
        /// The partition whose executions cannot be read.
        partition: PartitionId,
        /// The error, with its causes.
        why: String,
    },
    /// The command does not fit. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The operation cannot be run. Nothing was changed.
    #[error(transparent)]
    Operation(#[from] operation::Error),
    /// No execution with this id is known: it never was, it ended long ago, or this program version cannot read its
    /// definition.
    #[error(
        "no execution has the id {0}, or this program version cannot read its definition, as the log says then"
    )]
    Unknown(ExecutionId),
    /// The execution has not ended in time.
    #[error("{0} has not ended in time; it goes on")]
    NotYet(ExecutionId),
    /// No owner has taken a command in time. It is withdrawn: it has changed nothing, and never will.
    #[error(
        "no owner of {partition} has taken the command within {within:?}, so it is withdrawn and changes nothing; see that a process owns {partition}, then give it again"
    )]
    Withdrawn {
        /// The partition without an owner that works.
        partition: PartitionId,
        /// How long the command waited.
        within: Duration,
    },
    /// The command is kept, and its fate is not known: it may have been handled, or will be within ten minutes.
    #[error(
        "the owner of {0} has not answered the command, which is kept: it has been handled, or will be within 10 min, or never; look before you give it again"
    )]
    Unanswered(PartitionId),
    /// Too many commands wait for the owner. Nothing was changed.
    #[error(
        "{commands} commands of {bytes} bytes wait for the owner of {partition}, and the limits are {} and {}; see that a process owns {partition}, then give it again",
        InboxRecord::WAITING,
        InboxRecord::WAITING_SIZE
    )]
    InboxFull {
        /// The partition whose inbox is full.
        partition: PartitionId,
        /// The number of commands that wait.
        commands: usize,
        /// Size of these commands together, in bytes.
        bytes: usize,
    },
    /// The command is too large to be handed to the owner. Nothing was changed.
    #[error(
        "the command has {bytes} bytes, and the limit is {}; give it in the process of the owner",
        InboxRecord::SIZE
    )]
    CommandTooLarge {
        /// The size of the command.
        bytes: usize,
    },
    /// The command cannot be written for the owner. Nothing was changed.
    #[error("the command cannot be written for the owner; nothing was changed")]
    NotWritten(#[source] control_plane_store::CommitError),
    /// The store cannot be read for this question.
    #[error("the store cannot be read")]
    Store(#[from] control_plane_store::Error),
}
