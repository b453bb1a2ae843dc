//! What is stored of executions, under readable keys.
//!
//! | key | holds | is removed |
//! |---|---|---|
//! | `workflow-lane/{p}` | the number of the next execution | never |
//! | `workflow-definition/{p}/{digest}` | a workflow as data | with the last execution that keeps to it |
//! | `workflow-live/{p}/{id}` | an execution that has not ended | in the commit that ends it |
//! | `workflow-input/{p}/{id}` | the input of an execution | with the execution |
//! | `workflow-step/{p}/{id} {machine}` | the state of a machine that has begun | with the execution |
//! | `workflow-output/{p}/{id} {machine}` | the output and context that its last answer left | with the execution |
//! | `workflow-ended/{p}/{id}` | an execution that has ended, with its outcome | by retention |
//! | `workflow-key/{p}/{digest}` | which execution a key has started | 30 days after the execution; never if it is the key of an asset |
//! | `workflow-old-key/{p}/{time} {digest}` | that a key may be forgotten from then on | with the key |
//! | `workflow-schedule/{p}/{asset}` | the state of a schedule: [`ScheduleRecord`](crate::cron::ScheduleRecord) | when its asset is turned down, or is gone and that is acknowledged |
//! | `workflow-watch/{p}/{asset}` | the state of a watch: [`WatchRecord`](crate::watch::WatchRecord) | when its asset is turned down, or is gone and that is acknowledged |
//! | `workflow-watched/{p}/{watch} {asset}` | what a watch knows of an asset: [`WatchedRecord`](crate::watch::WatchedRecord) | when nothing of it waits or runs |
//! | `workflow-changed/{p}/{id}` | the assets that a run of a watch is about | with the execution |
//! | `workflow-rate/{p}/{digest}` | how far a rate of claims is used up | some time after it is free |
//! | `workflow-survived/{p}/{owner}` | that an owner lost the partition and lived on | by the next owner |
//! | `workflow-drained/{p}/{workflow}` | the word by which no execution of a workflow begins | when it is resumed |
//! | `workflow-log/{p}/{id} {n}` | log entries of one commit, from the number n on | with the execution |
//! | `workflow-feed/{p}/{fence}-{n}-{part}` | the log entries of one commit, of all executions | after seven days |
//! | `workflow-listener/{p}/{name}` | how far a listener has heard the feed | never |
//! | `workflow-inbox/{p}/{time} {id}` | a command of a process that does not own the partition | in the commit that handles it, or when it is withdrawn |
//! | `workflow-answer/{p}/{time} {id}` | the answer to such a command | after ten minutes |

mod execution;
mod feed;
mod inbox;
mod known;
mod log;
mod step;
#[cfg(test)]
mod tests;
use std::sync::Arc;

use control_plane_runtime::StoredWait;
use control_plane_store::Record as StoreRecord;
use jiff::Timestamp;
use plugin_sdk::{
    By,
    operation::{AssetRun, ExecutionId},
    workflow::WorkflowName,
};
use prodspec_model::{AssetId, Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

use crate::definition::Outcome;

pub use self::{
    execution::{Ended, Live, OpenEffect, Origin, Said},
    feed::{FeedPosition, FeedRecord, ListenerRecord, Subject, Told},
    inbox::{AnswerRecord, Answered, InboxId, InboxRecord, Taken},
    log::{EditedAsset, Entry, LogRecord, What},
    step::{Does, OpenCall, Output, StepEdit, StepRecord},
};
pub(crate) use self::{known::known, log::LogLength};

/// That an owner, whose name is the identity of its keys, has lost the partition and lived on: its end was no death.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SurvivedRecord {}

impl StoreRecord for SurvivedRecord {
    const KIND: &'static str = "workflow-survived";
}

/// The counters of the lane of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LaneRecord {
    /// The number of the next execution.
    #[serde(default)]
    pub next: u64,
}

impl StoreRecord for LaneRecord {
    const KIND: &'static str = "workflow-lane";
}

/// The word by which no execution of a workflow begins, whose name is that of the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRecord(pub Said);

impl StoreRecord for DrainRecord {
    const KIND: &'static str = "workflow-drained";
}

/// How far a rate of claims is used up. Keys of claims may be long, so the name of the record is a digest of the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateRecord {
    /// The key of the claims.
    pub key: String,
    /// The theoretical arrival time of the next claim, by the generic cell rate algorithm, or up to a second or a sixteenth of
    /// the burst more.
    pub used_up_to: StoredWait,
}

impl StoreRecord for RateRecord {
    const KIND: &'static str = "workflow-rate";
}

impl RateRecord {
    /// The name of the record of a key.
    pub fn name(key: &str) -> String {
        Digest::of(key.as_bytes()).to_string()
    }
}

/// The input of an execution, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Input(pub serde_json::Value);

impl StoreRecord for Input {
    const KIND: &'static str = "workflow-input";
}

/// The assets that a run of a watch is about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Changed {
    /// The assets, in the order of their changes.
    pub assets: Vec<ChangedAsset>,
    /// Whether the run is about their state in production, which its functions are given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub status: bool,
}

impl StoreRecord for Changed {
    const KIND: &'static str = "workflow-changed";
}

/// An asset that a run of a watch is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedAsset {
    /// Id of the asset that changed.
    pub asset: AssetId,
    /// An incarnation in which it is as it was before the change. Retention spares it while the run is live. `None`: there
    /// was nothing before, as far as the watch knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<IncarnationNo>,
}

/// The execution that a key has started. A start with the same key is this execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// The workflow of the start.
    pub workflow: WorkflowName,
    /// The key of the start.
    pub key: Arc<str>,
    /// The execution that was started.
    pub execution: ExecutionId,
    /// Digest of the workflow's input. A start with the same key and another input is refused.
    pub input: Digest,
    /// How the execution ended. `None`: it has not.
    #[serde(
        default,
        deserialize_with = "Outcome::known_if_any",
        skip_serializing_if = "Option::is_none"
    )]
    pub outcome: Option<Outcome>,
    /// Time from which on the key may be forgotten. `None`: the execution, or its history, is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// If the key is an asset, the newest run for each of its newest 16 contents, the last started one last. Such a key is
    /// never forgotten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<AssetRun>,
}

impl StoreRecord for KeyRecord {
    const KIND: &'static str = "workflow-key";
}

/// A key whose execution is not kept any more. These records are in the order in which keys may be forgotten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OldKey {
    /// The execution that the key has started. If another one has the key now, the key stays.
    pub execution: ExecutionId,
}

impl StoreRecord for OldKey {
    const KIND: &'static str = "workflow-old-key";
}

impl OldKey {
    /// The name of the record for a key that may be forgotten at `until`. `key`: the name of the record of the key.
    pub fn name(until: Timestamp, key: &str) -> String {
        format!("{} {key}", until.strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

impl KeyRecord {
    /// The key of the runs of a workflow for an asset.
    pub fn of_asset(asset: &AssetId) -> Arc<str> {
        format!("asset {asset}").into()
    }

    /// The name of the record of a key: a digest, because keys may be long and contain any character.
    ///
    /// ```
    /// use annealing_workflow::record::KeyRecord;
    /// let (one, other) = (KeyRecord::name(&"a".into(), "bc"), KeyRecord::name(&"ab".into(), "c"));
    /// assert_ne!(one, other);
    /// ```
    pub fn name(workflow: &WorkflowName, key: &str) -> String {
        // Names of workflows have no slash, so the first one ends the name.
        Digest::of(format!("{workflow}/{key}").as_bytes()).to_string()
    }
}

/// The pause of a schedule or a watch, until an operator resumes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Time from which nothing of it starts.
    pub since: Timestamp,
    /// Who paused it, and the reason.
    pub by: By,
}
