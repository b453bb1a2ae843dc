//! The feed of a partition: what its executions did, commit by commit.

use std::sync::Arc;

use control_plane_store::Record;
use plugin_sdk::operation::ExecutionId;
use serde::{Deserialize, Serialize};

use super::Entry;

/// The log entries of one commit, of all executions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FeedRecord(pub Vec<Told>);

impl Record for FeedRecord {
    const KIND: &'static str = "workflow-feed";
}

/// A log entry, and the execution that it is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Told {
    /// The execution that it is about.
    pub execution: ExecutionId,
    /// What happened, and when.
    pub entry: Entry,
}

/// A place in the feed of a partition, after which a follower goes on. Later places are greater, also under other owners.
/// A text that may be stored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FeedPosition(pub(crate) Arc<str>);

impl FeedPosition {
    /// The place of a part of a commit of the lane that put up this fence.
    pub(crate) fn new(fence: u64, commit: u64, part: usize) -> Self {
        Self(format!("{fence:020}-{commit:020}-{part:04}").into())
    }
}

impl std::fmt::Display for FeedPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a listener has heard the feed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListenerRecord {
    /// The last place that it has heard.
    pub heard: FeedPosition,
}

impl Record for ListenerRecord {
    const KIND: &'static str = "workflow-listener";
}
