//! Runs of workflows for assets: at most one of a workflow is live for an asset (R40).

use std::sync::Arc;

use jiff::Timestamp;
use plugin_sdk::{
    By, Now,
    operation::{AssetRun, ExecutionId, Join, RunEnd},
    workflow::WorkflowName,
};

use super::{
    Lane,
    event::{Effects, Reply},
    refused::Refused,
    start::Starting,
    state::Execution,
};
use crate::{definition::Outcome, operation::Operated, record::KeyRecord};

/// Number of contents of an asset whose newest runs are remembered (R41).
const CONTENTS: usize = 16;

impl Lane {
    /// Joins the live run of a workflow for an asset, or starts one. If none is live, a continuation gets the last run, and
    /// others one that has succeeded, if it is for their content.
    pub(super) fn join(
        &mut self,
        now: Now,
        join: Join,
        operation: Option<Box<Operated>>,
        by: &By,
        known: Option<Box<KeyRecord>>,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        let mut start = match &operation {
            Some(operation) => operation.labelled(join.start),
            None => join.start,
        };
        start.key = Some(KeyRecord::of_asset(&join.asset));
        start.check()?;
        let name = (start.workflow.clone(), KeyRecord::of_asset(&join.asset));
        let runs = self.runs_of(&name, known);
        let live = runs.iter().find(|run| run.is_live());
        let same = runs.iter().find(|run| run.content == join.content);
        let last = runs.last().filter(|run| run.content == join.content);
        let ended = match join.continuation {
            true => last,
            false => same.filter(|run| run.end == Some(RunEnd::Succeeded) && !join.again),
        };
        if let Some(found) = live.or(ended) {
            return Ok(Reply::Joined(Box::new(found.clone())));
        }
        let (workflow, operation) = match operation {
            Some(_) if self.settings.workflows.contains_key(&start.workflow) => {
                return Err(Refused::NameTaken(start.workflow));
            }
            Some(operation) => (operation.workflow, Some(operation.digest)),
            None => {
                let workflow = self.settings.workflows.get(&start.workflow).cloned();
                let workflow = workflow.ok_or_else(|| self.no_workflow(&start.workflow))?;
                (workflow, None)
            }
        };
        let mut run = AssetRun::new(join.content, self.next_id(&start.workflow), now.wall);
        run.succeeded = same.and_then(|before| before.succeeded);
        let starting = Starting {
            start,
            workflow,
            operation,
            cause: join.cause,
            chain: Vec::new(),
            changed: None,
            history: None,
            runs: with_next(runs, run.clone()),
        };
        self.start_new(now, starting, by, out)?;
        Ok(Reply::Joined(Box::new(run)))
    }

    /// The live execution that has this key.
    pub(super) fn live_under(&self, name: &(WorkflowName, Arc<str>)) -> Option<&Execution> {
        self.live.get(self.keys.get(name)?).map(|it| &**it)
    }

    /// The runs under the key of an asset: those of the live execution, else as the store knows them.
    pub(super) fn runs_of(
        &self,
        name: &(WorkflowName, Arc<str>),
        known: Option<Box<KeyRecord>>,
    ) -> Vec<AssetRun> {
        let live = self.live_under(name);
        match (live, self.recent.get(name), known) {
            (Some(live), ..) => live.about.runs.clone(),
            (None, Some(recent), _) => recent.runs.clone(),
            (None, None, known) => known.map(|known| known.runs).unwrap_or_default(),
        }
    }
}

impl Execution {
    /// Notes in the runs of its asset that it has ended.
    pub(super) fn run_ended(&mut self, outcome: &Outcome, now: Timestamp) {
        let mut runs = self.about.runs.iter_mut();
        if let Some(run) = runs.find(|it| it.execution == self.id) {
            let end = match outcome {
                Outcome::Succeeded => RunEnd::Succeeded,
                other => RunEnd::Failed(other.to_string()),
            };
            run.ends(end, now);
        }
    }
}

/// The runs before, and the next one: at most one for each content, and not more than are remembered.
fn with_next(mut runs: Vec<AssetRun>, next: AssetRun) -> Vec<AssetRun> {
    runs.retain(|run| run.content != next.content);
    let surplus = (runs.len() + 1).saturating_sub(CONTENTS);
    runs.drain(..surplus);
    runs.push(next);
    runs
}

/// Notes that the run of an ended execution is live again, and so the last one.
pub(super) fn live_again(runs: &mut Vec<AssetRun>, execution: &ExecutionId) {
    if let Some(at) = runs.iter().position(|run| run.execution == *execution) {
        let mut run = runs.remove(at);
        run.is_restarted();
        runs.push(run);
    }
}
