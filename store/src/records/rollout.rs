//! Data that enforcement and rollouts exchange: how far a policy group is, and the state of pinned assets.

use jiff::Timestamp;
use prodspec_model::{AssetId, Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

use crate::record::Record;

/// The head of a policy group: the incarnation whose rollout it completed last. It is the default pin of the group's
/// assets. Recorded under the id of the policy asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupHead {
    /// Number of the incarnation that was completed.
    pub incarnation: IncarnationNo,
}

impl Record for GroupHead {
    const KIND: &'static str = "group";
}

/// State of an asset relative to its intent, as the enforcer last found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinStatus {
    /// Incarnation that is the asset's intent.
    pub pin: StandingPin,
    /// Digest of the asset's content at that incarnation. `None` means that the incarnation does not contain the asset,
    /// and its resource is left alone.
    pub content: Option<Digest>,
    /// Result of the last diff or push.
    pub state: SyncState,
}

/// Incarnation that is an asset's intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandingPin {
    /// The asset has no pin of its own: its intent is its group's head, or the newest incarnation.
    Default,
    /// The asset is not enforced yet.
    NotYet,
    /// The asset is pinned to this incarnation.
    At(IncarnationNo),
}

/// Result of the enforcer's last look at an asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SyncState {
    /// A diff that started after the pin moved found the asset in sync.
    InSync {
        /// Time at which it was first found in sync.
        since: Timestamp,
    },
    /// The asset is not in sync, or there was no diff yet.
    OutOfSync {
        /// Time since which this is so.
        since: Timestamp,
        /// Assets that it waits for according to the checks; of many, the first few.
        waits_for: Vec<AssetId>,
        /// Other reason that holds it, such as a pause, a missing approval or a check. `None` means that there is none.
        #[serde(default)]
        why: Option<String>,
    },
    /// The asset's own health check refused the pushed content.
    Unhealthy {
        /// Message of the health check.
        why: String,
    },
}
