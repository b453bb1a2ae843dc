//! The check of [`SucceededLayer`](super::SucceededLayer).

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{
    BoxError, CheckInfo, CheckName, CheckPlugin, CheckRequest, Verdict,
    operation::{AssetRuns, Join, RunEnd, Start},
    workflow::WorkflowName,
};
use prodspec_model::{Message, addons::Turndown};
use serde_json::json;

use crate::Types;

/// Time after which a run does not count any more, unless it is set. Short, because the same change may come again: what
/// was made anew and filled since then is not in the backup.
const WITHIN: Duration = Duration::from_secs(3600);
/// Time between two looks at a run.
const LOOK: Duration = Duration::from_secs(5);

/// Runs a workflow for a change, and delays the change until it has succeeded. Applies to every cause.
#[derive(Clone)]
pub struct Succeeded {
    name: CheckName,
    start: Start,
    runs: Arc<dyn AssetRuns>,
    types: Types,
    every: bool,
    within: Duration,
}

impl Succeeded {
    /// Makes a check named `name` that runs `workflow`.
    pub fn new(name: &str, workflow: impl Into<WorkflowName>, executions: impl AssetRuns) -> Self {
        Self {
            name: name.into(),
            start: Start::of(workflow),
            runs: Arc::new(executions),
            types: Types::default(),
            every: false,
            within: WITHIN,
        }
    }

    /// Adds a label of the executions, by which dispatch layers tell them apart.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.start = self.start.label(name, value);
        self
    }

    /// Applies only to assets of these types.
    #[must_use]
    pub fn only(self, types: Types) -> Self {
        Self { types, ..self }
    }

    /// Applies to every change, not to turndowns and destructive changes alone.
    #[must_use]
    pub fn every_change(self) -> Self {
        Self {
            every: true,
            ..self
        }
    }

    /// Sets the time after the end of a run for which it counts. Default one hour. After it, a change that still waits
    /// gets another run. The same change of an asset that was made anew within this time counts as the same.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    fn applies(&self, request: &CheckRequest) -> bool {
        let turned_down = || match request.reader().get(request.asset_id()) {
            Some(asset) => asset.has_addon(Turndown::TYPE),
            None => true,
        };
        let lossy = self.every || request.change.effects.destructive || turned_down();
        lossy && self.types.apply(request)
    }

    /// Whether a run that ended then counts now.
    fn counts(&self, ended: Timestamp, now: Timestamp) -> bool {
        let within = SignedDuration::try_from(self.within).ok();
        let until = within.and_then(|within| ended.checked_add(within).ok());
        // A clock that ran ahead then must not make it count for as long.
        ended <= now && until.is_none_or(|until| now < until)
    }

    fn start(&self, request: &CheckRequest) -> Start {
        self.start.clone().input(json!({
            "asset": request.asset_id(),
            "change": request.change.digest,
            "summary": request.change.summary,
        }))
    }
}

#[async_trait]
impl CheckPlugin for Succeeded {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.name.clone())
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        if !self.applies(&request) {
            return Ok(request.proceed());
        }
        let workflow = &self.start.workflow;
        let runs = self.runs.runs(workflow, request.asset_id()).await?;
        let wait = |why: String| Ok(request.delay(why).recheck_after(LOOK));
        if let Some(live) = runs.live() {
            return wait(format!("{} has not ended", live.execution));
        }
        let run = runs.of(request.change.digest);
        if let Some(success) = run.and_then(|run| run.succeeded)
            && self.counts(success.ended, runs.at)
        {
            return Ok(request.proceed());
        }
        if let Some(run) = run
            && let Some(RunEnd::Failed(why)) = &run.end
            && run.ended.is_some_and(|ended| self.counts(ended, runs.at))
        {
            let execution = &run.execution;
            return wait(format!("{execution} {why}; mend the cause and restart it"));
        }
        let join = Join::change(self.start(&request), &request).again(true);
        let run = self.runs.join(join).await?;
        wait(format!("{} has not ended", run.execution))
    }
}

impl std::fmt::Debug for Succeeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Succeeded")
            .field("name", &self.name)
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}
