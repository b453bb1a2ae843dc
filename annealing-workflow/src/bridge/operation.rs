//! Operations as assets.

use std::sync::Arc;

use async_trait::async_trait;
use plugin_sdk::{
    AssetPlugin, Diff, DiffRequest, PushRequest, Pushed, Turndown,
    operation::{AssetRuns, Join, Start},
    plugin,
    workflow::WorkflowName,
};
use prodspec_model::{AssetId, operation::Operation};

use super::Bridge;
use crate::operation;

/// Runs the operation that is the payload of an asset, once for each payload (R35). The number
/// [`rerun`](Operation::rerun) makes it another payload.
#[derive(Clone)]
pub struct OperationPlugin(Bridge);

impl OperationPlugin {
    /// Runs operations in these executions.
    pub fn new(executions: impl AssetRuns) -> Self {
        Self(Bridge(Arc::new(executions)))
    }
}

#[async_trait]
impl AssetPlugin for OperationPlugin {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let workflow = name(request.intent.id());
        self.0
            .diff(&workflow, &request, |_, _, run| {
                Ok(run.succeeded.map(|_| Diff::in_sync()))
            })
            .await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let operation = request.asset()?.payload::<Operation>();
        let operation = operation.map_err(|error| plugin::Error::permanent(error.to_string()))?;
        let start = Start::of(name(request.intent.id()));
        let join = Join::push(start, &request)?.operation(operation);
        self.0.push(join).await
    }
}

#[async_trait]
impl Turndown for OperationPlugin {
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.0.turndown(&name(request.intent.id()), &request).await
    }
}

/// The name under which the operation of an asset runs.
fn name(asset: &AssetId) -> WorkflowName {
    operation::name_of(asset, "operation")
}

impl std::fmt::Debug for OperationPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperationPlugin").finish_non_exhaustive()
    }
}
