#![doc = include_str!("../README.md")]
//!
//! # Layers over the trait
//!
//! [`owner`] (which process owns a partition, and its fencing token), [`journal`] (group commit of an owner's
//! decisions), [`incarnations`] (sealed intent), [`record`] and [`records`] (small typed values).

mod batch;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod contents;
mod error;
pub mod incarnations;
pub mod journal;
mod key;
pub mod memory;
pub mod owner;
pub mod record;
pub mod records;
mod store;
mod watch;

pub use batch::{Batch, BatchId, Expect, Topic, Write, limit};
pub use error::{Cause, CommitError, Error};
pub use key::{Key, KeyRange};
pub use memory::MemoryStore;
pub use record::Record;
pub use store::{Page, Store, Version, Versioned};
pub use watch::Watchers;
