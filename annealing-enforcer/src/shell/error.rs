//! The errors that end an enforcer or a plan, and those of questions and commands.

use std::time::Duration;

use control_plane_store::records::Stopped;
use prodspec_model::{AssetId, IncarnationNo, PartitionId};

/// Why an enforcer ended, or why no plan can be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store is broken: no further call is started.
    #[error("the store stopped: {0}; repair the store, then start again")]
    Stopped(String),
    /// The records of the partition cannot be read.
    #[error("the records of the partition cannot be read; check the store, then start again")]
    Store(#[from] control_plane_store::Error),
    /// An incarnation of the partition cannot be read.
    #[error("an incarnation cannot be read; check the store, then start again")]
    Incarnation(#[source] control_plane_store::incarnations::Error),
    /// The rollouts cannot be rehearsed for a plan.
    #[error(
        "no plan can be made: the rollouts cannot be rehearsed; check the store, then ask again"
    )]
    Rollouts(#[source] plugin_sdk::BoxError),
    /// The rehearsal of a plan broke an invariant; the text says which.
    #[error("no plan can be made: {0}; enforcement would stop for the same reason, so report it")]
    Plan(String),
}

impl Error {
    /// Whether the same read may succeed later.
    pub(super) fn passes(&self) -> bool {
        use control_plane_store::{Error::Unavailable, incarnations};
        matches!(
            self,
            Self::Store(Unavailable { .. })
                | Self::Incarnation(
                    incarnations::Error::Store(Unavailable { .. })
                        | incarnations::Error::Younger { .. }
                )
        )
    }
}

/// Why a question has no answer, or why a command was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The enforcer has ended, or does not own its partition now. The text names the partition.
    #[error("the enforcer of {0} is not running here; ask the process that owns the partition")]
    NotRunning(PartitionId),
    /// The enforcer owns its partition and has not started to enforce it yet.
    #[error(
        "{0} is not enforced yet: it has no incarnation, or its records are being read; ask again later"
    )]
    Starting(PartitionId),
    /// Enforcement stopped itself because an invariant did not hold.
    #[error("enforcement of {partition} {stopped}; check production, then clear the stop")]
    Stopped {
        /// The partition whose enforcement stopped.
        partition: PartitionId,
        /// The reason and the time of the stop.
        stopped: Box<Stopped>,
    },
    /// The asset is neither part of the enforced intent nor an orphan.
    #[error("{partition} has no enforced asset `{asset}`; modelled-only assets are not enforced")]
    UnknownAsset {
        /// The partition that does not have the asset.
        partition: PartitionId,
        /// The id that was asked for.
        asset: AssetId,
    },
    /// The assets to wait for did not settle in time.
    #[error(
        "{what} did not settle within {within:.1?}; `explain` and the rollouts say what it waits for"
    )]
    NotSettled {
        /// The assets that were waited for, as text.
        what: String,
        /// The time that the caller was willing to wait.
        within: Duration,
    },
    /// A text of a command is too long to be stored.
    #[error("{what} has {bytes} bytes, the limit is {limit}; shorten it")]
    TooLong {
        /// The text that is too long, such as "the reason".
        what: &'static str,
        /// Length of the text in bytes.
        bytes: usize,
        /// Maximum length of the text in bytes.
        limit: usize,
    },
    /// The incarnation to pin is old and unused, and retention is removing it.
    #[error("{partition}@{incarnation} is old and being removed; pin one that is kept")]
    Retired {
        /// The partition of the incarnation.
        partition: PartitionId,
        /// The number of the incarnation.
        incarnation: IncarnationNo,
    },
    /// An operator's command does not fit the present state, for example an unknown asset. It has no effect.
    #[error("refused: {why}")]
    Refused {
        /// Why it does not fit, and which command would fit.
        why: String,
    },
    /// The store cannot be read.
    #[error("the store cannot be read; check it, then ask again")]
    Store(#[from] control_plane_store::Error),
}
