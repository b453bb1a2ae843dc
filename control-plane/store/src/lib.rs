//! The one narrow store: everything durable goes through one transactional, ordered key-value trait.
//!
//! [`Store`] is the trait, [`MemoryStore`] a backend with fault injection; feature `testing` has the conformance suite
//! that every backend passes. Layers over it: [`owner`] (who works on a partition, and its fencing token), [`journal`]
//! (group commit of an owner's decisions), [`incarnations`] (what was sealed), [`record`] and [`records`] (typed small
//! values).

mod batch;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
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
