//! The log of an execution: what happened, in order, for people.

use control_plane_store::Record;
use jiff::Timestamp;
use plugin_sdk::{
    By,
    operation::ExecutionId,
    workflow::{MachineName, StateName},
};
use prodspec_model::{Asset, AssetId, Digest, snapshot::Change};
use serde::{Deserialize, Serialize};

use super::known::known;

/// The entries that one commit added to the log of an execution, without those that only a newer program version knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<serde_json::Value>")]
pub struct LogRecord(pub Vec<Entry>);

impl From<Vec<serde_json::Value>> for LogRecord {
    fn from(all: Vec<serde_json::Value>) -> Self {
        Self(known(all).map(|(_, entry)| entry).collect())
    }
}

impl Record for LogRecord {
    const KIND: &'static str = "workflow-log";
}

impl LogRecord {
    /// The name of the record whose first entry has the number `n`.
    pub fn name(execution: &ExecutionId, n: u32) -> String {
        format!("{execution} {n:010}")
    }
}

/// A [`LogRecord`] of which only the number of entries matters. Those of newer program versions count too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LogLength(pub(crate) Vec<serde_json::Value>);

impl Record for LogLength {
    const KIND: &'static str = LogRecord::KIND;
}

/// One entry of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Time of the entry, by the owner's wall clock.
    pub at: Timestamp,
    /// The machine that it is about. `None`: the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineName>,
    /// The event that the entry records.
    pub what: What,
}

/// What happened to an execution or one of its machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// The execution was started by this person or program, for this reason.
    Started(By),
    /// The machine has gone from one state to another.
    Moved {
        /// The state that the machine has left.
        from: StateName,
        /// The state in which the machine is now.
        to: StateName,
    },
    /// An attempt failed. Unlike with [`Unknown`](Self::Unknown), its effect is known.
    Failed {
        /// Number of the attempt, from 1. It counts over all runs of the machine.
        attempt: u32,
        /// The text of the failure, for people.
        why: String,
    },
    /// It is not known whether an attempt took effect.
    Unknown {
        /// Number of the attempt, from 1. It counts over all runs of the machine.
        attempt: u32,
        /// The reason for people, such as a deadline or a lost connection.
        why: String,
    },
    /// A call was in flight when its owner ended.
    Interrupted {
        /// Number of the attempt, from 1. It counts over all runs of the machine.
        attempt: u32,
        /// Number of owners in a row that ended like that.
        deaths: u32,
    },
    /// A call was in flight when its owner ended in order. The next owner goes on.
    HandedOver {
        /// Number of the attempt, from 1, over all runs of the machine.
        attempt: u32,
    },
    /// Fields of a source were set, which changes these assets.
    Edited {
        /// The edits as text for people, each with its source. Pauses are not among them.
        edits: Vec<String>,
        /// The assets that change: the first thousand.
        assets: Vec<AssetId>,
        /// What the edit changes in them, as far as it is known: the first thousand.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<EditedAsset>,
        /// Fields that were left alone, because they had other values.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left_alone: Vec<String>,
    },
    /// A person has to say how it goes on, for this reason: an attempt that must not be repeated has an unknown outcome, or
    /// owners died in it. Without a machine: the execution is paused at its maximum number of transitions.
    Parked(String),
    /// A person or a program gave a word.
    Said {
        /// The command, in the form of its `Display`.
        word: String,
        /// Who gave it, and why.
        by: By,
    },
    /// The execution goes on with another definition of its workflow.
    Redefined {
        /// Digest of the definition before.
        from: Digest,
        /// Digest of the definition now.
        to: Digest,
    },
    /// Slots of a schedule have closed and will never start.
    Missed {
        /// Number of those that were late.
        late: u64,
        /// Number of those that waited under `Forbid` until they closed.
        forbidden: u64,
        /// Number of those that fell into a pause.
        paused: u64,
    },
    /// A line of the function.
    Note(String),
    /// The execution has ended, with this outcome.
    Ended(String),
}

/// What an edit changes in an asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditedAsset {
    /// The id of the asset.
    pub asset: AssetId,
    /// Digest of its content before the edit. `None`: it was not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Digest>,
    /// Digest of its content after it. `None`: it is not there any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Digest>,
}

impl EditedAsset {
    /// Maximum number of changed assets that an entry names.
    pub(crate) const MANY: usize = 1_000;

    /// What the first of these changes do.
    pub(crate) fn first(changes: &[Change]) -> Vec<Self> {
        let digest = |side: &Option<Asset>| side.as_ref().map(Asset::digest);
        let edited = changes.iter().take(Self::MANY).map(|change| Self {
            asset: change.id(),
            before: digest(&change.before),
            after: digest(&change.after),
        });
        edited.collect()
    }
}
