//! The plugin for the balancers of clusters. Each balancer is a child process of its cell.

use control_plane::prelude::{
    Asset, AssetPlugin, Diff, DiffRequest, Effects, Observed, PushRequest, Pushed, Transition,
    Turndown, async_trait, plugin,
};
use testbed::{
    cells::{Cells, caller, pushed, unchanged, unseen},
    production::{
        JOB,
        api::{BalancerSpec, BalancerView, State},
    },
};

use super::{differs, fields, in_sync, leaves, misread, under_way};
use crate::model::{LoadBalancer, balancer_unit, cluster_of, job_unit};

/// Asset plugin for the balancers of clusters.
#[derive(Debug, Clone)]
pub struct Balancers {
    cells: Cells,
}

impl Balancers {
    /// Creates the plugin for the balancers of `cells`.
    pub fn new(cells: Cells) -> Self {
        Self { cells }
    }
}

fn spec(asset: &Asset) -> Result<BalancerSpec, plugin::Error> {
    let payload: LoadBalancer = asset.payload().map_err(misread)?;
    Ok(BalancerSpec {
        max_capacity: payload.max_capacity,
        jobs: vec![JOB.into()],
        cells: Default::default(),
    })
}

#[async_trait]
impl AssetPlugin for Balancers {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let caller = caller(request.token, request.run, request.incarnation());
        let there = match self.cells.find(cluster_of(request.asset_id())).await? {
            Some(cell) => cell.balancer(&caller).await.map_err(unseen)?,
            None => None,
        };
        let wanted = match leaves(&asset) {
            true => None,
            false => Some(spec(&asset)?),
        };
        Ok(compare(&asset, wanted.as_ref(), there.as_ref()))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let spec = spec(&request.asset()?)?;
        let caller = caller(request.token, request.run, request.incarnation());
        let cell = self.cells.ensure(cluster_of(request.asset_id())).await?;
        let progress = cell.put_balancer(&spec, &caller).await;
        progress.map(pushed).map_err(unchanged)
    }
}

#[async_trait]
impl Turndown for Balancers {
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let caller = caller(request.token, request.run, request.incarnation());
        let Some(cell) = self.cells.find(cluster_of(request.asset_id())).await? else {
            return Ok(Pushed::Done);
        };
        let progress = cell.delete_balancer(&caller).await;
        progress.map(pushed).map_err(unchanged)
    }
}

/// Compares a balancer with production. A balancer takes its capacity of its job and provides the same amount to the
/// global balancer. `wanted` is none for a turndown, `there` is none if production has no balancer.
pub(super) fn compare(
    asset: &Asset,
    wanted: Option<&BalancerSpec>,
    there: Option<&BalancerView>,
) -> Diff {
    let asset_id = asset.id();
    let cluster = cluster_of(&asset_id);
    if there.is_some_and(|view| view.leaving || view.state == State::Changing) {
        return under_way();
    }
    let now = there.map_or(0, |view| u64::from(view.max_capacity_in_force));
    let units = [job_unit(cluster), balancer_unit(cluster)];
    let observed = Observed::default()
        .capacity(&units[0], now)
        .capacity(&units[1], now);
    let spec = there.map(|view| &view.spec);
    if spec == wanted {
        return in_sync(observed);
    }
    let to = wanted.map_or(0, |spec| u64::from(spec.max_capacity));
    let effects = Effects {
        capacity: units
            .map(|unit| (unit, Transition { from: now, to }))
            .into(),
        ..Effects::default()
    };
    let summary = match (spec, wanted) {
        (None, _) => format!("start it, for {to} requests in flight"),
        (_, None) => "stop it".into(),
        _ => format!("from {now} to {to} requests in flight"),
    };
    differs(asset, summary, fields(spec, wanted), effects, observed)
}
