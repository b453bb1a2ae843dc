//! Operations, schedules and watches, as programs talk to them.

use std::sync::Arc;

use annealing_workflow::{Workflows, operation, watch};
use control_plane_runtime::Runtime;
use plugin_sdk::{AssetView, Problems, Validator, workflow::WorkflowName};
use prodspec_model::{
    AssetId, Message,
    operation::{CronOperation, Limits, Operation, WatchOperation},
};

use super::{Drained, ExecutionId, ScheduleState, ScheduleWord, Started, WatchState, WorkflowWord};
use crate::{
    By,
    handle::{self, Handle},
};

/// Refuses operations, schedules and watches that cannot run with the registered functions, and limits that cannot hold. It
/// is there whatever other validators are: what is sealed runs.
pub(super) struct Operations<R>(pub(super) Arc<Workflows<R>>);

impl<R: Runtime> Validator for Operations<R> {
    fn name(&self) -> &str {
        "operations"
    }

    fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let function = |name: &str| self.0.function(name);
        let asset = view.asset();
        let read = match asset.type_str() {
            CronOperation::TYPE => asset.payload::<CronOperation>().map(|content| {
                operation::valid(&content, view, problems, function);
            }),
            WatchOperation::TYPE => asset.payload::<WatchOperation>().map(|content| {
                watch::valid(&content, view, problems, function);
            }),
            Operation::TYPE => asset.payload::<Operation>().map(|content| {
                operation::valid_operation(&content, view, problems, function);
            }),
            Limits::TYPE => asset.payload::<Limits>().map(|limits| {
                for (field, why) in limits.problems() {
                    problems.push(view.problem(why).field(format!("payload.{field}")));
                }
            }),
            _ => Ok(()),
        };
        if let Err(error) = read {
            problems.push(view.problem(error));
        }
    }
}

/// Operations, schedules and watches. Needs the feature `workflows`.
impl<R: Runtime> Handle<R> {
    /// Runs an operation under a name, once per key: the same key is the same execution, over restarts too. Returns once it
    /// is durable. The execution is that of a workflow: wait for it, show it, and give it words like any other. It has the
    /// labels of the operation. Works in every process that has the store, as [`start`](Self::start) does.
    ///
    /// # Errors
    /// If the operation has a problem, such as a function that is not registered, or has the name of a registered workflow;
    /// if the key has started another operation; if there is no incarnation yet, or the owner has not answered.
    pub async fn run_operation(
        &self,
        name: impl Into<WorkflowName>,
        operation: &Operation,
        key: impl Into<Arc<str>>,
        by: By,
    ) -> Result<Started, handle::Error> {
        match self.here().await? {
            Some(lane) => Ok(lane.run_operation(name, operation, key, by).await?),
            None => Ok(self.inbox().run_operation(name, operation, key, by).await?),
        }
    }

    /// All schedules, sorted by asset: the next slot of each, what runs, what became of the slots before, and whether it is
    /// an orphan, whose asset has left intent.
    ///
    /// # Errors
    /// If there is no incarnation yet, or this process does not own the partition.
    pub async fn schedules(&self) -> Result<Vec<ScheduleState>, handle::Error> {
        Ok(self.lane().await?.schedules().await?)
    }

    /// Pauses or resumes the schedule of an asset, or acknowledges that its asset is meant to be gone. Returns once it is
    /// durable. Works in every process that has the store, as [`start`](Self::start) does.
    ///
    /// # Errors
    /// If the asset has no schedule, the word does not fit it now, or the owner has not answered.
    pub async fn say_to_schedule(
        &self,
        asset: &AssetId,
        word: ScheduleWord,
        by: By,
    ) -> Result<(), handle::Error> {
        match self.here().await? {
            Some(lane) => Ok(lane.say_to_schedule(asset, word, by).await?),
            None => Ok(self.inbox().say_to_schedule(asset, word, by).await?),
        }
    }

    /// Starts a run of the schedule of an asset now, beside its slots, which stay as they are. Returns its execution once it is
    /// durable. Works in every process that has the store, as [`start`](Self::start) does.
    ///
    /// # Errors
    /// If the asset has no schedule, it is paused, or a run of it is live and its concurrency is not `Allow`; if the owner
    /// has not answered.
    pub async fn run_schedule(
        &self,
        asset: &AssetId,
        by: By,
    ) -> Result<ExecutionId, handle::Error> {
        match self.here().await? {
            Some(lane) => Ok(lane.run_schedule(asset, by).await?),
            None => Ok(self.inbox().run_schedule(asset, by).await?),
        }
    }

    /// All watches, sorted by asset: what each has taken, what waits, what runs, and whether it is an orphan, whose asset has
    /// left intent.
    ///
    /// # Errors
    /// If there is no incarnation yet, or this process does not own the partition.
    pub async fn watches(&self) -> Result<Vec<WatchState>, handle::Error> {
        Ok(self.lane().await?.watches().await?)
    }

    /// Pauses or resumes the watch of an asset, or acknowledges that its asset is meant to be gone. Returns once it is
    /// durable. Works in every process that has the store, as [`start`](Self::start) does.
    ///
    /// # Errors
    /// If the asset has no watch, the word does not fit it now, or the owner has not answered.
    pub async fn say_to_watch(
        &self,
        asset: &AssetId,
        word: ScheduleWord,
        by: By,
    ) -> Result<(), handle::Error> {
        match self.here().await? {
            Some(lane) => Ok(lane.say_to_watch(asset, word, by).await?),
            None => Ok(self.inbox().say_to_watch(asset, word, by).await?),
        }
    }

    /// The workflows that are drained, by name: no execution of them begins.
    ///
    /// # Errors
    /// If there is no incarnation yet, or this process does not own the partition.
    pub async fn drained(&self) -> Result<Vec<Drained>, handle::Error> {
        Ok(self.lane().await?.drained().await?)
    }

    /// Drains a workflow or resumes it. While it is drained, the executions that have begun go on, and those that are started
    /// wait, over owners, until it is resumed. Returns once it is durable. Works in every process that has the store, as
    /// [`start`](Self::start) does.
    ///
    /// # Errors
    /// If no workflow has the name and no execution of it is live, the word does not fit it now, or the owner has not
    /// answered.
    pub async fn say_to_workflow(
        &self,
        workflow: &WorkflowName,
        word: WorkflowWord,
        by: By,
    ) -> Result<(), handle::Error> {
        match self.here().await? {
            Some(lane) => Ok(lane.say_to_workflow(workflow, word, by).await?),
            None => Ok(self.inbox().say_to_workflow(workflow, word, by).await?),
        }
    }
}
