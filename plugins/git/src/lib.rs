#![doc = include_str!("../README.md")]

mod clone;
mod commit;
mod fetch;
mod snapshot;
mod source;
mod transport;

pub use source::Git;
