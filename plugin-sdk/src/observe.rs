//! The view that a check has of the other assets of its partition.

use std::{collections::BTreeSet, sync::Arc};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use jiff::Timestamp;
use prodspec_model::{AssetId, IncarnationNo, addons::Need};
use serde::{Deserialize, Serialize};

use crate::{
    claim::{Claim, Key},
    diff::Diff,
    run::{Cause, Stamp},
};

/// The reason why an asset cannot be observed.
///
/// ```
/// use plugin_sdk::observe::Error;
/// let error = Error::failed("the cell does not answer");
/// assert_eq!(error.to_string(), "it cannot be compared with production: the cell does not answer");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Enforcement does not know the asset. It was never in intent, or it left intent and is not in production any
    /// more, or its orphan was acknowledged. It has no capacity, runs no version and uses nothing.
    #[error("it is gone: it left intent, and enforcement no longer knows it")]
    Gone,
    /// The asset is in intent with a type that no plugin enforces. Its capacity, version and use are unknown.
    #[error("it is modelled only: no plugin enforces its type")]
    ModelledOnly,
    /// The asset could not be compared with production; the text says why.
    #[error("it cannot be compared with production: {0}")]
    Failed(String),
}

impl Error {
    /// Makes a [`Failed`](Self::Failed) error, for example from the error of a diff.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }
}

/// A diff of another asset, with the enforcer's stamp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The result of comparing that asset with production.
    pub diff: Diff,
    /// The stamp of the finding. Put it into [`Verdict::relies_on`](crate::Verdict::relies_on).
    pub stamp: Stamp,
    /// Wall-clock time at which the diff started. Put the earliest such time into
    /// [`Verdict::as_of`](crate::Verdict::as_of).
    pub as_of: Timestamp,
    /// The cause that a push of that asset would have now: [`Cause::Intent`] if its present intent was never in sync,
    /// [`Cause::Drift`] if it was. `None`: the asset has no intent (it left intent, or is not pinned yet), so it will
    /// not be pushed.
    #[serde(default)]
    pub cause: Option<Cause>,
    /// `true`: the asset has no intent *yet*. It is in the newest incarnation, and the rollout of its policy group brings
    /// it. `false` without a cause: it left intent.
    #[serde(default)]
    pub not_yet: bool,
}

/// One end of a dependency edge that production may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Link {
    /// Id of the asset at the other end of the edge.
    pub asset: AssetId,
    /// The kind of dependency: what the consumer needs of the provider.
    pub need: Need,
}

/// The use of one provider's capacity by its consumers, without the asset that is about to be pushed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Total use of all counted consumers, in the requested unit.
    pub used: u64,
    /// Wall-clock time of the oldest finding in the sum. Put it into [`Verdict::as_of`](crate::Verdict::as_of).
    pub as_of: Timestamp,
    /// Consumers that are not counted, because no recent finding about them exists. At most [`Usage::NAMED`]. If the
    /// list is not empty, the sum is incomplete: observe these consumers to learn why, then ask again.
    pub unknown: Vec<AssetId>,
    /// Consumers whose own push would reduce their use, with their use now. At most [`Usage::NAMED`].
    pub shrinking: Vec<(AssetId, u64)>,
    /// Consumers with a use above 0 that are to be pushed, with their use now. At most [`Usage::NAMED`].
    pub leaving: Vec<(AssetId, u64)>,
    /// Consumers with a use above 0, largest use first. At most [`Usage::NAMED`].
    pub using: Vec<(AssetId, u64)>,
    /// Stamps of the findings in the sum. Put them into [`Verdict::relies_on`](crate::Verdict::relies_on). Empty if
    /// admission computes the sum again itself.
    pub stamps: Vec<Stamp>,
}

impl Usage {
    /// Maximum number of consumers in each of the lists.
    pub const NAMED: usize = 16;

    /// Notes a consumer that is not counted, up to the limit.
    fn cannot_count(&mut self, consumer: AssetId) {
        if self.unknown.len() < Self::NAMED {
            self.unknown.push(consumer);
        }
    }

    /// Adds the observation of one consumer.
    fn add(&mut self, consumer: AssetId, unit: &str, seen: Result<Observation, Error>) {
        let seen = match seen {
            Ok(seen) => seen,
            Err(Error::Gone) => return,
            Err(_) => return self.cannot_count(consumer),
        };
        self.stamps.push(seen.stamp);
        let Some((now, soon)) = seen.diff.capacity(unit) else {
            return self.cannot_count(consumer);
        };
        self.used = self.used.saturating_add(now);
        self.as_of = self.as_of.min(seen.as_of);
        if soon.is_some_and(|soon| soon < now) && self.shrinking.len() < Self::NAMED {
            self.shrinking.push((consumer.clone(), now));
        }
        if now > 0 {
            let at = self.using.partition_point(|(_, uses)| *uses >= now);
            self.using.insert(at, (consumer.clone(), now));
            self.using.truncate(Self::NAMED);
        }
        if soon.is_some() && now > 0 && self.leaving.len() < Self::NAMED {
            self.leaving.push((consumer, now));
        }
    }
}

/// The capacity of one provider in one unit, shared by its consumers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared {
    /// Id of the asset that provides the capacity.
    pub provider: AssetId,
    /// Unit of the capacity, such as `qps`.
    pub unit: String,
}

impl Shared {
    /// The claim of an asset that will use `units`, while the provider has a capacity of `limit`.
    pub fn claim(&self, units: u64, limit: u64) -> Claim {
        let key = Key::capacity(&self.provider, &self.unit);
        Claim::Amount { key, units, limit }
    }
}

/// Assets whose serving capacity is counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The key under which claims on this capacity are counted.
    pub key: Key,
    /// Unit of the capacity, such as `qps`.
    pub unit: String,
    /// Ids of the assets. While they are the same, pass the same `Arc`: it is compared first.
    pub assets: Arc<BTreeSet<AssetId>>,
}

/// The serving capacity of some assets in production, without the asset that is about to be pushed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Served {
    /// Total capacity of the counted assets: each with its last observed capacity or, while a push of it is under way, with the
    /// smaller end of that.
    pub units: u64,
    /// Assets that no diff of this owner has observed yet; they count with 0. Observe them, then ask again.
    pub unknown: Vec<AssetId>,
    /// Assets whose own push would give them more capacity. At most [`Usage::NAMED`].
    pub growing: Vec<AssetId>,
}

impl Served {
    /// Adds the observation of one asset.
    fn add(&mut self, asset: &AssetId, unit: &str, seen: Result<Observation, Error>) {
        match seen.map(|it| it.diff.capacity(unit)) {
            Ok(Some((now, soon))) => {
                self.units = self.units.saturating_add(now);
                if soon.is_some_and(|soon| soon > now) && self.growing.len() < Usage::NAMED {
                    self.growing.push(asset.clone());
                }
            }
            Err(Error::Gone) => {}
            Ok(None) | Err(_) => self.unknown.push(asset.clone()),
        }
    }
}

/// The rest of the partition, as a check may see it. It is passed with each request, because layers hold no handles.
///
/// Edges are the union of the edges at the incarnation that is pushed and, for each other asset, the edges at every
/// incarnation that production may have.
pub trait PartitionView: Send + Sync {
    /// Diffs another asset *at its own pin*: at the incarnation that is its intent now, which may differ from the
    /// incarnation of the push. An asset without intent is compared with the last incarnation that contained it.
    ///
    /// # Errors
    /// If the asset is gone, if no plugin enforces its type, or if it cannot be compared with production.
    fn observe(&self, asset: &AssetId) -> BoxFuture<'static, Result<Observation, Error>>;

    /// The providers that `asset` depends on. `at` is the incarnation that is pushed. For the asset that is pushed, an
    /// order that `at` has dropped does not count: it would delay the push that removes it.
    fn providers(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link>;

    /// The consumers that depend on `asset`. `at` is the incarnation that is pushed.
    fn consumers(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link>;

    /// The providers that `asset` depends on at `at` and may not use in production yet: its push adds these edges.
    /// Empty if the view cannot tell.
    fn brought(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link> {
        let _ = (asset, at);
        Vec::new()
    }

    /// The use of a shared capacity in production by all consumers except `but`. `at` is the incarnation that is
    /// pushed, `now` the wall-clock time of the request.
    ///
    /// The enforcer answers at a cost that does not depend on the number of consumers. A push with a [`Claim::Amount`]
    /// under [`Key::capacity`] is admitted only if the sum still fits at that moment.
    ///
    /// The default implementation observes every consumer.
    ///
    /// # Errors
    /// If the view cannot answer, for example because the enforcer has stopped.
    fn usage(
        &self,
        shared: &Shared,
        at: IncarnationNo,
        but: &AssetId,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Usage, Error>> {
        usage_by_observing(self, shared, at, but, now)
    }

    /// The capacity in production of all assets of `serving` except `but`, which is about to be pushed.
    ///
    /// The enforcer counts these assets from now on: a push with a [`Claim::Keep`] under this key is admitted only if the floor
    /// still holds at that moment.
    ///
    /// The default implementation observes every asset.
    ///
    /// # Errors
    /// If the view cannot answer, for example because the enforcer has stopped.
    fn served(
        &self,
        serving: &Serving,
        but: &AssetId,
    ) -> BoxFuture<'static, Result<Served, Error>> {
        let assets: Vec<AssetId> = serving
            .assets
            .iter()
            .filter(|it| *it != but)
            .cloned()
            .collect();
        let looks: Vec<_> = assets.iter().map(|asset| self.observe(asset)).collect();
        let unit = serving.unit.clone();
        async move {
            let mut served = Served::default();
            for (asset, seen) in assets.iter().zip(join_all(looks).await) {
                served.add(asset, &unit, seen);
            }
            Ok(served)
        }
        .boxed()
    }
}

/// Computes [`PartitionView::usage`] by observing every consumer, for views without a kernel that counts.
fn usage_by_observing<V: PartitionView + ?Sized>(
    view: &V,
    shared: &Shared,
    at: IncarnationNo,
    but: &AssetId,
    now: Timestamp,
) -> BoxFuture<'static, Result<Usage, Error>> {
    let mut consumers = view.consumers(&shared.provider, at);
    let unit = shared.unit.clone();
    let uses = |need: &Need| matches!(need, Need::Capacity { unit: needed } if *needed == unit);
    consumers.retain(|link| link.asset != *but && uses(&link.need));
    consumers.dedup_by(|one, other| one.asset == other.asset);
    let looks: Vec<_> = consumers
        .iter()
        .map(|link| view.observe(&link.asset))
        .collect();
    async move {
        let mut usage = Usage {
            used: 0,
            as_of: now,
            unknown: Vec::new(),
            shrinking: Vec::new(),
            leaving: Vec::new(),
            using: Vec::new(),
            stamps: Vec::new(),
        };
        for (link, seen) in consumers.into_iter().zip(join_all(looks).await) {
            usage.add(link.asset, &unit, seen);
        }
        Ok(usage)
    }
    .boxed()
}
