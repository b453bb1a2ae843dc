//! Records about single assets that production cannot provide: pushes that may be under way, edges that may be in
//! force, pins, orphans.

use std::collections::BTreeSet;

use jiff::Timestamp;
use plugin_sdk::{Claim, Pin};
use prodspec_model::{
    AssetId, Digest, IncarnationNo, TypeName,
    addons::{self, Edge},
};
use serde::{Deserialize, Serialize};

use super::OpenPush;
use crate::record::Record;

/// State of one asset as the enforcer left it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AssetRecord {
    /// Content and time with which the asset was last found in sync. `None` means never. Safe to lose.
    pub settled: Option<Settled>,
    /// `true`: a later diff found production different from that content, or the asset was pinned to another
    /// incarnation with that content, and no diff has found it in sync since.
    pub drifted: bool,
    /// A push that was admitted and whose outcome is not recorded. Written durably before the push starts.
    pub open: Option<OpenPush>,
    /// All edges that production may have: those of the content last found in sync, and of all pushes since.
    #[serde(deserialize_with = "addons::edges")]
    pub edges: Vec<Edge>,
    /// Claims of its push that the asset still holds. One of a kind that this program version does not know is an
    /// exclusive one under a key that no push claims.
    #[serde(deserialize_with = "plugin_sdk::claims")]
    pub claims: Vec<Claim>,
    /// Set if the asset's own health check refused the content pushed last. Cleared when the pin moves, and by the next
    /// push.
    pub unhealthy: Option<Unhealthy>,
    /// Set while the asset, renamed, has taken over from its old id and has not been in sync since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<MovedRecord>,
}

impl Record for AssetRecord {
    const KIND: &'static str = "asset";
}

/// The old id of an asset that continues under a new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedRecord {
    /// The id under which production had the resource when the asset took over.
    pub from: AssetId,
    /// `true`: the asset was pushed under the new id since.
    pub pushed: bool,
}

/// Content and time with which an asset was last found in sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// Incarnation that has the content: that of its pin, if it has one.
    pub incarnation: IncarnationNo,
    /// Digest of its content there.
    pub content: Digest,
    /// Time of the diff that found it in sync.
    pub at: Timestamp,
}

/// Result of an asset's own health check that refused a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unhealthy {
    /// Number of the incarnation that was pushed.
    pub incarnation: IncarnationNo,
    /// Message of the health check.
    pub why: String,
}

/// Incarnation with which every asset of certain types without a record of its own was in sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// Number of the incarnation with which they were in sync.
    pub incarnation: IncarnationNo,
    /// Types that had a plugin then. Nothing is known of assets of other types.
    pub types: BTreeSet<TypeName>,
}

impl Record for Floor {
    const KIND: &'static str = "floor";
}

/// The newest incarnation that enforcement has taken in, with all its consequences for pins and orphans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Number of the incarnation that was taken in.
    pub incarnation: IncarnationNo,
}

impl Record for Taken {
    const KIND: &'static str = "taken";
}

/// An asset that left intent without a turndown. Its resource is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphaned {
    /// The last incarnation that contained the asset.
    pub last: IncarnationNo,
    /// Time at which the asset left intent.
    pub at: Timestamp,
    /// Canonical JSON of the asset when it left: enough to diff it and to know its edges.
    pub asset: String,
    /// Edges that production may have in addition to those of `asset`.
    #[serde(deserialize_with = "addons::edges")]
    pub edges: Vec<Edge>,
}

impl Record for Orphaned {
    const KIND: &'static str = "orphan";
    const SAME: &'static [&'static str] = &["at"];
}

/// The pin of an asset that does not follow its default. [`Pin::Default`] is never stored: the record is deleted.
impl Record for Pin {
    const KIND: &'static str = "pin";
}
