//! What the failure of a statement means for a commit or a read.

use control_plane_store::{Cause, CommitError, Error as ReadError};
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// Meaning of a failed statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It lost against a concurrent transaction; nothing was written. Repeat it.
    Repeat,
    /// The server refused it; nothing was written.
    Refused,
    /// The server has no room for another connection; nothing was sent.
    Full,
    /// The server is a standby or read-only, or lacks commits that this process was acknowledged, as after a change of
    /// roles that left this connection where it was. Nothing was written. All connections are opened again.
    Stale,
    /// The connection was lost, or the server ended the session: the outcome is unknown.
    Lost,
    /// The tables are damaged, or no longer those of the store.
    Broken,
}

/// Why a store refuses all work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Replaced {
    #[error("the tables were removed and created again, or the URL now leads to another database")]
    Identity,
    #[error(
        "the database lost commits that it had acknowledged to this process, as after a failover to an asynchronous \
         standby or a restored backup; restore the lost data, or restart the process to go on without it"
    )]
    Older,
    #[error("the tables have another format than when the store was opened")]
    Format,
}

/// Why a connection that works is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("the server is a standby or read-only; waiting for the primary")]
    Standby,
    #[error(
        "the server runs with `fsync = off` and may lose acknowledged commits; set `fsync = on` and reload it"
    )]
    Volatile,
}

/// The connection got no answer in time.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the server did not answer in time")]
pub(crate) struct Silent;

/// All connections are in use by other calls.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("all connections to the server stayed in use; use more of them, or look for a slow server")]
pub(crate) struct Busy;

/// The task of the store ended before it had a result.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the runtime of the store was shut down")]
pub(crate) struct Ended;

/// Says what the failure of a statement means that was sent on a working connection.
pub(crate) fn meaning(error: &sqlx::Error) -> Meaning {
    let database = match error {
        sqlx::Error::Database(error) => error.try_downcast_ref::<PgDatabaseError>(),
        // Nothing was sent.
        sqlx::Error::Encode(_) => return Meaning::Refused,
        _ => None,
    };
    let Some(database) = database else {
        return Meaning::Lost;
    };
    match database.code() {
        "40001" | "40P01" => Meaning::Repeat,
        // The server cannot tell either.
        "40003" => Meaning::Lost,
        code if code.starts_with("08") || code.starts_with("57P") => Meaning::Lost,
        // Before the severity: it ends the attempt to connect, and no session.
        "53300" => Meaning::Full,
        _ if ended(database.severity()) => Meaning::Lost,
        // Damaged tables and indexes; missing tables, functions and schemas.
        "XX001" | "XX002" | "42P01" | "42883" | "3F000" => Meaning::Broken,
        // The functions of the store found the tables of another store.
        "CP001" => Meaning::Broken,
        // R50: a standby, a read-only server, or one that lacks acknowledged commits. Whether they are lost is decided
        // by the next connection, because this one may lead to a server that was replaced.
        "25006" | "CP002" => Meaning::Stale,
        // No room on the disk, a failed read or write of a file, a timeout: the server has rolled back, and after a
        // failed sync it restarts by itself.
        _ => Meaning::Refused,
    }
}

fn ended(severity: PgSeverity) -> bool {
    matches!(severity, PgSeverity::Fatal | PgSeverity::Panic)
}

/// The code of a database's error; empty for other errors.
pub(crate) fn code(error: &sqlx::Error) -> String {
    let code = error.as_database_error().and_then(|error| error.code());
    code.unwrap_or_default().into_owned()
}

/// Translates the failure of a commit that is not repeated.
pub(crate) fn commit_error(meaning: Meaning, source: Cause) -> CommitError {
    match meaning {
        Meaning::Repeat | Meaning::Refused | Meaning::Full | Meaning::Stale => {
            CommitError::Unavailable { source }
        }
        Meaning::Lost => CommitError::Unknown { source },
        Meaning::Broken => CommitError::Poisoned { source },
    }
}

/// Translates the failure of a read.
pub(crate) fn read_error(meaning: Meaning, source: Cause) -> ReadError {
    match meaning {
        Meaning::Broken => ReadError::Poisoned { source },
        _ => ReadError::Unavailable { source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_that_are_not_the_servers_leave_the_outcome_unknown() {
        let lost = [
            sqlx::Error::Io(std::io::ErrorKind::UnexpectedEof.into()),
            sqlx::Error::Protocol("garbage".into()),
            sqlx::Error::WorkerCrashed,
        ];
        for error in lost {
            assert_eq!(meaning(&error), Meaning::Lost, "{error}");
        }
        let unsent = sqlx::Error::Encode("too large".into());
        assert_eq!(meaning(&unsent), Meaning::Refused);
    }
}
