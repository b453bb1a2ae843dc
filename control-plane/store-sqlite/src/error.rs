//! Why a directory cannot be opened as a store, and what SQLite's failures mean to whoever commits or reads.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use plane_store::{Cause, CommitError, Version};
use rusqlite::ErrorCode;

use crate::database::Damage;

/// A directory cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has it open.
    #[error(
        "{} is in use by process {by}; stop that process, or choose another directory",
        dir.display()
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// Who has it open, as far as it said so.
        by: String,
    },
    /// The directory or a file in it cannot be created, locked or opened.
    #[error("{} cannot be opened; check the path and its permissions", path.display())]
    Io {
        /// What cannot be opened.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The database is not what was written: torn, cut or overwritten.
    #[error("{} is damaged; restore the directory from a backup, or remove it to begin anew", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// How it was noticed.
        source: Cause,
    },
    /// The database has less than was acknowledged.
    #[error(
        "{} is at commit {}, but commit {} was acknowledged: it or its log was cut, changed, or put back from an older \
         copy; restore the whole directory from the newest backup, or remove {} to go on without what is lost",
        path.display(), found.0, acked.0, record.display()
    )]
    Lost {
        /// The database.
        path: PathBuf,
        /// The newest commit in it.
        found: Version,
        /// The newest commit that was acknowledged.
        acked: Version,
        /// The file that remembers it.
        record: PathBuf,
    },
    /// The database is not there, but what lies beside it says that there was one.
    #[error(
        "{} is missing or empty, but {} is there; restore the whole directory from the newest backup, or remove it to \
         begin anew",
        path.display(), beside.display()
    )]
    Missing {
        /// The database.
        path: PathBuf,
        /// What is there of it.
        beside: PathBuf,
    },
    /// The record of the newest acknowledged commit cannot be read, so a loss would not be noticed.
    #[error(
        "{} is damaged; restore the whole directory from the newest backup, or remove this file to go on from what the \
         database has",
        path.display()
    )]
    Record {
        /// The file.
        path: PathBuf,
    },
    /// The database is of another program, or of another version of this one.
    #[error("{} has format {found}, this version reads {known}; use the version that wrote it", path.display())]
    Format {
        /// The database.
        path: PathBuf,
        /// The format found.
        found: i64,
        /// The format known.
        known: i64,
    },
    /// It can be read but not written.
    #[error("{} cannot be written; check its permissions and the room on its disk", path.display())]
    Refused {
        /// The database.
        path: PathBuf,
        /// Why the first commit failed.
        source: CommitError,
    },
    /// SQLite refuses to open it.
    #[error("{} cannot be opened as a database", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
}

/// What a failure to open the database at `path` means.
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

/// That the database at `path` is not what was written.
pub(crate) fn damaged(path: &Path, damage: Damage) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        source: Arc::new(damage),
    }
}

/// Why a group of commits failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Sqlite(rusqlite::Error),
    /// The record of what is acknowledged was not written.
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

/// What a failed commit means.
pub(crate) fn commit_error(failure: Failure) -> CommitError {
    let error = match failure {
        Failure::Sqlite(error) => error,
        Failure::Acked(error) => return CommitError::poisoned(Damage::Acked(error)),
    };
    match error.sqlite_error_code() {
        // SQLite undid all of it; nothing uncertain reached the medium.
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            CommitError::unavailable(error)
        }
        _ => CommitError::poisoned(error),
    }
}

/// What a failed read means.
pub(crate) fn read_error(error: rusqlite::Error) -> plane_store::Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            plane_store::Error::damaged("the database", error)
        }
        _ => plane_store::Error::unavailable(error),
    }
}
