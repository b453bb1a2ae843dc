//! The window a check has on the rest of its partition.

use futures::future::BoxFuture;
use jiff::Timestamp;
use prodspec_model::{AssetId, IncarnationNo, addons::Need};
use serde::{Deserialize, Serialize};

use crate::{
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
}
