//! The window a check has on the rest of its partition.

use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use jiff::Timestamp;
use prodspec_model::{AssetId, IncarnationNo, addons::Need};
use serde::{Deserialize, Serialize};

use crate::{
    check::{Claim, Key},
    diff::Diff,
    error::BoxError,
    run::{Cause, Stamp},
};

/// A diff of another asset, stamped by the enforcer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// How that asset compares with production.
    pub diff: Diff,
    /// What the finding rests on: put it into `Verdict::relies_on`.
    pub stamp: Stamp,
    /// When the diff started: put the earliest of them into `Verdict::as_of`.
    pub as_of: Timestamp,
    /// Why a push of that asset would start now: [`Cause::Intent`] while its own intent was never in sync,
    /// [`Cause::Drift`] once it was. `None`: the asset has no intent (it left intent, or is not pinned yet), so
    /// enforcement will not push it.
    #[serde(default)]
    pub cause: Option<Cause>,
}

/// One dependency edge as production may have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Link {
    /// The asset at the other end.
    pub asset: AssetId,
    /// What the consumer needs of the provider.
    pub need: Need,
}

/// What the consumers of one provider use of it, those that ask left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The sum over the consumers that are counted, in the unit that was asked about.
    pub used: u64,
    /// When the oldest of these findings was made: put it into `Verdict::as_of`.
    pub as_of: Timestamp,
    /// Consumers that are not counted, because nothing young enough is known of them; at most [`Usage::NAMED`]. If there
    /// are any, the sum is not known: observe them to learn why, then ask again.
    pub unknown: Vec<AssetId>,
    /// Consumers that a push of theirs would make use less, with what they use now; at most [`Usage::NAMED`].
    pub shrinking: Vec<(AssetId, u64)>,
    /// Consumers that use anything and have a push to come, with what they use now; at most [`Usage::NAMED`].
    pub leaving: Vec<(AssetId, u64)>,
    /// Consumers that use anything, with what they use now, the largest first; at most [`Usage::NAMED`].
    pub using: Vec<(AssetId, u64)>,
    /// What the sum rests on: put them into `Verdict::relies_on`. None if admission adds up for itself.
    pub stamps: Vec<Stamp>,
}

impl Usage {
    /// How many consumers are named at most in each list.
    pub const NAMED: usize = 16;

    fn cannot_count(&mut self, consumer: AssetId) {
        if self.unknown.len() < Self::NAMED {
            self.unknown.push(consumer);
        }
    }

    /// Adds what was observed of one consumer.
    fn add(&mut self, consumer: AssetId, unit: &str, seen: Result<Observation, BoxError>) {
        let Ok(seen) = seen else {
            return self.cannot_count(consumer);
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

/// The capacity of one provider in one unit, which several consumers may use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared {
    /// The provider.
    pub provider: AssetId,
    /// The unit of its capacity.
    pub unit: String,
}

impl Shared {
    /// The claim of an asset that will have `units`, while the provider has `limit`.
    pub fn claim(&self, units: u64, limit: u64) -> Claim {
        let key = Key::capacity(&self.provider, &self.unit);
        Claim::Amount { key, units, limit }
    }
}

/// The rest of the partition, as a check may see it. Carried beside the request: layers hold no handles.
///
/// The edges are the union of those at the incarnation being pushed and, for each other asset, at every incarnation
/// possibly in production.
pub trait PartitionView: Send + Sync {
    /// Diffs another asset *at its own pin*: the incarnation that is its intent now, whatever the push at hand is
    /// about. An asset without intent is compared with what the last incarnation that had it says.
    fn observe(&self, asset: &AssetId) -> BoxFuture<'static, Result<Observation, BoxError>>;

    /// Whom `asset` needs.
    fn providers(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link>;

    /// Who needs `asset`.
    fn consumers(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link>;

    /// Whom `asset` needs at `at` that it may not need in production yet: edges that its push brings. None, if the view
    /// cannot tell.
    fn brought(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link> {
        let _ = (asset, at);
        Vec::new()
    }

    /// What the consumers of a provider use of it in production, `but` left out. Costs the same however many they are,
    /// if the enforcer answers; a push that takes a [`Claim::Amount`] under
    /// [`Key::capacity`] is admitted only if the sum still fits then.
    ///
    /// As given here it observes every consumer.
    fn usage(
        &self,
        shared: &Shared,
        at: IncarnationNo,
        but: &AssetId,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Usage, BoxError>> {
        usage_by_observing(self, shared, at, but, now)
    }
}

/// As [`PartitionView::usage`], by observing every consumer: for views without a kernel that keeps count.
fn usage_by_observing<V: PartitionView + ?Sized>(
    view: &V,
    shared: &Shared,
    at: IncarnationNo,
    but: &AssetId,
    now: Timestamp,
) -> BoxFuture<'static, Result<Usage, BoxError>> {
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
