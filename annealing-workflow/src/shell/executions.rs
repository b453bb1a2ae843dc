//! The executions of a partition for programs that exist before the lane runs, such as asset plugins.

use std::sync::Arc;

use async_trait::async_trait;
use control_plane_runtime::Runtime;
use plugin_sdk::{
    By,
    operation::{AssetRun, AssetRuns, ExecutionId, Join, Runs},
    plugin, with_causes,
    workflow::WorkflowName,
};
use prodspec_model::AssetId;
use tokio::sync::watch;

use super::{AskError, Handle};
use crate::kernel::Say;

/// The executions of a partition in this process, now and after each takeover. Cheap to clone.
///
/// Plugins, checks and functions are registered before anything runs; with this, they start executions later. A question
/// waits while no lane is running, for as long as its caller does.
pub struct Executions<R>(Arc<watch::Sender<Option<Handle<R>>>>);

impl<R> Clone for Executions<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R> Default for Executions<R> {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl<R: Runtime> Executions<R> {
    /// Sets the lane that answers from now on. `None`: none is running.
    pub fn set(&self, lane: Option<Handle<R>>) {
        self.0.send_replace(lane);
    }

    /// The handle to the running lane. `None`: none is running in this process.
    pub fn running(&self) -> Option<Handle<R>> {
        self.0.borrow().clone()
    }

    /// Waits until no lane is running in this process.
    pub async fn stopped(&self) {
        // The sender is in `self`, so it lives.
        let _ = self.0.subscribe().wait_for(Option::is_none).await;
    }

    /// The handle to the lane, as soon as one is running in this process.
    pub async fn handle(&self) -> Handle<R> {
        let mut lanes = self.0.subscribe();
        loop {
            let running = lanes.borrow_and_update().clone();
            match running {
                Some(lane) => return lane,
                None => drop(lanes.changed().await),
            }
        }
    }
}

#[async_trait]
impl<R: Runtime> AssetRuns for Executions<R> {
    async fn runs(&self, workflow: &WorkflowName, asset: &AssetId) -> Result<Runs, plugin::Error> {
        let runs = self.handle().await.runs(workflow, asset).await;
        runs.map_err(plugin_error)
    }

    async fn join(&self, join: Join) -> Result<AssetRun, plugin::Error> {
        let by = By::new("control plane", join.cause.to_string());
        let joined = self.handle().await.join(join, by).await;
        joined.map_err(plugin_error)
    }

    async fn cancel(&self, execution: &ExecutionId, why: &str) -> Result<(), plugin::Error> {
        let by = By::new("control plane", why);
        match self.handle().await.say(execution, Say::Cancel, by).await {
            Err(AskError::Refused(crate::kernel::Refused::NotLive(_))) => Ok(()),
            said => said.map_err(plugin_error),
        }
    }
}

/// What is refused stays refused until something is changed; the rest passes by itself.
fn plugin_error(error: AskError) -> plugin::Error {
    let refused = match &error {
        AskError::Refused(refused) => !refused.passes(),
        AskError::Operation(_) => true,
        _ => false,
    };
    let why = with_causes(&error);
    match refused {
        true => plugin::Error::permanent(why),
        false => plugin::Error::transient(why),
    }
}

impl<R> std::fmt::Debug for Executions<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executions").finish_non_exhaustive()
    }
}
