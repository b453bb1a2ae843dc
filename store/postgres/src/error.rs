//! Errors of opening a database as a store.

/// Reason why a database cannot be used as a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is not one of a PostgreSQL database.
    #[error(
        "the URL of the store cannot be used; write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE"
    )]
    Url {
        /// Error of the parser of URLs.
        source: sqlx::Error,
    },
    /// The name of the schema is not one of lower-case letters, digits and underscores.
    #[error(
        "`{}` cannot name the schema of a store; use at most 48 of a-z, 0-9 and _, beginning with a letter",
        name.escape_debug()
    )]
    Schema {
        /// The name that was given.
        name: String,
    },
    /// The server cannot be reached or refuses the connection.
    #[error("cannot connect to {place}; check the server, its `pg_hba.conf` and the URL")]
    Unreachable {
        /// Host, database and schema of the store.
        place: String,
        /// Error of the connection attempt; contains no password.
        source: sqlx::Error,
    },
    /// The connection does not keep the settings of its session.
    #[error(
        "the connection to {place} ignores the isolation or the schema that it was opened with; connect to the server \
         itself, not to a pooler that shares connections"
    )]
    Settings {
        /// Host, database and schema of the store.
        place: String,
    },
    /// The server is a standby or read-only.
    #[error("{place} is on a standby or a read-only server; connect to the primary")]
    Standby {
        /// Host, database and schema of the store.
        place: String,
    },
    /// The server runs with `fsync = off`: it may lose commits that it has acknowledged.
    #[error(
        "the server of {place} runs with `fsync = off` and may lose acknowledged commits; set `fsync = on` and reload it"
    )]
    Volatile {
        /// Host, database and schema of the store.
        place: String,
    },
    /// The server refuses to create or to read the tables.
    #[error(
        "cannot use {place}; let the role create the schema (`grant create on database`), or create the schema for it \
         and make the role its owner"
    )]
    Refused {
        /// Host, database and schema of the store.
        place: String,
        /// Error that the server answered with.
        source: sqlx::Error,
    },
    /// The schema has tables that are not those of a store.
    #[error("{place} has tables of another program; choose another schema")]
    Foreign {
        /// Host, database and schema of the store.
        place: String,
        /// Error that the server answered with.
        source: sqlx::Error,
    },
    /// The tables were written by another version of this program.
    #[error(
        "{place} has format {found}, but this version reads {known}; use the version that wrote it, or another schema"
    )]
    Format {
        /// Host, database and schema of the store.
        place: String,
        /// Format version found in the database.
        found: i64,
        /// Format version that this program reads.
        known: i64,
    },
}
