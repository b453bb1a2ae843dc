//! The plugin for the global balancer: a child process of the cell `global`, in front of the clusters' balancers.

use std::collections::{BTreeMap, BTreeSet};

use control_plane::prelude::{
    Asset, AssetPlugin, Diff, DiffRequest, Effects, Observed, PushRequest, Pushed, Transition,
    async_trait, plugin,
};
use testbed::{
    cells::{Cells, caller, pushed, unchanged, unseen},
    production::{
        GLOBAL_CELL,
        api::{BalancerSpec, BalancerView, State},
    },
};

use super::{differs, fields, in_sync, misread, under_way};
use crate::model::{GlobalBalancer, balancer_unit, cluster_of};

/// Asset plugin for the global balancer. It supports no turndown, because the service needs this balancer.
#[derive(Debug, Clone)]
pub struct GlobalBalancers {
    cells: Cells,
}

impl GlobalBalancers {
    /// Creates the plugin for the global balancer among `cells`.
    pub fn new(cells: Cells) -> Self {
        Self { cells }
    }
}

fn spec(asset: &Asset) -> Result<BalancerSpec, plugin::Error> {
    let payload: GlobalBalancer = asset.payload().map_err(misread)?;
    let shares = payload.shares.iter();
    Ok(BalancerSpec {
        max_capacity: payload.max_capacity,
        jobs: vec![],
        cells: shares
            .map(|share| (cluster_of(&share.balancer.id).to_owned(), share.capacity))
            .collect(),
    })
}

#[async_trait]
impl AssetPlugin for GlobalBalancers {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let caller = caller(request.token, request.run, request.incarnation());
        let there = match self.cells.find(GLOBAL_CELL).await? {
            Some(cell) => cell.balancer(&caller).await.map_err(unseen)?,
            None => None,
        };
        Ok(compare(&asset, &spec(&asset)?, there.as_ref()))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let spec = spec(&request.asset()?)?;
        let caller = caller(request.token, request.run, request.incarnation());
        let cell = self.cells.ensure(GLOBAL_CELL).await?;
        let progress = cell.put_balancer(&spec, &caller).await;
        progress.map(pushed).map_err(unchanged)
    }
}

/// Compares the global balancer with production. The effects cover all clusters' balancers that it uses now or shall
/// use.
pub(super) fn compare(asset: &Asset, wanted: &BalancerSpec, there: Option<&BalancerView>) -> Diff {
    if there.is_some_and(|view| view.leaving || view.state == State::Changing) {
        return under_way();
    }
    let spec = there.map(|view| &view.spec);
    let nothing = BTreeMap::new();
    let taken = spec.map_or(&nothing, |spec| &spec.cells);
    let share = |cells: &BTreeMap<String, u32>, name: &str| {
        cells.get(name).map_or(0, |share| u64::from(*share))
    };
    let observed = taken.keys().fold(Observed::default(), |observed, name| {
        observed.capacity(balancer_unit(name), share(taken, name))
    });
    if spec == Some(wanted) {
        return in_sync(observed);
    }
    let names: BTreeSet<&String> = taken.keys().chain(wanted.cells.keys()).collect();
    let effects = Effects {
        capacity: names
            .into_iter()
            .map(|name| {
                let (from, to) = (share(taken, name), share(&wanted.cells, name));
                (balancer_unit(name), Transition { from, to })
            })
            .collect(),
        ..Effects::default()
    };
    let summary = match spec {
        None => format!("start it, in front of {} clusters", wanted.cells.len()),
        Some(_) => format!("send requests to {} clusters", wanted.cells.len()),
    };
    differs(
        asset,
        summary,
        fields(spec, Some(wanted)),
        effects,
        observed,
    )
}
