//! Words for what starts executions: schedules, watches and workflows.

use control_plane_runtime::Runtime;
use plugin_sdk::{By, operation::ExecutionId, workflow::WorkflowName};
use prodspec_model::AssetId;

use super::{AskError, Handle};
use crate::{
    kernel::{Command, Reply, ScheduleWord, WorkflowWord},
    view::{Drained, ScheduleState, WatchState},
};

impl<R: Runtime> Handle<R> {
    /// All schedules, sorted by asset: the next slot of each, what runs, and what became of the slots before.
    ///
    /// # Errors
    /// When the workflows are not running in this process.
    pub async fn schedules(&self) -> Result<Vec<ScheduleState>, AskError> {
        let command = Command::ShowSchedules;
        match self.command(command, By::default(), None).await? {
            Reply::Schedules(all) => Ok(all),
            _ => Err(self.no_answer()),
        }
    }

    /// Gives a word to the schedule of an asset. Returns once it is durable.
    ///
    /// # Errors
    /// When the asset has no schedule, or the word does not fit it now.
    pub async fn say_to_schedule(
        &self,
        asset: &AssetId,
        word: ScheduleWord,
        by: By,
    ) -> Result<(), AskError> {
        self.command(Command::Schedule(asset.clone(), word), by, None)
            .await?;
        Ok(())
    }

    /// Starts a run of the schedule of an asset now, beside its slots. Returns its execution once it is durable.
    ///
    /// # Errors
    /// When the asset has no schedule, it is paused, or a run of it is live and its concurrency is not `Allow`.
    pub async fn run_schedule(&self, asset: &AssetId, by: By) -> Result<ExecutionId, AskError> {
        let command = Command::Schedule(asset.clone(), ScheduleWord::Run);
        match self.command(command, by, None).await? {
            Reply::Started { id, .. } => Ok(id),
            _ => Err(self.no_answer()),
        }
    }

    /// All watches, sorted by asset: what each has taken, what waits and what runs.
    ///
    /// # Errors
    /// When the workflows are not running in this process.
    pub async fn watches(&self) -> Result<Vec<WatchState>, AskError> {
        let command = Command::ShowWatches;
        match self.command(command, By::default(), None).await? {
            Reply::Watches(all) => Ok(all),
            _ => Err(self.no_answer()),
        }
    }

    /// Gives a word to the watch of an asset. Returns once it is durable.
    ///
    /// # Errors
    /// When the asset has no watch, or the word does not fit it now.
    pub async fn say_to_watch(
        &self,
        asset: &AssetId,
        word: ScheduleWord,
        by: By,
    ) -> Result<(), AskError> {
        self.command(Command::Watch(asset.clone(), word), by, None)
            .await?;
        Ok(())
    }

    /// The workflows that are drained, by name.
    ///
    /// # Errors
    /// When the workflows are not running in this process.
    pub async fn drained(&self) -> Result<Vec<Drained>, AskError> {
        let command = Command::ShowDrained;
        match self.command(command, By::default(), None).await? {
            Reply::Drained(all) => Ok(all),
            _ => Err(self.no_answer()),
        }
    }

    /// Gives a word to a workflow. Returns once it is durable.
    ///
    /// # Errors
    /// When no workflow has the name and no execution of it is live, or the word does not fit it now.
    pub async fn say_to_workflow(
        &self,
        workflow: &WorkflowName,
        word: WorkflowWord,
        by: By,
    ) -> Result<(), AskError> {
        self.command(Command::Workflow(workflow.clone(), word), by, None)
            .await?;
        Ok(())
    }
}
