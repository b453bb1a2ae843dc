//! Commands of processes that do not own the partition, and the answers of its owner.

use std::{fmt, sync::Arc, time::Duration};

use control_plane_store::{BatchId, Record};
use jiff::Timestamp;
use plugin_sdk::{By, operation::ExecutionId};
use serde::{Deserialize, Serialize};

use crate::definition::Outcome;

/// The name of a command in the inbox, and of its answer: the time at which it was given, and an id. Names are in the order
/// of the commands as far as the clocks of their processes agree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxId(pub(crate) Arc<str>);

impl InboxId {
    /// A name that no other command has.
    pub fn fresh(at: Timestamp) -> Self {
        let at = at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
        Self(format!("{at} {:032x}", BatchId::fresh().0).into())
    }
}

impl fmt::Display for InboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A command in the inbox. Its row goes in the commit that handles it, which writes the [`AnswerRecord`]; or the process that
/// gave it withdraws it, as long as no owner has taken it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InboxRecord {
    /// The operator who commands, and the reason.
    pub by: By,
    /// Time of the command, by the clock of its process.
    pub at: Timestamp,
    /// What is asked for, the kernel's `Asked` as JSON. An owner of an older version may not know it.
    pub command: serde_json::Value,
    /// The last owner that has taken the command. `None`: it may still be withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Taken>,
}

impl Record for InboxRecord {
    const KIND: &'static str = "workflow-inbox";
}

impl InboxRecord {
    /// Age from which on a command is refused, by the owner's clock.
    pub const TIME: Duration = Duration::from_secs(600);
    /// Number of owners that may end with a command in their hands before the next one refuses it.
    pub const OWNERS: u32 = 3;
    /// Maximum size of a command with its reason, as JSON, in bytes.
    pub const SIZE: usize = 256 << 10;
    /// Maximum number of commands that wait in the inbox of a partition.
    pub const WAITING: usize = 1_000;
    /// Maximum size of all commands that wait in the inbox of a partition, in bytes.
    pub const WAITING_SIZE: usize = 16 << 20;
}

/// The owner that has a command in its hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The fence of its lane.
    pub fence: u64,
    /// The number of lanes that have taken the command, this one included.
    pub lanes: u32,
}

/// The answer to a command in the inbox. The owner removes it some minutes later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// Time of the answer, by the owner's clock.
    pub at: Timestamp,
    /// The answer for the process that gave the command.
    pub answer: Answered,
}

impl Record for AnswerRecord {
    const KIND: &'static str = "workflow-answer";
}

impl AnswerRecord {
    /// Time for which an answer is kept.
    pub const KEPT: Duration = Duration::from_secs(600);
}

/// The answer to a command in the inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answered {
    /// The execution that a start has begun, or that its key had begun before.
    Started {
        /// Id of the execution that has the key.
        id: ExecutionId,
        /// Whether this start began it.
        new: bool,
        /// How it ended. `None`: it is live.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome>,
    },
    /// The command was accepted; its changes are durable.
    Taken,
    /// The command does not fit. Nothing was changed.
    Refused {
        /// The reason for people, with advice on a next step.
        why: String,
        /// The kernel's `Refused` as JSON. `None`: the reason is all there is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<serde_json::Value>,
    },
}
