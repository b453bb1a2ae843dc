//! Errors of reads and commits, in classes that tell the caller what to do next.

use std::{error, sync::Arc};

use crate::{Key, Version};

/// Underlying cause of an error. Shared, because one failure may be the answer to many commits.
pub type Cause = Arc<dyn error::Error + Send + Sync>;

/// Reason why a batch was not acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// An expectation did not hold; nothing was written. Read the key again and decide again.
    #[error(
        "`{key}` is not as expected ({}); read it again and decide again",
        shown(found)
    )]
    Conflict {
        /// The first key that was not as expected.
        key: Key,
        /// Version at which the key was last written; `None` means that the key does not exist.
        found: Option<Version>,
    },
    /// The store failed during the commit: the batch may or may not be committed. Submit the same batch, under the same
    /// id, again.
    #[error(
        "the store failed during the commit and its outcome is unknown; submit the same batch again"
    )]
    Unknown {
        /// Failure of the store or of its connection.
        source: Cause,
    },
    /// The batch is over a size limit; nothing was written. Write in smaller pieces.
    #[error("{what} has {bytes} bytes, the limit is {limit}; write it in smaller pieces")]
    TooLarge {
        /// The part that is too large: a key, a value or the whole batch.
        what: String,
        /// Size of that part in bytes.
        bytes: usize,
        /// Largest allowed size in bytes.
        limit: usize,
    },
    /// The store cannot be reached or has no room; nothing was written. Submit the batch again later.
    #[error("the store is unavailable; nothing was written, try again later")]
    Unavailable {
        /// Failure of the store or of its connection.
        source: Cause,
    },
    /// Writing to the medium failed, so its content is uncertain. Stop, check the medium, and open the store again.
    #[error(
        "writing to the store's medium failed; the store stays closed: check the medium, then open the store again"
    )]
    Poisoned {
        /// Failure of the write or of the sync.
        source: Cause,
    },
}

impl CommitError {
    /// Creates [`CommitError::Unknown`]: the batch may or may not be committed.
    pub fn unknown(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = Cause::from(source.into());
        Self::Unknown { source }
    }

    /// Creates [`CommitError::Unavailable`]: the store cannot be reached and nothing was written.
    pub fn unavailable(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = Cause::from(source.into());
        Self::Unavailable { source }
    }

    /// Creates [`CommitError::Poisoned`]: the store refuses work until it is opened again.
    pub fn poisoned(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = Cause::from(source.into());
        Self::Poisoned { source }
    }

    /// Whether to submit the same batch again: true if the outcome is unknown or the store could not be reached.
    pub fn may_resubmit(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Unavailable { .. })
    }
}

fn shown(found: &Option<Version>) -> String {
    found.map_or_else(
        || "it is absent".into(),
        |Version(n)| format!("it is at version {n}"),
    )
}

/// Reason why a read or another operation on the store failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be reached. Try again later.
    #[error("the store is unavailable; try again later")]
    Unavailable {
        /// Failure of the store or of its connection.
        source: Cause,
    },
    /// The medium failed earlier. Stop, check the medium, and open the store again.
    #[error(
        "the store's medium failed; the store stays closed: check the medium, then open the store again"
    )]
    Poisoned {
        /// Failure of the write or of the sync.
        source: Cause,
    },
    /// The stored data differs from the data that was written, or cannot be parsed. Restore it from a backup, or remove
    /// it.
    #[error("{what} is damaged; restore it from a backup, or remove it")]
    Damaged {
        /// Name of the damaged part, such as a key.
        what: String,
        /// The failed comparison or the error of the parser.
        source: Cause,
    },
    /// A record cannot be written as JSON. Change its type: map keys must be text, and numbers finite.
    #[error(
        "the record `{key}` cannot be written as JSON; its map keys must be text and its numbers finite"
    )]
    Unwritable {
        /// Key under which the record was to be stored.
        key: Key,
        /// Error of the JSON serializer.
        source: Arc<serde_json::Error>,
    },
    /// A commit failed; see [`CommitError`].
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl Error {
    /// Whether the store refuses all work until it is opened again.
    pub fn is_poisoned(&self) -> bool {
        use CommitError::Poisoned;
        matches!(self, Self::Poisoned { .. } | Self::Commit(Poisoned { .. }))
    }

    /// Creates [`Error::Unavailable`]: the store cannot be reached.
    pub fn unavailable(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = Cause::from(source.into());
        Self::Unavailable { source }
    }

    /// Creates [`Error::Poisoned`]: the store refuses work until it is opened again.
    pub fn poisoned(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = Cause::from(source.into());
        Self::Poisoned { source }
    }

    /// Creates [`Error::Damaged`]: `what` is not the data that was written.
    pub fn damaged(
        what: impl Into<String>,
        source: impl Into<Box<dyn error::Error + Send + Sync>>,
    ) -> Self {
        Self::Damaged {
            what: what.into(),
            source: Cause::from(source.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_source_is_not_repeated_in_the_message() {
        let error = Error::from(CommitError::unavailable("disk full"));
        assert!(!error.to_string().contains("disk full"));
        assert_eq!(
            error.source().map(ToString::to_string).as_deref(),
            Some("disk full")
        );
    }
}
