//! Why a change of a source was not made.

use prodspec_model::Revision;

use crate::problem::Problems;

/// The reason why a change was not made, which says what the caller can do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The source has another revision by now. Nothing was changed; propose the change again.
    #[error("the source has changed meanwhile; its revision is now {}", now.0)]
    Moved {
        /// The present revision of the source.
        now: Revision,
    },
    /// The change does not fit the content of the source. Nothing was changed; decide anew.
    #[error("{0}")]
    Refused(Problems),
    /// The source could not be read or written. Nothing was changed; trying again can help.
    #[error("{0}")]
    Failed(Problems),
    /// The change may have been made, or not. Propose it again, and see.
    #[error("it is not known whether the change was made: {0}")]
    Unknown(Problems),
}
