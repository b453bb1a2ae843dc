//! Identifiers of calls and findings, and causes of pushes. They make late answers, old owners and outdated findings
//! recognizable.

use serde::{Deserialize, Serialize};

use prodspec_model::IncarnationNo;

/// The number of an ownership. It rises with every change of a partition's owner, and guarded providers refuse calls
/// with an older one. Token 0 is not an ownership: a plan uses it for diffs. Providers answer these and do not remember
/// them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct FencingToken(pub u64);

/// Identifies one call for one asset. A provider that remembers the greatest `(token, n)` per asset and refuses smaller
/// ones is protected from late calls of old owners *and* of the present owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Run {
    /// Index of the asset in the enforcer's table. Not stable across restarts.
    pub slot: u32,
    /// In a push: number of this call, which rises with each one for the asset under one owner. In a diff: number of the
    /// newest push so far, or of the newest diff that looked for the outcome of a push. Diffs of one owner may overlap and
    /// arrive in any order, so they do not raise it otherwise.
    pub n: u32,
    /// Number of the incarnation that the call reads.
    pub incarnation: IncarnationNo,
}

/// Identifies the state of an asset on which a finding rests. The finding holds while the push counter of the asset is
/// still `seq` and `seq` is even.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Index of the asset in the enforcer's table.
    pub slot: u32,
    /// Push counter of the asset when the diff of the finding started. Odd while a push is in flight or its outcome is
    /// unknown.
    pub seq: u32,
}

/// The reason why an asset is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The intent of the asset has changed.
    Intent,
    /// Production has changed without a change of intent.
    Drift,
    /// A rollout moves the asset back to its earlier content.
    Rollback,
    /// An operator declared the change urgent.
    Emergency,
}

/// A set of causes, such as the causes for which a check applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Causes(u8);

impl Causes {
    /// The set of all causes.
    pub const ALL: Self = Self(0b1111);
    /// The set with [`Cause::Intent`] only: for checks that must not delay repairs and rollbacks.
    pub const INTENT: Self = Self(0b0001);

    /// The set of the given causes.
    pub fn of(causes: &[Cause]) -> Self {
        Self(
            causes
                .iter()
                .fold(0, |bits, cause| bits | Self::bit(*cause)),
        )
    }

    /// Whether the set contains `cause`.
    pub fn contains(self, cause: Cause) -> bool {
        self.0 & Self::bit(cause) != 0
    }

    fn bit(cause: Cause) -> u8 {
        1 << cause as u8
    }
}
