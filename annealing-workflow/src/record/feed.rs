//! The feed of a partition: what its executions, schedules and watches did, commit by commit.

use std::{fmt, sync::Arc};

use control_plane_store::Record;
use plugin_sdk::{operation::ExecutionId, workflow::WorkflowName};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use super::Entry;

/// The entries of one commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FeedRecord(pub Vec<Told>);

impl Record for FeedRecord {
    const KIND: &'static str = "workflow-feed";
}

/// What an entry of the feed is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// An execution. The entry is in its log.
    Execution(ExecutionId),
    /// The schedule or the watch of an asset.
    Asset(AssetId),
    /// A workflow as a whole, such as its drain.
    Workflow(WorkflowName),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Execution(execution) => execution.fmt(f),
            Self::Asset(asset) => asset.fmt(f),
            Self::Workflow(workflow) => workflow.fmt(f),
        }
    }
}

/// An entry of the feed, and what it is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Told {
    /// The execution, schedule, watch or workflow that it is about.
    #[serde(flatten)]
    pub about: Subject,
    /// The event with its time, as in the log of an execution.
    pub entry: Entry,
}

impl Told {
    /// The execution that it is about. `None`: it is about a schedule, a watch or a workflow.
    pub fn execution(&self) -> Option<&ExecutionId> {
        match &self.about {
            Subject::Execution(execution) => Some(execution),
            Subject::Asset(_) | Subject::Workflow(_) => None,
        }
    }
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

    /// The place before all parts.
    pub(crate) fn before_all() -> Self {
        Self::new(0, 0, 0)
    }
}

impl fmt::Display for FeedPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
