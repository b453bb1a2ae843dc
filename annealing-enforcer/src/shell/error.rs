//! The errors that end an enforcer or a plan.

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
                | Self::Incarnation(incarnations::Error::Store(Unavailable { .. }))
        )
    }
}
