//! Who works on a partition: ownership, fencing tokens, and how the living are told from the dead.
//!
//! Each process keeps one heartbeat record, `process/ID`. Each partition has one record of its owner,
//! `owner/PARTITION`, written only when ownership changes: its version is the [`FencingToken`](plugin_sdk::FencingToken),
//! and every commit of the owner expects it.
//!
//! A process is dead once its heartbeat has not moved for a *term* of an observer's own monotonic clock; no two clocks
//! are ever compared. Whoever takes over from a dead process removes its heartbeat in the same commit, so that it finds
//! out with its next beat. The other half is the [`Lease`]: a process that has not renewed its heartbeat for two thirds
//! of a term starts nothing, so it has stopped before anybody may take over.

use std::{fmt, sync::Arc};

use prodspec_model::PartitionId;
use serde::{Deserialize, Serialize};

use crate::{Key, KeyRange, Record, Topic, record};

pub use lease::Lease;
pub use observer::{Judged, Observer};
pub use process::{Acquire, Beat, Clock, Process};

mod lease;
mod observer;
mod process;
#[cfg(test)]
mod tests;

/// Names one run of a process: unique to it, so that a process started again is another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProcessId(Arc<str>);

impl ProcessId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn heartbeat(&self) -> Key {
        format!("process/{}", self.0).into()
    }
}

impl<T: Into<Arc<str>>> From<T> for ProcessId {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The record of a partition's owner. Its version is the fencing token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Who owns the partition.
    pub process: ProcessId,
}

impl Record for Owner {
    const KIND: &'static str = "owner";
}

/// The key of the record of `partition`'s owner.
pub fn key(partition: &PartitionId) -> Key {
    record::key(partition, Owner::KIND, "")
}

/// What is announced when `partition` may have become free.
pub fn topic(partition: &PartitionId) -> Topic {
    key(partition).as_str().into()
}

/// The heartbeats of all processes. Whoever knows that every other process is gone, such as a backend that only one
/// can open, removes them all: then takeover is immediate.
pub fn heartbeats() -> KeyRange {
    KeyRange::prefix("process/")
}
