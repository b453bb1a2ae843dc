//! A [`Store`](control_plane_store::Store) on SQLite: a directory with a few files, without a server.
//!
//! One thread writes, and commits all waiting batches together; a few threads read. One process at a time can open the
//! directory. All data is in one table that the `sqlite3` shell can show: `select key, value from rows`.
//!
//! A backup is a copy of the whole directory, taken while no process has it open.

mod acked;
mod database;
mod directory;
mod error;
mod opening;
mod reader;
mod redo;
mod sqlite_store;
mod writer;

pub use error::Error;
pub use sqlite_store::SqliteStore;
