//! What production cannot tell about an asset: the pushes that may be under way, and the edges that may be in force.

use jiff::Timestamp;
use plugin_sdk::{Cause, Claim};
use prodspec_model::{Digest, IncarnationNo, addons::Edge};
use serde::{Deserialize, Serialize};

use super::OpenPush;
use crate::record::Record;

/// One asset as the enforcer left it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AssetRecord {
    /// Where it was last found in sync. Safe to lose.
    pub settled: Option<Settled>,
    /// A push that was admitted and whose outcome is not recorded. Durable before the push starts.
    pub open: Option<OpenPush>,
    /// Every edge that production may have: of the content last found in sync, and of all pushed since.
    pub edges: Vec<Edge>,
    /// What the asset still holds of what its push claimed.
    pub claims: Vec<Claim>,
    /// Its own health check failed what was pushed last. Kept until its pin moves, or the next push.
    pub unhealthy: Option<Unhealthy>,
}

impl Record for AssetRecord {
    const KIND: &'static str = "asset";
}

/// Where an asset was last found in sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// At this incarnation.
    pub incarnation: IncarnationNo,
    /// With this content.
    pub content: Digest,
    /// Then.
    pub at: Timestamp,
}

/// What an asset's own health check said of a push.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unhealthy {
    /// What was pushed.
    pub incarnation: IncarnationNo,
    /// What it said.
    pub why: String,
}

/// Every asset of this incarnation without a record of its own was in sync with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// That incarnation.
    pub incarnation: IncarnationNo,
}

impl Record for Floor {
    const KIND: &'static str = "floor";
}

/// The newest incarnation that enforcement has taken in, with everything that followed for pins and orphans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// That incarnation.
    pub incarnation: IncarnationNo,
}

impl Record for Taken {
    const KIND: &'static str = "taken";
}

/// An asset that left intent and is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphaned {
    /// The last incarnation that had it.
    pub last: IncarnationNo,
    /// When it left.
    pub at: Timestamp,
    /// Its canonical JSON when it left: enough to look at it, and to know its edges.
    pub asset: String,
    /// Edges that production may have beside those of `asset`.
    pub edges: Vec<Edge>,
}

impl Record for Orphaned {
    const KIND: &'static str = "orphan";
}

/// Which incarnation is an asset's intent, when it is not the newest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PinRecord {
    /// This one.
    At {
        /// Which.
        incarnation: IncarnationNo,
        /// Why.
        cause: Cause,
    },
    /// None yet.
    NotYet,
}

impl Record for PinRecord {
    const KIND: &'static str = "pin";
}
