//! A fake partition view, for checks that observe other assets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use prodspec_model::{AssetId, IncarnationNo, addons::Need};

use crate::{
    Cause, Diff, Observation, PartitionView, Stamp,
    observe::{Error, Link},
};

/// A [`PartitionView`] with the diffs, edges and push counters that a test sets. It remembers which assets it was asked
/// to observe.
///
/// ```
/// use plugin_sdk::{Diff, testing::{FakeView, NOW}};
/// use prodspec_model::{AssetId, addons::Need};
///
/// let (job, balancer) = (AssetId::new("job/eu")?, AssetId::new("balancer/eu")?);
/// let view = FakeView::new(NOW);
/// view.edge(&balancer, &job, Need::Order); // the balancer needs the job
/// view.set(&job, Diff::in_sync());
/// assert_eq!(view.asked(), []);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FakeView(Mutex<State>);

#[derive(Debug)]
struct State {
    as_of: Timestamp,
    assets: BTreeMap<AssetId, (Stamp, Diff)>,
    /// Assets that cannot be observed, each with the reason.
    unseen: BTreeMap<AssetId, Error>,
    causes: BTreeMap<AssetId, Option<Cause>>,
    not_yet: BTreeSet<AssetId>,
    edges: Vec<(AssetId, AssetId, Need)>,
    asked: Vec<AssetId>,
}

impl FakeView {
    /// Makes an empty partition whose observations have the time `as_of`.
    pub fn new(as_of: Timestamp) -> Self {
        Self(Mutex::new(State {
            as_of,
            assets: BTreeMap::new(),
            unseen: BTreeMap::new(),
            causes: BTreeMap::new(),
            not_yet: BTreeSet::new(),
            edges: Vec::new(),
            asked: Vec::new(),
        }))
    }

    /// Sets the diff of `asset`. Assets without a diff cannot be observed.
    pub fn set(&self, asset: &AssetId, diff: Diff) {
        let mut state = self.state();
        let slot = u32::try_from(state.assets.len()).unwrap_or(u32::MAX);
        let fresh = (Stamp { slot, seq: 0 }, Diff::in_sync());
        state.assets.entry(asset.clone()).or_insert(fresh).1 = diff;
        state.unseen.remove(asset);
    }

    /// Lets observations of `asset` fail with `error` until its diff is set again.
    pub fn fail(&self, asset: &AssetId, error: Error) {
        self.state().unseen.insert(asset.clone(), error);
    }

    /// Sets the cause that a push of `asset` would have. The default is [`Cause::Intent`]; `None`: the asset has no
    /// intent.
    pub fn cause(&self, asset: &AssetId, cause: Option<Cause>) {
        self.state().causes.insert(asset.clone(), cause);
    }

    /// Lets `asset` wait for its rollout: it has no intent yet.
    pub fn not_yet(&self, asset: &AssetId) {
        self.cause(asset, None);
        self.state().not_yet.insert(asset.clone());
    }

    /// Lets a push of `asset` start or end: raises its push counter by one.
    pub fn step(&self, asset: &AssetId) {
        if let Some((stamp, _)) = self.state().assets.get_mut(asset) {
            stamp.seq += 1;
        }
    }

    /// Adds an edge from `consumer` to `provider`.
    pub fn edge(&self, consumer: &AssetId, provider: &AssetId, need: Need) {
        self.state()
            .edges
            .push((consumer.clone(), provider.clone(), need));
    }

    /// The stamp that an observation of `asset` carries now. `None`: its diff was never set.
    pub fn stamp(&self, asset: &AssetId) -> Option<Stamp> {
        self.state().assets.get(asset).map(|(stamp, _)| *stamp)
    }

    /// Ids of the assets that the view was asked to observe, in order.
    pub fn asked(&self) -> Vec<AssetId> {
        self.state().asked.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn links(&self, end: impl Fn(&(AssetId, AssetId, Need)) -> Option<&AssetId>) -> Vec<Link> {
        let state = self.state();
        let link = |edge: &(AssetId, AssetId, Need)| {
            end(edge).map(|other| Link {
                asset: other.clone(),
                need: edge.2.clone(),
            })
        };
        state.edges.iter().filter_map(link).collect()
    }
}

impl PartitionView for FakeView {
    fn observe(&self, asset: &AssetId) -> BoxFuture<'static, Result<Observation, Error>> {
        let mut state = self.state();
        state.asked.push(asset.clone());
        let cause = match state.causes.get(asset) {
            Some(cause) => *cause,
            None => Some(Cause::Intent),
        };
        let seen = match (state.unseen.get(asset), state.assets.get(asset)) {
            (Some(error), _) => Err(error.clone()),
            (None, Some((stamp, diff))) => Ok(Observation {
                diff: diff.clone(),
                stamp: *stamp,
                as_of: state.as_of,
                cause,
                not_yet: cause.is_none() && state.not_yet.contains(asset),
            }),
            (None, None) => Err(Error::failed("the test set no diff for it")),
        };
        Box::pin(async move { seen })
    }

    fn providers(&self, asset: &AssetId, _: IncarnationNo) -> Vec<Link> {
        self.links(|(consumer, provider, _)| (consumer == asset).then_some(provider))
    }

    fn consumers(&self, asset: &AssetId, _: IncarnationNo) -> Vec<Link> {
        self.links(|(consumer, provider, _)| (provider == asset).then_some(consumer))
    }
}
