//! Errors of opening a directory as a store, and the translation of SQLite's errors to those of commits and reads.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use control_plane_store::{Cause, CommitError, Version};
use rusqlite::ErrorCode;

use crate::damage::Damage;

/// Reason why a directory cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has the directory open.
    #[error(
        "{} is in use by process {by}; stop that process, or choose another directory",
        dir.display()
    )]
    InUse {
        /// Path of the store's directory.
        dir: PathBuf,
        /// Process id that the other process wrote into the lock file; empty if it wrote none.
        by: String,
    },
    /// The directory, or a file in it, cannot be created, locked or opened.
    #[error("{} cannot be opened; check the path and its permissions", path.display())]
    Io {
        /// Path that cannot be opened.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The database was cut, torn or overwritten.
    #[error("{} is damaged; restore the directory from a backup, or remove it to start with an empty store", path.display())]
    Damaged {
        /// Path of the database file.
        path: PathBuf,
        /// The check that found the damage.
        source: Cause,
    },
    /// The database lacks acknowledged commits.
    #[error(
        "{} is at commit {}, but commit {} was acknowledged: it or its log was cut, changed, or put back from an older \
         copy; restore the whole directory from the newest backup, or remove {} to continue without the lost commits",
        path.display(), found.0, acked.0, record.display()
    )]
    Lost {
        /// Path of the database file.
        path: PathBuf,
        /// Newest commit in the database.
        found: Version,
        /// Newest commit that was acknowledged.
        acked: Version,
        /// File that records the newest acknowledged commit.
        record: PathBuf,
    },
    /// The database does not exist, but another file of the store shows that it did.
    #[error(
        "{} is missing or empty, but {} exists; restore the whole directory from the newest backup, or remove the \
         directory to start with an empty store",
        path.display(), beside.display()
    )]
    Missing {
        /// Path of the database file.
        path: PathBuf,
        /// File that shows that there was a database.
        beside: PathBuf,
    },
    /// The record of the newest acknowledged commit cannot be read, so lost commits would not be detected.
    #[error(
        "{} is damaged; restore the whole directory from the newest backup, or remove this file to continue with the \
         commits in the database",
        path.display()
    )]
    Record {
        /// Path of the record file.
        path: PathBuf,
    },
    /// The database was written by another program, or by another version of this one.
    #[error("{} has format {found}, but this version reads {known}; use the version that wrote it", path.display())]
    Format {
        /// Path of the database file.
        path: PathBuf,
        /// Format version found in the database.
        found: i64,
        /// Format version that this program reads.
        known: i64,
    },
    /// The database can be read but not written.
    #[error("{} cannot be written; check its permissions and the room on its disk", path.display())]
    Refused {
        /// Path of the database file.
        path: PathBuf,
        /// Error of the first commit.
        source: CommitError,
    },
    /// SQLite refuses to open the database.
    #[error("{} cannot be opened as a database", path.display())]
    Database {
        /// Path of the database file.
        path: PathBuf,
        /// Error that SQLite returned at opening.
        source: rusqlite::Error,
    },
}

/// Translates a failure to open the database at `path`.
pub(crate) fn open_error(path: &Path, source: rusqlite::Error) -> Error {
    match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            damaged(path, Damage::Sqlite(source))
        }
        _ => Error::Database {
            path: path.to_owned(),
            source,
        },
    }
}

/// Creates the error for a damaged database at `path`.
pub(crate) fn damaged(path: &Path, damage: Damage) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        source: Arc::new(damage),
    }
}

/// Reason why a group of commits failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Sqlite(rusqlite::Error),
    /// The record of the newest acknowledged commit was not written.
    Acked(io::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Acked(error)
    }
}

/// Translates the failure of a group of commits.
pub(crate) fn commit_error(failure: Failure) -> CommitError {
    let error = match failure {
        Failure::Sqlite(error) => error,
        Failure::Acked(error) => return CommitError::poisoned(Damage::Acked(error)),
    };
    match error.sqlite_error_code() {
        // SQLite rolled the transaction back; nothing uncertain reached the medium.
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            CommitError::unavailable(error)
        }
        _ => CommitError::poisoned(error),
    }
}

/// Translates the failure of a read.
pub(crate) fn read_error(error: rusqlite::Error) -> control_plane_store::Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            control_plane_store::Error::damaged("the database", error)
        }
        _ => control_plane_store::Error::unavailable(error),
    }
}
