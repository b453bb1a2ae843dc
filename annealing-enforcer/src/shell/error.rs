//! Why an enforcer ended.

/// Why an enforcer ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store is broken: nothing more is started.
    #[error("the store stopped: {0}; look at it, then start again")]
    Stopped(String),
    /// The store cannot be read.
    #[error(
        "what is remembered of the partition cannot be read; look at the store, then start again"
    )]
    Store(#[from] plane_store::Error),
    /// An incarnation cannot be read.
    #[error("an incarnation cannot be read; look at the store, then start again")]
    Incarnation(#[source] plane_store::incarnations::Error),
    /// A plan came to a state that must never be.
    #[error("no plan can be made: {0}; enforcement would stop there too, so report it")]
    Plan(String),
}

impl Error {
    /// Whether trying again later may help.
    pub(super) fn passes(&self) -> bool {
        use plane_store::{Error::Unavailable, incarnations};
        matches!(
            self,
            Self::Store(Unavailable { .. })
                | Self::Incarnation(incarnations::Error::Store(Unavailable { .. }))
        )
    }
}
