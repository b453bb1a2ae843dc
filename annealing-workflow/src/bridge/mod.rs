//! Bridges (R40): asset plugins whose push runs a workflow.
//!
//! | plugin | an asset is in sync | its push |
//! |---|---|---|
//! | [`WorkflowPlugin`] | when a run for its payload has succeeded | runs a registered workflow, with the payload as input |
//! | [`FreshPlugin`] | for a time after the start of a run that succeeded | the same |
//! | [`OperationPlugin`] | when the operation in its payload has succeeded | runs the operation |
//!
//! So calendars, approvals, pins and rollouts hold for what workflows do, and a rollback to older intent runs nothing again
//! that has succeeded. Of one asset, at most one run of a workflow is live: the next one waits for its end. All three are
//! also their own [`Turndown`](plugin_sdk::Turndown): it cancels what runs, with its clean-up.

mod fresh;
mod operation;
#[cfg(test)]
mod tests;
mod workflow;

use std::{sync::Arc, time::Duration};

use plugin_sdk::{
    Change, Diff, DiffRequest, Effects, PushRequest, Pushed,
    operation::{AssetRun, AssetRuns, Join, RunEnd, Runs, content},
    plugin,
    workflow::WorkflowName,
};
use prodspec_model::{Asset, addons};

pub use self::{fresh::FreshPlugin, operation::OperationPlugin, workflow::WorkflowPlugin};

/// Time between two looks at a run.
const LOOK: Duration = Duration::from_secs(5);

/// What the plugins have in common.
#[derive(Clone)]
struct Bridge(Arc<dyn AssetRuns>);

impl Bridge {
    /// Compares an asset with its runs. `fresh`: whether a run that has succeeded still counts.
    async fn diff(
        &self,
        workflow: &WorkflowName,
        request: &DiffRequest,
        fresh: impl FnOnce(&Asset, &Runs, &AssetRun) -> Result<Option<Diff>, plugin::Error>,
    ) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let runs = self.0.runs(workflow, &asset.id()).await?;
        if is_turned_down(&asset)? {
            return Ok(match runs.live() {
                Some(live) => differs(&asset, format!("cancel {}", live.execution)),
                None => Diff::in_sync(),
            });
        }
        if runs.live().is_some() {
            return Ok(Diff::in_progress(LOOK));
        }
        let run = runs.of(content(&asset));
        if let Some(run) = run
            && let Some(diff) = fresh(&asset, &runs, run)?
        {
            return Ok(diff);
        }
        let failed = match run.map(|run| (&run.execution, &run.end)) {
            Some((execution, Some(RunEnd::Failed(why)))) => format!(" again: {execution} {why}"),
            _ => String::new(),
        };
        Ok(differs(&asset, format!("run {workflow}{failed}")))
    }

    /// Joins the run for an asset, or starts it.
    async fn push(&self, join: Join) -> Result<Pushed, plugin::Error> {
        let run = self.0.join(join).await?;
        match run.end {
            None => Ok(Pushed::in_progress(LOOK)),
            Some(RunEnd::Failed(why)) => {
                let why = format!("{} {why}", run.execution);
                Err(plugin::Error::permanent(why))
            }
            Some(_) => Ok(Pushed::Done),
        }
    }

    /// Cancels the live run of an asset, and waits for its end.
    async fn turndown(
        &self,
        workflow: &WorkflowName,
        request: &PushRequest,
    ) -> Result<Pushed, plugin::Error> {
        let runs = self.0.runs(workflow, request.intent.id()).await?;
        let Some(live) = runs.live() else {
            return Ok(Pushed::Done);
        };
        if !request.continuation {
            let why = "its asset is turned down";
            self.0.cancel(&live.execution, why).await?;
        }
        Ok(Pushed::in_progress(LOOK))
    }
}

fn is_turned_down(asset: &Asset) -> Result<bool, plugin::Error> {
    let addon = asset.addon::<addons::Turndown>();
    let addon = addon.map_err(|error| plugin::Error::permanent(error.to_string()))?;
    Ok(addon.is_some())
}

fn differs(asset: &Asset, summary: String) -> Diff {
    Diff::differs(Change::new(asset, summary, Vec::new(), Effects::default()))
}
