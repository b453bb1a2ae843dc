#![doc = include_str!("../README.md")]

mod acked;
mod damage;
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
