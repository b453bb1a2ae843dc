#![doc = include_str!("../README.md")]

mod columns;
mod limits;
mod listen;
mod memory;
mod query;
mod rows;
mod server;
mod snapshot;
mod source;
mod value;

pub use limits::Limits;
pub use query::Query;
pub use source::Postgres;
