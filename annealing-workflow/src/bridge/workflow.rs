//! An asset whose production is the outcome of a workflow.

use std::sync::Arc;

use async_trait::async_trait;
use plugin_sdk::{
    AssetPlugin, Diff, DiffRequest, PushRequest, Pushed, Turndown,
    operation::{AssetRuns, Join, Start},
    plugin,
    workflow::WorkflowName,
};

use super::Bridge;

/// Runs a workflow once for each payload of an asset, with the payload as its input.
///
/// The asset is in sync when a run for its payload has succeeded. A run that failed is a failed push, so the next one comes
/// as for any plugin. While a run for an older payload is live, its end is waited for.
#[derive(Clone)]
pub struct WorkflowPlugin {
    bridge: Bridge,
    start: Start,
}

impl WorkflowPlugin {
    /// Runs `workflow`, in these executions.
    pub fn of(workflow: impl Into<WorkflowName>, executions: impl AssetRuns) -> Self {
        Self {
            bridge: Bridge(Arc::new(executions)),
            start: Start::of(workflow),
        }
    }

    /// Adds a label of the executions, by which dispatch layers tell them apart.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.start = self.start.label(name, value);
        self
    }
}

#[async_trait]
impl AssetPlugin for WorkflowPlugin {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.bridge
            .diff(&self.start.workflow, &request, |_, _, run| {
                Ok(run.succeeded.map(|_| Diff::in_sync()))
            })
            .await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let start = self.start.clone().input_of(&request.asset()?)?;
        self.bridge.push(Join::push(start, &request)?).await
    }
}

#[async_trait]
impl Turndown for WorkflowPlugin {
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.bridge.turndown(&self.start.workflow, &request).await
    }
}

impl std::fmt::Debug for WorkflowPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkflowPlugin")
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
