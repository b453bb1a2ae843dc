//! Tests of each rule, on a partition that the test fills.

mod gone;
mod order;
mod rules;
mod version;

use std::sync::Arc;

use futures::executor::block_on;
use jiff::ToSpan;
use plugin_sdk::{
    Change, CheckPlugin, CheckRequest, Diff, Effects, Observed, Recheck, Verdict,
    testing::{self, FakeView, NOW},
};
use prodspec_model::{AssetId, addons::Need};

use super::*;

pub(super) fn id(text: &str) -> AssetId {
    AssetId::new(text).unwrap()
}

pub(super) fn qps() -> Need {
    Need::Capacity { unit: "qps".into() }
}

pub(super) fn capacity(from: u64, to: u64) -> Effects {
    Effects::default().capacity("qps", from, to)
}

pub(super) fn version(from: Option<u64>, to: Option<u64>) -> Effects {
    Effects::default().version(from, to)
}

/// The state of production before a change with these effects.
pub(super) fn before(effects: &Effects) -> Observed {
    let nothing = Observed::default().version(effects.version.and_then(|change| change.from));
    let froms = effects.capacity.iter();
    froms.fold(nothing, |it, (unit, change)| it.capacity(unit, change.from))
}

pub(super) fn differs(asset: &str, effects: Effects) -> Diff {
    let observed = before(&effects);
    let change = Change::new(&testing::asset(asset), "change it", vec![], effects);
    Diff::differs(change).observed(observed)
}

pub(super) fn in_sync(effects: Effects) -> Diff {
    Diff::in_sync().observed(before(&effects))
}

/// A partition with the edges `(consumer, provider, need)`.
pub(super) fn partition(edges: &[(&str, &str, Need)], diffs: Vec<(&str, Diff)>) -> Arc<FakeView> {
    let view = FakeView::new(NOW - 10.seconds());
    for (consumer, provider, need) in edges {
        view.edge(&id(consumer), &id(provider), need.clone());
    }
    for (asset, diff) in diffs {
        view.set(&id(asset), diff);
    }
    Arc::new(view)
}

/// A request for a push of `asset`, which is as `observed` now, with these effects.
pub(super) fn request(asset: &str, observed: Observed, effects: Effects) -> CheckRequest {
    let asset = testing::asset(asset);
    let mut request = testing::check_request(&asset);
    request.observed = observed;
    request.change = Arc::new(Change::new(&asset, "change it", vec![], effects));
    request
}

pub(super) fn push(view: &Arc<FakeView>, asset: &str, effects: Effects) -> Verdict {
    let request = request(asset, before(&effects), effects).view(view.clone());
    block_on(DependencySolver::standard().check(request)).unwrap()
}

/// The assets that a push waits for, sorted.
pub(super) fn waits(verdict: &Verdict) -> Vec<String> {
    let on = |recheck: &Recheck| match recheck {
        Recheck::WhenSettled(asset) => asset.to_string(),
        other => panic!("waits for {other:?}"),
    };
    let mut waits: Vec<_> = verdict.delays.iter().map(|d| on(&d.recheck)).collect();
    waits.sort();
    waits
}
