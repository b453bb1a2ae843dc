//! Workflows: guarded state machines whose steps survive any crash, and what programs say to their executions.
//!
//! A workflow is data: [`Machine`]s with guarded actions. It is built once ([`Workflow::new`]), registered with
//! [`ControlPlaneBuilder::workflow`](crate::ControlPlaneBuilder::workflow) beside the functions that it calls, and started with
//! [`Handle::start`]. The page "Write a workflow" shows all of it.
//!
//! Needs the feature `workflows`.

mod builder;
mod explain;
mod operations;

use std::{sync::Arc, time::Duration};

use annealing_enforcer::Handle as Enforcement;
use annealing_workflow::{End, Handle as Lane, Inbox};
use control_plane_runtime::Runtime;
use plugin_sdk::FencingToken;
use serde_json::Value;

pub use annealing_workflow::{
    AskError, Config, Executions, Heard, Listener, Refused, Say, ScheduleWord, Settled, Started,
    WorkflowWord,
    bridge::{FreshPlugin, OperationPlugin, WorkflowPlugin},
    cron::Counts,
    definition::{Definition, Error, Exploration, FalseClause, Outcome, Workflow},
    outlook::{Due, DueWork},
    query::{ExecutionPage, ExecutionQuery, Only},
    record::{EditedAsset, Ended, Entry, FeedPosition, Paused, Subject, Told, What},
    view::{ClaimHolder, Drained, Execution, Holding, ScheduleState, Wait, WaitFor, WatchState},
    watch::WatchCounts,
};
pub use plugin_sdk::{
    Class, Dispatch, DispatchPlugin, DispatchRequest, OperationFunction, Probe,
    operation::{
        Answer, AssetRun, AssetRuns, EffectKey, ExecutionId, Fence, FunctionInfo, FunctionRequest,
        Join, Note, Power, Probed, Ran, Repeat, Required, Requirement, RunEnd, Runs, Start,
        StartCause, from_fn,
    },
    service::{ByCause, DispatchLayer, FunctionService},
    workflow::{
        Action, Guard, Machine, MachineName, StateName, Task, WorkflowName, all, any, cancelled,
        is, not,
    },
};
pub use prodspec_model::operation::{
    Concurrency, CronOperation, History, IntentWatch, Limit, Limits, Operation, Per, PipelineStep,
    Rate, Schedule, StatusIs, StatusWatch, Watch, WatchOperation,
};

pub(crate) use builder::{beside, declare, with_operations};
pub use explain::{CauseOfWait, ExplainedExecution, ParkedStep};
use operations::Operations;

use crate::{
    By,
    handle::{self, Handle},
    port::Port,
    shared::Shared,
};

/// Wait before the lane begins again after it has ended while the partition is still owned.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs executions until the caller drops the future, which happens when the ownership ends.
async fn while_owner<R: Runtime>(
    shared: Arc<Shared<R>>,
    token: FencingToken,
    enforcement: Enforcement<R>,
) {
    let _running = Running(&shared.lanes.executions);
    loop {
        let (attached, handle) = shared
            .lanes
            .workflows
            .attach(token, Arc::new(enforcement.clone()));
        let intent = Arc::new(Port::start(shared.clone(), enforcement.clone()));
        shared.lanes.executions.set(Some(handle));
        match attached.with_edits(intent).run().await {
            End::Drained => return,
            _ => shared.runtime.sleep(AGAIN).await,
        }
    }
}

/// Withdraws the handle to workflows when it is dropped.
struct Running<'s, R: Runtime>(&'s Executions<R>);

impl<R: Runtime> Drop for Running<'_, R> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// Executions of workflows. Needs the feature `workflows`.
impl<R: Runtime> Handle<R> {
    async fn lane(&self) -> Result<Lane<R>, handle::Error> {
        self.here().await?;
        self.part(self.shared.lanes.executions.handle()).await
    }

    /// The lane, if it is running in this process.
    async fn here(&self) -> Result<Option<Lane<R>>, handle::Error> {
        // Executions work on intent, so there are none before the first incarnation. From then on there always is one.
        if !self.shared.incarnations.any().await? {
            return Err(handle::Error::NoIncarnation(self.shared.partition.clone()));
        }
        Ok(self.shared.lanes.running())
    }

    /// Commands to the owner, from a process that does not own the partition.
    fn inbox(&self) -> Inbox<R> {
        self.shared.lanes.workflows.inbox()
    }

    /// Starts an execution, or finds the one that the same key has started. Returns once it is durable.
    ///
    /// Works in every process that has the store, as all commands to workflows do: one that does not own the partition hands
    /// the command to the owner through the store. An owner handles it once, and answers as it does in its own process; that
    /// takes up to 5 s if hints of the store do not reach the owner. If no owner has taken the command for 30 s, it is
    /// withdrawn ([`AskError::Withdrawn`]: nothing was changed, and nothing will be). If one has taken it and has not answered
    /// for another 30 s, it is kept ([`AskError::Unanswered`]): it is handled at most ten minutes after it was given, or never;
    /// the time is told by the clock of the process that gave it, so a clock that is wrong by minutes changes that.
    ///
    /// # Errors
    /// If the start does not fit, such as an unknown workflow or the key of an execution with another input; if there is no
    /// incarnation yet; if the owner has not answered.
    pub async fn start(&self, start: Start, by: By) -> Result<Started, handle::Error> {
        match self.here().await? {
            Some(lane) => Ok(lane.start(start, by).await?),
            None => Ok(self.inbox().start(start, by).await?),
        }
    }

    /// Gives a word to a live execution: cancel, pause, an answer to a question, and so on. Returns once it is durable. Works
    /// in every process that has the store, as [`start`](Self::start) does.
    ///
    /// # Errors
    /// If the word does not fit; the error says what the execution waits for. If the owner has not answered.
    pub async fn say(
        &self,
        execution: &ExecutionId,
        word: Say,
        by: By,
    ) -> Result<(), handle::Error> {
        match self.here().await? {
            Some(lane) => Ok(lane.say(execution, word, by).await?),
            None => Ok(self.inbox().say(execution, word, by).await?),
        }
    }

    /// Waits until an execution has ended.
    ///
    /// # Errors
    /// If it has not ended within this time, there is no such execution, or this process does not own the partition.
    pub async fn wait_execution(
        &self,
        execution: &ExecutionId,
        within: Duration,
    ) -> Result<Ended, handle::Error> {
        Ok(self.lane().await?.wait(execution, within).await?)
    }

    /// A live execution: its machines, and what each of them waits for. `None`: it is not live.
    ///
    /// # Errors
    /// If this process does not own the partition.
    pub async fn execution(
        &self,
        execution: &ExecutionId,
    ) -> Result<Option<Execution>, handle::Error> {
        Ok(self.lane().await?.live(execution).await?)
    }

    /// A page of the live executions that a query asks for, in the order of their numbers. [`ExecutionPage::next`] says where
    /// the next page begins.
    ///
    /// # Errors
    /// If this process does not own the partition.
    pub async fn executions(&self, query: &ExecutionQuery) -> Result<ExecutionPage, handle::Error> {
        Ok(self.lane().await?.live_page(query).await?)
    }

    /// An execution that has ended. `None`: it is live, or is not kept any more.
    ///
    /// # Errors
    /// If the store cannot be read, or this process does not own the partition.
    pub async fn ended_execution(
        &self,
        execution: &ExecutionId,
    ) -> Result<Option<Ended>, handle::Error> {
        Ok(self.lane().await?.ended(execution).await?)
    }

    /// The log of an execution, oldest entry first, as far as it is kept.
    ///
    /// # Errors
    /// If the store cannot be read, or this process does not own the partition.
    pub async fn execution_log(
        &self,
        execution: &ExecutionId,
    ) -> Result<Vec<Entry>, handle::Error> {
        Ok(self.lane().await?.log(execution).await?)
    }

    /// The output that a machine of an execution has left. `None`: it left none.
    ///
    /// # Errors
    /// If the store cannot be read, or this process does not own the partition.
    pub async fn execution_output(
        &self,
        execution: &ExecutionId,
        machine: &MachineName,
    ) -> Result<Option<Value>, handle::Error> {
        Ok(self.lane().await?.output(execution, machine).await?)
    }
}
