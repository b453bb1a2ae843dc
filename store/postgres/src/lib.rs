#![doc = include_str!("../README.md")]

mod error;
mod failure;
mod listen;
mod marks;
mod options;
mod postgres_store;
mod read;
mod schema;
mod session;
mod statement;

pub use error::Error;
pub use options::Options;
pub use postgres_store::PostgresStore;
