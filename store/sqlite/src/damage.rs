//! The kinds of damage that checks of a database find.

use std::path::PathBuf;

use control_plane_store::Version;

/// Damage found in a database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("the row `{}` does not match its checksum", .0.escape_debug())]
    Row(String),
    #[error("the record of batches does not match its checksums")]
    Batches,
    #[error("rows are missing, or belong to another commit than the newest recorded one")]
    Content,
    #[error("the table definitions differ from the ones that were created")]
    Tables,
    #[error("{0}")]
    Structure(String),
    #[error("{} was removed or replaced while the store was open", .0.display())]
    Gone(PathBuf),
    #[error("its commit {} is not the one that was acknowledged", .0.0)]
    Other(Version),
    #[error("the newest acknowledged commits cannot be completed from their records")]
    Redo,
    #[error("the record of the newest commit cannot be written")]
    Acked(#[source] std::io::Error),
    #[error("SQLite cannot read the database")]
    Sqlite(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for Damage {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}
