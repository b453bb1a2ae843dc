//! What people said: pauses, approvals, overrides. Each with who, why and when.

use jiff::Timestamp;
use prodspec_model::{AssetId, Digest, TypeName};
use serde::{Deserialize, Serialize};

use crate::record::Record;

/// What a person's word is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// One asset.
    Asset(AssetId),
    /// All assets of a type.
    Type(TypeName),
    /// The whole partition.
    Partition,
}

/// No pushes here until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// What is paused.
    pub scope: Scope,
    /// By whom.
    pub who: String,
    /// Why.
    pub why: String,
    /// Until when; `None`: until somebody resumes it.
    pub until: Option<Timestamp>,
}

impl Record for Pause {
    const KIND: &'static str = "pause";
}

/// This very change may destroy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Of which asset.
    pub asset: AssetId,
    /// The change that was looked at.
    pub change: Digest,
    /// By whom.
    pub who: String,
    /// Why.
    pub why: String,
}

impl Record for Approval {
    const KIND: &'static str = "approval";
}

/// One named check does not delay this very change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// Of which asset.
    pub asset: AssetId,
    /// The change that was looked at.
    pub change: Digest,
    /// The check that is overridden.
    pub check: String,
    /// By whom.
    pub who: String,
    /// Why.
    pub why: String,
}

impl Record for Override {
    const KIND: &'static str = "override";
}
