//! Standing: how an asset relates to its intent, by the data with which enforcement decides.

use std::fmt;

use prodspec_model::{AssetId, Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

use crate::SyncState;

/// The standing of one asset, as the feed of [`Enforcement`](crate::Enforcement) tells it.
///
/// ```
/// use plugin_sdk::{Enforced, Standing, SyncState};
/// use prodspec_model::{Digest, IncarnationNo};
///
/// let mut enforced = Enforced::new(Digest([7; 32]), SyncState::InSync { since: "2027-01-01T00:00:00Z".parse()? });
/// enforced.in_sync_at = Some(IncarnationNo(4));
/// let standing = Standing::Enforced(enforced);
/// assert!(standing.is_in_sync());
/// assert_eq!(standing.in_sync_at(), Some(IncarnationNo(4)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Standing {
    /// Enforcement does not know the asset: it is in no incarnation in use, and no resource of it is left alone.
    Absent {
        /// The id under which the asset continues, if it was renamed (R49).
        moved_to: Option<AssetId>,
    },
    /// No plugin enforces the asset's type: it is as intended once its incarnation is taken in.
    ModelledOnly {
        /// Digest of the asset's content in the newest incarnation, or at its pin.
        content: Digest,
    },
    /// The asset has no intent and its resource is left alone: it is an orphan, or its rollout has not reached it yet.
    LeftAlone {
        /// The id under which the asset continues, if it was renamed (R49).
        moved_to: Option<AssetId>,
    },
    /// The asset has an intent, which a plugin enforces.
    Enforced(Enforced),
}

/// The standing of an enforced asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Enforced {
    /// Digest of the asset's content at its pin.
    pub content: Digest,
    /// Result of the last look at the asset. Of an asset without a pin of its own, `since` is the time from which the
    /// feed has known it.
    pub state: SyncState,
    /// The reason why the asset is not settled. `None`: it is settled. Pauses, open breakers and a doubtful lease hold
    /// many assets at once and are not told here.
    pub reason: Option<Reason>,
    /// An incarnation that has this content, if a diff has found the asset in sync with it since the content became its
    /// intent. Drift later changes nothing of that. Older and newer incarnations with the same content count too.
    pub in_sync_at: Option<IncarnationNo>,
    /// `true`: a rollout has not moved the asset to its content in the newest incarnation yet.
    pub is_behind: bool,
}

impl Enforced {
    /// The standing of an asset with this content and state, never found in sync.
    pub fn new(content: Digest, state: SyncState) -> Self {
        Self {
            content,
            state,
            reason: None,
            in_sync_at: None,
            is_behind: false,
        }
    }
}

impl Standing {
    /// Whether the asset is enforced and the last look found it in sync.
    pub fn is_in_sync(&self) -> bool {
        matches!(self, Self::Enforced(it) if matches!(it.state, SyncState::InSync { .. }))
    }

    /// See [`Enforced::in_sync_at`]; `None` for assets that are not enforced.
    pub fn in_sync_at(&self) -> Option<IncarnationNo> {
        match self {
            Self::Enforced(enforced) => enforced.in_sync_at,
            _ => None,
        }
    }

    /// Whether `other` says the same about the asset: all but the number of the incarnation with the same content.
    pub fn same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Enforced(one), Self::Enforced(two)) => {
                let found = one.in_sync_at.is_some() == two.in_sync_at.is_some();
                let in_sync_at = two.in_sync_at;
                found
                    && Enforced {
                        in_sync_at,
                        ..one.clone()
                    } == *two
            }
            _ => self == other,
        }
    }
}

/// The reason why an asset is not settled: the first in this order if several apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The outcome of a push is unknown: it may still be under way.
    UnknownPush,
    /// The asset is being pushed, or production is still working on it.
    UnderWay,
    /// It is not certain that this process still owns the partition.
    Ownership,
    /// The circuit breaker of its plugin is open: calls are held back.
    Breaker,
    /// A pause covers the asset.
    Paused,
    /// An operator has to act first.
    Held,
    /// A diff or push failed and is retried.
    Failed,
    /// Pushes succeed, and diffs find the same difference afterwards: the asset does not converge.
    NotConverging,
    /// Checks delay the push of the asset.
    Delayed,
    /// The push is blocked by another push or by a taken claim.
    Others,
    /// The asset is queued for a diff, diffed or checked.
    Looking,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownPush => "the outcome of a push is unknown",
            Self::UnderWay => "being pushed",
            Self::Ownership => "it is not certain that this process still owns the partition",
            Self::Breaker => "the plugin keeps failing and its calls are held back",
            Self::Paused => "paused",
            Self::Held => "waiting for an operator",
            Self::Failed => "failed and retried",
            Self::NotConverging => "pushed, and still different",
            Self::Delayed => "delayed by checks",
            Self::Others => "blocked by other assets",
            Self::Looking => "queued, diffed or checked",
        })
    }
}
