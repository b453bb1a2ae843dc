//! Executions, live and ended.

use std::{collections::BTreeMap, sync::Arc};

use control_plane_store::Record;
use jiff::Timestamp;
use plugin_sdk::{
    By, Claim,
    operation::{EffectKey, ExecutionId, KeyIdentity, StartCause},
    workflow::{MachineName, StateName},
};
use prodspec_model::{AssetId, Digest, operation::History, tolerant};
use serde::{Deserialize, Deserializer, Serialize};

use crate::definition::Outcome;

/// A word of a person or a program, and when it was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Who gave it, and why.
    #[serde(flatten)]
    pub by: By,
    /// Time at which it was given.
    pub at: Timestamp,
}

/// Where an execution comes from. Executions that come from the same share it in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Digest of the workflow's definition, to which the execution keeps.
    pub definition: Digest,
    /// Digest of the operation that it runs. `None`: it runs a registered workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Digest>,
    /// Who started it, and why.
    pub by: By,
    /// The reason for which it was started. One that this program version does not know counts as a command.
    #[serde(deserialize_with = "cause")]
    pub cause: StartCause,
    /// The executions and watches that led to it, the nearest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// The watch of whose runs it is one, or by whose runs it was started, also through other executions. `None`: it is of
    /// no watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<AssetId>,
    /// Labels that the start gave to the execution, by name. Queries select by them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Arc<BTreeMap<String, String>>,
    /// The identity of the keys of its effects: that of the ownership under which it was started.
    #[serde(default, skip_serializing_if = "KeyIdentity::is_zero")]
    pub identity: KeyIdentity,
    /// How many runs are kept of the schedule or the watch that started it. `None`: as of other workflows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
}

/// An execution that has not ended. It changes only by words; its progress is in the records of its steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Where the execution comes from: its definition, its cause and its labels.
    #[serde(flatten)]
    pub origin: Arc<Origin>,
    /// The key of the start. `None`: it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    /// Time at which it was started.
    pub started: Timestamp,
    /// Set if cancelling it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Box<Said>>,
    /// Set if an operator has ended it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Box<Said>>,
    /// Set while it is paused: nothing of it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Box<Said>>,
    /// Whether it waits for its start: the dispatch stack or a drain delays it, or a claim is not free.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Whether it was cancelled while it waited for its start. Only its clean-up runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// Claims that it took at its start and holds until it ends.
    #[serde(
        default,
        deserialize_with = "plugin_sdk::claims",
        skip_serializing_if = "<[Claim]>::is_empty"
    )]
    pub claims: Box<[Claim]>,
    /// Number of transitions at which it is paused. `None`: the number of the configuration. It rises with each resume
    /// of an execution that has reached it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<u32>,
    /// Number of times it has ended. Each restart after an end makes it live again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ends: u32,
}

fn cause<'de, D: Deserializer<'de>>(from: D) -> Result<StartCause, D::Error> {
    tolerant::known_or(from, |_| StartCause::Command)
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Record for Live {
    const KIND: &'static str = "workflow-live";
}

/// An execution that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Id of the execution, the same as while it was live.
    pub id: ExecutionId,
    /// The record of the execution while it was live.
    #[serde(flatten)]
    pub live: Live,
    /// How the execution ended: succeeded, failed, cancelled, terminated or stuck.
    #[serde(deserialize_with = "Outcome::known")]
    pub outcome: Outcome,
    /// The states in which its machines rest.
    pub states: BTreeMap<MachineName, StateName>,
    /// The machines whose last attempt failed, with the last error of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<MachineName, String>,
    /// The machines whose last calls or edits may still take effect, or have taken effect without an answer. Empty unless an
    /// operator has ended it at once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub may_take_effect: BTreeMap<MachineName, OpenEffect>,
    /// Time at which it ended.
    pub ended: Timestamp,
}

/// What a machine may still do after the end of its execution, or has done without an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenEffect {
    /// What it is, for people: a call, work under way, or an edit of a source.
    pub what: String,
    /// The key under which the callee may have noted it.
    pub key: EffectKey,
    /// Time after which nothing of it happens any more. `None`: that is not known, as for work that is under way at the
    /// callee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Record for Ended {
    const KIND: &'static str = "workflow-ended";
}
