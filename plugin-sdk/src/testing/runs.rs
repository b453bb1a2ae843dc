//! Runs of workflows that a test ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::AssetId;

use crate::{
    error::PluginError,
    operation::{AssetRun, AssetRuns, ExecutionId, Join, RunEnd, Runs},
    workflow::WorkflowName,
};

/// An [`AssetRuns`] for one asset whose runs the test ends, on a clock that the test sets. Clones share their state.
#[derive(Debug, Clone)]
pub struct FakeRuns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    at: Timestamp,
    runs: Vec<AssetRun>,
    joins: Vec<Join>,
    cancelled: Vec<ExecutionId>,
}

impl FakeRuns {
    /// No runs yet; the time is `at`.
    pub fn new(at: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(State {
            at,
            runs: Vec::new(),
            joins: Vec::new(),
            cancelled: Vec::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the time of the clock, which stands still otherwise.
    pub fn set_time(&self, at: Timestamp) {
        self.state().at = at;
    }

    /// Ends the live run, if there is one.
    pub fn end(&self, end: RunEnd) {
        let mut state = self.state();
        let state = &mut *state;
        for run in state.runs.iter_mut().filter(|run| run.is_live()) {
            run.ends(end.clone(), state.at);
        }
    }

    /// All joins so far, in order.
    pub fn joins(&self) -> Vec<Join> {
        self.state().joins.clone()
    }

    /// All cancelled executions, in order.
    pub fn cancelled(&self) -> Vec<ExecutionId> {
        self.state().cancelled.clone()
    }
}

#[async_trait]
impl AssetRuns for FakeRuns {
    async fn runs(&self, _: &WorkflowName, _: &AssetId) -> Result<Runs, PluginError> {
        let state = self.state();
        Ok(Runs::new(state.at, state.runs.clone()))
    }

    async fn join(&self, join: Join) -> Result<AssetRun, PluginError> {
        let mut state = self.state();
        let state = &mut *state;
        state.joins.push(join.clone());
        let live = state.runs.iter().find(|run| run.is_live());
        let same = state.runs.iter().find(|run| run.content == join.content);
        let ended = same
            .filter(|run| join.continuation || run.end == Some(RunEnd::Succeeded) && !join.again);
        if let Some(found) = live.or(ended) {
            return Ok(found.clone());
        }
        let id = ExecutionId::new(join.start.workflow.clone(), state.joins.len() as u64);
        let mut run = AssetRun::new(join.content, id, state.at);
        if let Some(at) = state.runs.iter().position(|it| it.content == join.content) {
            run.succeeded = state.runs.remove(at).succeeded;
        }
        state.runs.push(run.clone());
        Ok(run)
    }

    async fn cancel(&self, execution: &ExecutionId, _: &str) -> Result<(), PluginError> {
        self.state().cancelled.push(execution.clone());
        Ok(())
    }
}
