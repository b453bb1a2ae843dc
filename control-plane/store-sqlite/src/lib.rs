//! SQLite as a [`Store`](plane_store::Store): a directory, no server.
//!
//! One thread writes, and commits whatever waits together; a few threads read. The directory belongs to one process at
//! a time. Everything is in one table that the `sqlite3` shell can show: `select key, value from rows`.

mod database;
mod directory;
mod error;
mod reader;
mod sqlite_store;
mod writer;

pub use error::Error;
pub use sqlite_store::SqliteStore;
