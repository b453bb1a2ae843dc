//! Runs of workflows for assets: what a plugin needs whose push starts a workflow, and a check that waits for one.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::{Asset, AssetId, Digest, operation::Operation, tolerant};
use serde::{Deserialize, Deserializer, Serialize};

use super::{ExecutionId, Start, StartCause};
use crate::{
    check::CheckRequest, error::PluginError, intent::AssetIntent, push::PushRequest, run::Cause,
    workflow::WorkflowName,
};

/// The newest run of a workflow for one content of an asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AssetRun {
    /// Digest of the content for which it runs.
    pub content: Digest,
    /// The execution that runs for it.
    pub execution: ExecutionId,
    /// Time at which it was started.
    pub started: Timestamp,
    /// How it ended. An end that this program version does not know is a failure. `None`: it is live.
    #[serde(
        default,
        deserialize_with = "end",
        skip_serializing_if = "Option::is_none"
    )]
    pub end: Option<RunEnd>,
    /// Time at which it ended. `None`: it is live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// The newest run for this content that succeeded. `None`: none has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<Success>,
}

fn end<'de, D: Deserializer<'de>>(from: D) -> Result<Option<RunEnd>, D::Error> {
    tolerant::known_or(from, |newer| Some(RunEnd::Failed(newer.to_string())))
}

/// The times of a run that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Success {
    /// Time at which it was started.
    pub started: Timestamp,
    /// Time at which it ended.
    pub ended: Timestamp,
}

/// How a run of a workflow ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunEnd {
    /// Its outcome is that it succeeded.
    Succeeded,
    /// It did not, with the outcome for people: `failed`, `cancelled` or what it is stuck at.
    Failed(String),
}

impl AssetRun {
    /// A run that has just started.
    pub fn new(content: Digest, execution: ExecutionId, started: Timestamp) -> Self {
        Self {
            content,
            execution,
            started,
            end: None,
            ended: None,
            succeeded: None,
        }
    }

    /// Notes that it has ended now.
    pub fn ends(&mut self, end: RunEnd, now: Timestamp) {
        if end == RunEnd::Succeeded {
            self.succeeded = Some(Success {
                started: self.started,
                ended: now,
            });
        }
        self.end = Some(end);
        self.ended = Some(now);
    }

    /// Notes that it is live again after its end.
    pub fn is_restarted(&mut self) {
        self.end = None;
        self.ended = None;
    }

    /// Whether the run has not ended.
    pub fn is_live(&self) -> bool {
        self.end.is_none()
    }
}

/// The runs of a workflow for an asset, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Runs {
    /// The wall-clock time of the moment.
    pub at: Timestamp,
    /// The newest run for each content, the last started one last. At most 16.
    pub runs: Vec<AssetRun>,
}

impl Runs {
    /// The runs as of `at`.
    pub fn new(at: Timestamp, runs: Vec<AssetRun>) -> Self {
        Self { at, runs }
    }

    /// The run that has not ended. `None`: none is live.
    pub fn live(&self) -> Option<&AssetRun> {
        self.runs.iter().find(|run| run.is_live())
    }

    /// The newest run for a content. `None`: there was none.
    pub fn of(&self, content: Digest) -> Option<&AssetRun> {
        self.runs.iter().find(|run| run.content == content)
    }
}

/// Asks for a run of a workflow for an asset: joins the live one, or starts one.
///
/// At most one run of a workflow is live for an asset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Join {
    /// The workflow, its input and its labels. The key is not used: the asset is the key.
    pub start: Start,
    /// The asset for which it runs.
    pub asset: AssetId,
    /// Digest of the content for which the workflow runs.
    pub content: Digest,
    /// The reason for which it runs.
    pub cause: StartCause,
    /// Whether the caller asks about a run that it has joined before. If the last run of the asset is for the same content,
    /// its end is the answer; otherwise a new one is started.
    #[serde(default)]
    pub continuation: bool,
    /// Whether the workflow runs again for a content for which it has succeeded before.
    #[serde(default)]
    pub again: bool,
    /// The operation to run under the name of the workflow. The start gets its labels and keeps its own. `None`: the
    /// workflow is a registered one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
}

impl Join {
    /// A run for the content of an asset.
    pub fn new(start: Start, asset: AssetId, content: Digest, cause: StartCause) -> Self {
        Self {
            start,
            asset,
            content,
            cause,
            continuation: false,
            again: false,
            operation: None,
        }
    }

    /// A run for the payload of the asset that is pushed.
    ///
    /// # Errors
    /// If the request has no content.
    pub fn push(start: Start, request: &PushRequest) -> Result<Self, PluginError> {
        let content = content(&request.asset()?);
        let cause = push_of(&request.intent, request.cause);
        let join = Self::new(start, request.intent.id().clone(), content, cause);
        Ok(join.continuation(request.continuation))
    }

    /// A run for the change that is checked.
    pub fn change(start: Start, request: &CheckRequest) -> Self {
        let cause = push_of(&request.intent, request.cause);
        let (asset, content) = (request.intent.id().clone(), request.change.digest);
        Self::new(start, asset, content, cause)
    }

    crate::setters! {
        /// Sets whether the caller asks about a run that it has joined before.
        continuation: bool,
        /// Sets whether the workflow runs again for a content for which it has succeeded before.
        again: bool,
    }

    /// Runs an operation under the name of the workflow.
    #[must_use]
    pub fn operation(mut self, operation: Operation) -> Self {
        self.operation = Some(operation);
        self
    }
}

fn push_of(intent: &AssetIntent, cause: Cause) -> StartCause {
    StartCause::Push {
        asset: intent.id().clone(),
        incarnation: intent.incarnation().no,
        cause,
    }
}

/// The content of an asset that decides whether a workflow has run for it: the digest of its payload. Addons, such as a
/// rollout policy, are not part of it.
pub fn content(asset: &Asset) -> Digest {
    Digest::of(asset.payload_json().as_bytes())
}

/// Runs workflows for assets.
///
/// Of each workflow and asset, the runs for the newest 16 contents are remembered for ever, so that an older content which
/// succeeded is not run again by a rollback, nor one in force when its history is gone.
#[async_trait]
pub trait AssetRuns: Send + Sync + 'static {
    /// The runs of a workflow for an asset.
    ///
    /// # Errors
    /// If this process cannot tell now.
    async fn runs(&self, workflow: &WorkflowName, asset: &AssetId) -> Result<Runs, PluginError>;

    /// Joins the live run, whatever its content, or starts one. Returns once it is durable. A continuation gets the newest
    /// run for its content, if none is live.
    ///
    /// # Errors
    /// If the start does not fit, or this process cannot start anything now.
    async fn join(&self, join: Join) -> Result<AssetRun, PluginError>;

    /// Cancels an execution, with its clean-up. One that has ended, or is being cancelled, is left as it is.
    ///
    /// # Errors
    /// If this process cannot tell now.
    async fn cancel(&self, execution: &ExecutionId, why: &str) -> Result<(), PluginError>;
}

#[async_trait]
impl<T: AssetRuns + ?Sized> AssetRuns for Arc<T> {
    async fn runs(&self, workflow: &WorkflowName, asset: &AssetId) -> Result<Runs, PluginError> {
        (**self).runs(workflow, asset).await
    }

    async fn join(&self, join: Join) -> Result<AssetRun, PluginError> {
        (**self).join(join).await
    }

    async fn cancel(&self, execution: &ExecutionId, why: &str) -> Result<(), PluginError> {
        (**self).cancel(execution, why).await
    }
}
