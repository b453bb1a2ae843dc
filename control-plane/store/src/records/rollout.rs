//! What enforcement and rollouts tell each other: how far a group of assets is, and how pinned assets stand.

use jiff::Timestamp;
use prodspec_model::{AssetId, Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

use crate::record::Record;

/// The incarnation whose rollout a policy group completed last: the default pin of the group's assets. Named by the
/// policy asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupHead {
    /// That incarnation.
    pub incarnation: IncarnationNo,
}

impl Record for GroupHead {
    const KIND: &'static str = "group";
}

/// How an asset stands towards its intent, as the enforcer last found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Which incarnation is its intent.
    pub pin: StandingPin,
    /// Its content there. `None`: it is not there, and left alone.
    pub content: Option<Digest>,
    /// What was found.
    pub state: Stands,
}

/// Which incarnation is an asset's intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandingPin {
    /// No pin of its own: its group's head, or the newest.
    Default,
    /// None yet.
    NotYet,
    /// This one.
    At(IncarnationNo),
}

/// What the enforcer found last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stands {
    /// A diff that started after the pin moved said in sync.
    InSync {
        /// When it was found first.
        since: Timestamp,
    },
    /// It is not in sync, or nobody has looked yet.
    OutOfSync {
        /// Since when.
        since: Timestamp,
        /// Whom the checks say it waits for; of many, the first few.
        waits_for: Vec<AssetId>,
        /// What else holds it, if anything: a person's pause, an approval, a check.
        #[serde(default)]
        why: Option<String>,
    },
    /// Its own health check failed what was pushed.
    Unhealthy {
        /// What it said.
        why: String,
    },
}
