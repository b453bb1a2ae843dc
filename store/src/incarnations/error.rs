//! Errors of sealing, reading and removing incarnations.

use prodspec_model::IncarnationNo;

/// Reason why an incarnation was not sealed, read or removed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed, refused the operation, or is damaged.
    #[error(transparent)]
    Store(#[from] crate::Error),
    /// The incarnation does not exist, or was removed.
    #[error("incarnation {0} is not in the store; it was never sealed, or retention removed it")]
    Unknown(IncarnationNo),
    /// The store answered from a state older than an incarnation that is known to have been sealed. The same read may
    /// succeed later.
    #[error(
        "the store answered from an older state: it has {}, but incarnation {known} was seen before; reading it again",
        shown(found)
    )]
    Younger {
        /// Newest incarnation known to have been sealed.
        known: IncarnationNo,
        /// Incarnation in force according to the store; `None` means that it has none.
        found: Option<IncarnationNo>,
    },
    /// The store lost an incarnation that was sealed through this value, and acknowledged.
    #[error(
        "the store has {}, but had acknowledged incarnation {sealed}: data was lost; restore a newer backup",
        shown(found)
    )]
    Lost {
        /// Newest incarnation that was sealed.
        sealed: IncarnationNo,
        /// Incarnation in force according to the store; `None` means that it has none.
        found: Option<IncarnationNo>,
    },
    /// The incarnation to seal is not a successor of the one in force.
    #[error("not sealed: {0}; build the incarnation from the one in force")]
    Misfit(&'static str),
}

impl From<crate::CommitError> for Error {
    fn from(error: crate::CommitError) -> Self {
        Self::Store(error.into())
    }
}

fn shown(found: &Option<IncarnationNo>) -> String {
    found.map_or_else(
        || "no incarnation".into(),
        |no| format!("incarnation {no} in force"),
    )
}
