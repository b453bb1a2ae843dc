//! Why an incarnation was not sealed, read or removed.

use prodspec_model::IncarnationNo;

/// Why an incarnation was not sealed, read or removed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed, refused, or is damaged.
    #[error(transparent)]
    Store(#[from] crate::Error),
    /// There is no such incarnation, or not any more.
    #[error("incarnation {0} is not in the store; it was never sealed, or retention removed it")]
    Unknown(IncarnationNo),
    /// The store is younger than what was known of it.
    #[error(
        "the store has {}, incarnation {known} was seen before; \
         try again, and if that persists, data was lost: restore a newer backup before going on",
        shown(found)
    )]
    Younger {
        /// What was known to be sealed.
        known: IncarnationNo,
        /// What the store says is in force.
        found: Option<IncarnationNo>,
    },
    /// What was to be sealed does not follow from the incarnation in force.
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
