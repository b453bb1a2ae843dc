//! Names of runs: what makes a late answer, an old owner or a stale finding recognisable.

use serde::{Deserialize, Serialize};

use prodspec_model::IncarnationNo;

/// Rises with every change of a partition's owner. Providers that can, refuse calls with an older one. Only 0 is no token:
/// that of a plan, which owns nothing. Its diffs are answered, and not remembered.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct FencingToken(pub u64);

/// One call for one asset. A provider that keeps the greatest `(token, n)` per asset and refuses smaller ones is
/// safe from late calls of an old owner *and* of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Run {
    /// Which asset, by its place in the enforcer's table. Not stable over restarts.
    pub slot: u32,
    /// Counts the calls for this asset under this owner.
    pub n: u32,
    /// The incarnation the call is about.
    pub incarnation: IncarnationNo,
}

/// What a finding about an asset rests on: still true while the asset's push counter is `seq` and even.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Which asset.
    pub slot: u32,
    /// Its push counter when the diff behind the finding started: odd while a push is in flight or unknown.
    pub seq: u32,
}

/// Why an asset is being pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// Intent changed.
    Intent,
    /// Production changed behind our back.
    Drift,
    /// A rollout goes back.
    Rollback,
    /// A person says it cannot wait.
    Emergency,
}

/// A set of causes: those for which a check applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Causes(u8);

impl Causes {
    /// Every cause.
    pub const ALL: Self = Self(0b1111);
    /// `Intent` only: checks that must never block the cure.
    pub const INTENT: Self = Self(0b0001);

    /// These causes.
    pub fn of(causes: &[Cause]) -> Self {
        Self(
            causes
                .iter()
                .fold(0, |bits, cause| bits | Self::bit(*cause)),
        )
    }

    /// Whether `cause` is one of them.
    pub fn contains(self, cause: Cause) -> bool {
        self.0 & Self::bit(cause) != 0
    }

    fn bit(cause: Cause) -> u8 {
        1 << cause as u8
    }
}
