//! Standing: how an asset relates to its intent, by the data with which enforcement decides.

use std::fmt;

use jiff::Timestamp;
use prodspec_model::{AssetId, Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

use crate::Pin;

/// The standing of one asset, as the feed of [`Enforcement`](crate::Enforcement) reports it.
///
/// ```
/// use plugin_sdk::{Pin, Relation, Standing, SyncState};
/// use prodspec_model::{Digest, IncarnationNo};
///
/// let state = SyncState::InSync { since: "2027-01-01T00:00:00Z".parse()? };
/// let mut standing = Standing::at(Pin::Default, Some(Digest([7; 32])), state);
/// standing.in_sync_at = Some(IncarnationNo(4));
/// assert!(standing.is_in_sync());
/// assert_eq!(standing.relation, Relation::Enforced);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Standing {
    /// The pin of the asset.
    pub pin: Pin,
    /// How enforcement treats the asset.
    pub relation: Relation,
    /// Digest of the asset's content at its pin. `None`: its intent does not contain the asset.
    pub content: Option<Digest>,
    /// Result of the last look at the asset, or of the last push. Of an asset without a pin of its own, `since` is the
    /// time from which the feed has known it. An asset that is not enforced is in sync, but while a push to it is under
    /// way.
    pub state: SyncState,
    /// The reason why an enforced asset is not settled. `None`: it is settled. Pauses, open breakers and a doubtful
    /// lease hold many assets at once and are not reported here.
    pub reason: Option<Reason>,
    /// An incarnation that has this content, if a diff has found the enforced asset in sync with it since the content
    /// became its intent. Drift later changes nothing of that. Older and newer incarnations with the same content count
    /// too.
    pub in_sync_at: Option<IncarnationNo>,
    /// `true`: a rollout has not moved the asset to its content in the newest incarnation yet.
    pub is_behind: bool,
    /// The id under which an asset without intent continues, if it was renamed (R49).
    pub moved_to: Option<AssetId>,
}

/// How enforcement treats an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Relation {
    /// The asset has an intent, which a plugin enforces.
    Enforced,
    /// No plugin enforces the asset's type: it is as intended once its incarnation is taken in.
    ModelledOnly,
    /// The asset has no intent and its resource is left alone: it is an orphan, or its rollout has not reached it yet.
    LeftAlone,
    /// Enforcement does not know the asset: it is in no incarnation in use, and no resource of it is left alone.
    Absent,
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
        /// `true`: an operator has to act before the asset is pushed; `why` says how.
        #[serde(default)]
        awaits_person: bool,
    },
    /// The asset's own health check refused the pushed content.
    Unhealthy {
        /// Message of the health check.
        why: String,
    },
}

impl SyncState {
    /// Not in sync since then, for no reason that is known yet.
    pub fn out_of_sync(since: Timestamp) -> Self {
        Self::OutOfSync {
            since,
            waits_for: Vec::new(),
            why: None,
            awaits_person: false,
        }
    }

    /// Whether the last look found the asset in sync.
    pub fn is_in_sync(&self) -> bool {
        matches!(self, Self::InSync { .. })
    }
}

impl Standing {
    /// The standing of an asset with this relation and state, without content, at its default pin.
    pub fn new(relation: Relation, state: SyncState) -> Self {
        Self {
            pin: Pin::Default,
            relation,
            content: None,
            state,
            reason: None,
            in_sync_at: None,
            is_behind: false,
            moved_to: None,
        }
    }

    /// The standing of an asset that has this content at its pin and is enforced there; without content it is left alone.
    pub fn at(pin: Pin, content: Option<Digest>, state: SyncState) -> Self {
        let relation = match content {
            Some(_) => Relation::Enforced,
            None => Relation::LeftAlone,
        };
        Self {
            pin,
            content,
            ..Self::new(relation, state)
        }
    }

    /// Whether the asset is enforced and the last look found it in sync.
    pub fn is_in_sync(&self) -> bool {
        self.relation == Relation::Enforced && self.state.is_in_sync()
    }

    /// Whether nothing is left to do: the asset is as its newest incarnation says, or no plugin enforces it.
    pub fn is_settled(&self) -> bool {
        let settled = match self.relation {
            Relation::Enforced => self.reason.is_none(),
            Relation::ModelledOnly => true,
            Relation::LeftAlone | Relation::Absent => false,
        };
        settled && !self.is_behind
    }

    /// Whether `other` says the same about the asset: all but the number of the incarnation with the same content.
    pub fn same_as(&self, other: &Self) -> bool {
        let Self {
            pin,
            relation,
            content,
            state,
            reason,
            in_sync_at,
            is_behind,
            moved_to,
        } = self;
        (*pin, *relation, *content) == (other.pin, other.relation, other.content)
            && (state, *reason, *is_behind) == (&other.state, other.reason, other.is_behind)
            && in_sync_at.is_some() == other.in_sync_at.is_some()
            && *moved_to == other.moved_to
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
