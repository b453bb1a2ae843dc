//! Failures of reads and commits, in the classes that decide what the caller may do next.

use std::{error, sync::Arc};

use crate::{Key, Version};

/// What lies beneath a failure. Shared, since one failure may answer many commits.
pub type Cause = Arc<dyn error::Error + Send + Sync>;

/// Why a batch was not acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// An expectation did not hold: nothing was written. Read again and decide again.
    #[error(
        "`{key}` is not as expected ({}); read it again and decide again",
        shown(found)
    )]
    Conflict {
        /// The first key that was not as expected.
        key: Key,
        /// The version at which it was last written, if it is there.
        found: Option<Version>,
    },
    /// It is not known whether the batch was committed. Submit the same batch, under the same id, again.
    #[error("the store was lost in mid-commit; submit the same batch again")]
    Unknown {
        /// What lies beneath.
        source: Cause,
    },
    /// The batch is over a limit: nothing was written.
    #[error("{what} has {bytes} bytes, the limit is {limit}; write it in smaller pieces")]
    TooLarge {
        /// What is too large.
        what: String,
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The store cannot be reached or has no room: nothing was written. Submit the batch again later.
    #[error("the store is unavailable; nothing was written, try again later")]
    Unavailable {
        /// What lies beneath.
        source: Cause,
    },
    /// Writing to the medium failed and what is on it is no longer certain. Stop, look at the medium, and open the
    /// store again.
    #[error(
        "writing to the store's medium failed; it stays closed until the medium was looked at and the store is opened again"
    )]
    Poisoned {
        /// What lies beneath.
        source: Cause,
    },
}

impl CommitError {
    /// Not known whether it was committed.
    pub fn unknown(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = Cause::from(source.into());
        Self::Unknown { source }
    }

    /// Out of reach; nothing was written.
    pub fn unavailable(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = Cause::from(source.into());
        Self::Unavailable { source }
    }

    /// Broken until opened again.
    pub fn poisoned(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = Cause::from(source.into());
        Self::Poisoned { source }
    }

    /// Whether submitting the same batch again may succeed: the outcome is unknown, or the store was out of reach.
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

/// Why something could not be read from the store, or done through it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be reached. Try again later.
    #[error("the store is unavailable; try again later")]
    Unavailable {
        /// What lies beneath.
        source: Cause,
    },
    /// The medium failed earlier. Stop, look at the medium, and open the store again.
    #[error(
        "the store's medium failed; it stays closed until the medium was looked at and the store is opened again"
    )]
    Poisoned {
        /// What lies beneath.
        source: Cause,
    },
    /// What is stored is not what was written, or cannot be understood. Restore it from a backup, or remove it.
    #[error("{what} is damaged; restore it from a backup, or remove it")]
    Damaged {
        /// What is damaged, such as a key.
        what: String,
        /// How it was noticed.
        source: Cause,
    },
    /// A record cannot be written as JSON. Change its type: keys of maps must be text, numbers finite.
    #[error("the record `{key}` cannot be written as JSON; use text as keys of maps")]
    Unwritable {
        /// The key of the record.
        key: Key,
        /// What JSON cannot hold.
        source: Arc<serde_json::Error>,
    },
    /// A commit failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl Error {
    /// Whether the store does nothing any more until it is opened again.
    pub fn is_poisoned(&self) -> bool {
        use CommitError::Poisoned;
        matches!(self, Self::Poisoned { .. } | Self::Commit(Poisoned { .. }))
    }

    /// Out of reach.
    pub fn unavailable(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = Cause::from(source.into());
        Self::Unavailable { source }
    }

    /// Broken until opened again.
    pub fn poisoned(source: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        let source = Cause::from(source.into());
        Self::Poisoned { source }
    }

    /// `what` is not what was written.
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
    fn the_source_is_told_once() {
        let error = Error::from(CommitError::unavailable("disk full"));
        assert!(!error.to_string().contains("disk full"));
        assert_eq!(
            error.source().map(ToString::to_string).as_deref(),
            Some("disk full")
        );
    }
}
