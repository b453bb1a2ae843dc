//! The plugin for jobs: the frontends of one cluster, which its cell runs.

use control_plane::prelude::{
    Asset, AssetPlugin, Diff, DiffRequest, Effects, Observed, PushRequest, Pushed, Turndown,
    async_trait, plugin,
};
use testbed::{
    cells::{Cells, caller, pushed, unchanged, unseen},
    production::{
        JOB,
        api::{JobSpec, JobView, State},
    },
};

use super::{differs, fields, in_sync, leaves, misread, under_way};
use crate::model::{FrontendJob, cluster_of, job_unit};

/// Asset plugin for jobs.
#[derive(Debug, Clone)]
pub struct Jobs {
    cells: Cells,
}

impl Jobs {
    /// Creates the plugin for the jobs of `cells`.
    pub fn new(cells: Cells) -> Self {
        Self { cells }
    }
}

#[async_trait]
impl AssetPlugin for Jobs {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let caller = caller(request.token, request.run, request.incarnation());
        let there = match self.cells.find(cluster_of(request.asset_id())).await? {
            Some(cell) => cell.job(JOB, &caller).await.map_err(unseen)?,
            None => None,
        };
        let wanted = match leaves(&asset) {
            true => None,
            false => Some(asset.payload::<FrontendJob>().map_err(misread)?.spec()),
        };
        Ok(compare(&asset, wanted.as_ref(), there.as_ref()))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let asset = request.asset()?;
        let spec = asset.payload::<FrontendJob>().map_err(misread)?.spec();
        let caller = caller(request.token, request.run, request.incarnation());
        let cell = self.cells.ensure(cluster_of(request.asset_id())).await?;
        let progress = cell.put_job(JOB, &spec, &caller).await;
        progress.map(pushed).map_err(unchanged)
    }
}

#[async_trait]
impl Turndown for Jobs {
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let caller = caller(request.token, request.run, request.incarnation());
        let Some(cell) = self.cells.find(cluster_of(request.asset_id())).await? else {
            return Ok(Pushed::Done);
        };
        let progress = cell.delete_job(JOB, &caller).await;
        progress.map(pushed).map_err(unchanged)
    }
}

/// Compares a job with production. `wanted` is none for a turndown, `there` is none if production has no job.
///
/// While the cell works on the wanted specification, the result is "in progress". While it works on another one, the
/// result is a difference, so that a push can replace it at any time.
pub(super) fn compare(asset: &Asset, wanted: Option<&JobSpec>, there: Option<&JobView>) -> Diff {
    let unit = job_unit(cluster_of(&asset.id()));
    let capacity = there.map_or(0, |view| u64::from(view.capacity_in_force));
    let schema = there.map(needed_schema);
    let observed = Observed::default()
        .capacity(unit.clone(), capacity)
        .version(schema);
    let spec = there.map(|view| &view.spec);
    match there {
        None if wanted.is_none() => return in_sync(observed),
        Some(view) if view.leaving => return under_way(),
        Some(view) if spec == wanted => {
            let there = view.state == State::Stable && capacity == u64::from(view.spec.capacity());
            return if there {
                in_sync(observed)
            } else {
                under_way()
            };
        }
        _ => {}
    }
    let to = wanted.map_or(0, |spec| spec.capacity().into());
    let effects = Effects::default()
        .capacity(unit, capacity, to)
        .version(schema, wanted.map(|spec| spec.schema.into()));
    let summary = match (spec, wanted) {
        (None, Some(to)) => format!("start {} tasks of version {}", to.replicas, to.version),
        (Some(from), None) => format!("stop {} tasks of version {}", from.replicas, from.version),
        (Some(from), Some(to)) if from.same_task(to) => {
            format!("from {} to {} tasks", from.replicas, to.replicas)
        }
        _ => "replace the tasks one by one".into(),
    };
    differs(asset, summary, fields(spec, wanted), effects, observed)
}

/// Returns the newest schema that a task of the job needs, including tasks that are not started yet.
fn needed_schema(view: &JobView) -> u64 {
    let running = view.tasks.iter().map(|task| task.schema);
    running.fold(view.spec.schema, u32::max).into()
}
