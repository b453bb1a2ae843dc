//! Batch jobs as intent: what must not be older than its asset says.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::SignedDuration;
use plugin_sdk::{
    AssetPlugin, Diff, DiffRequest, PushRequest, Pushed, Turndown,
    operation::{AssetRuns, Join, Start},
    plugin,
    workflow::WorkflowName,
};
use prodspec_model::Message;

use super::Bridge;

type Within<T> = Arc<dyn Fn(&T) -> Duration + Send + Sync>;

/// Runs a workflow again and again, so that what it makes is never older than an asset of type `T` says.
///
/// The asset is in sync until the start of the last run that succeeded is longer ago than [`within`](Self::within) says, and
/// is looked at again at that moment. Another payload is due at once. The input of a run is the payload.
///
/// Without [`within`](Self::within) it is due once for each payload.
pub struct FreshPlugin<T> {
    bridge: Bridge,
    start: Start,
    within: Within<T>,
}

impl<T: Message> FreshPlugin<T> {
    /// Runs `workflow`, in these executions.
    pub fn of(workflow: impl Into<WorkflowName>, executions: impl AssetRuns) -> Self {
        Self {
            bridge: Bridge(Arc::new(executions)),
            start: Start::of(workflow),
            within: Arc::new(|_| Duration::MAX),
        }
    }

    /// Adds a label of the executions, by which dispatch layers tell them apart.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.start = self.start.label(name, value);
        self
    }

    /// Sets the time after the start of a run that succeeded within which the next one is not due. Let it be longer than
    /// a run takes.
    #[must_use]
    pub fn within(mut self, within: impl Fn(&T) -> Duration + Send + Sync + 'static) -> Self {
        self.within = Arc::new(within);
        self
    }
}

#[async_trait]
impl<T: Message> AssetPlugin for FreshPlugin<T> {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.bridge
            .diff(&self.start.workflow, &request, |asset, runs, run| {
                // A clock that ran ahead then must not make it fresh for as long.
                let started = run.succeeded.map(|it| it.started);
                let Some(started) = started.filter(|at| *at <= runs.at) else {
                    return Ok(None);
                };
                let payload = asset.payload::<T>();
                let payload =
                    payload.map_err(|error| plugin::Error::permanent(error.to_string()))?;
                let within = SignedDuration::try_from((self.within)(&payload));
                let due = within.ok().and_then(|it| started.checked_add(it).ok());
                Ok(match due {
                    None => Some(Diff::in_sync()),
                    Some(due) if runs.at < due => Some(Diff::in_sync().look_again_at(due)),
                    Some(_) => None,
                })
            })
            .await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let start = self.start.clone().input_of(&request.asset()?)?;
        self.bridge
            .push(Join::push(start, &request)?.again(true))
            .await
    }
}

#[async_trait]
impl<T: Message> Turndown for FreshPlugin<T> {
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.bridge.turndown(&self.start.workflow, &request).await
    }
}

impl<T> Clone for FreshPlugin<T> {
    fn clone(&self) -> Self {
        Self {
            bridge: self.bridge.clone(),
            start: self.start.clone(),
            within: self.within.clone(),
        }
    }
}

impl<T> std::fmt::Debug for FreshPlugin<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FreshPlugin")
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
