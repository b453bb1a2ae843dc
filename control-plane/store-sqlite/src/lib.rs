//! SQLite as a [`Store`](plane_store::Store): a directory, no server.
//!
//! One thread writes, and commits whatever waits together; a few threads read. The directory belongs to one process at
//! a time. Everything is in one table that the `sqlite3` shell can show: `select key, value from rows`.
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
