//! Ownership of partitions: owner records, fencing tokens, heartbeats and leases.
//!
//! Each process keeps one heartbeat record, `process/ID`. Each partition has one owner record, `owner/PARTITION`. It is
//! written only when ownership changes; its version is the [`FencingToken`](plugin_sdk::FencingToken), and every commit
//! of the owner expects it.
//!
//! An observer considers a process dead once the heartbeat of that process has not moved for one *term* on the
//! observer's own monotonic clock. Clocks of different processes are never compared. A process that takes over from a
//! dead one removes the dead one's heartbeat in the same commit; if the other process is in fact alive, it learns of
//! this with its next heartbeat. The [`Lease`] is the counterpart: a process that has not renewed its heartbeat for two
//! thirds of a term starts nothing, so it has stopped before another process may take over.

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

/// Id of one run of a process. A restarted process has a new id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProcessId(Arc<str>);

impl ProcessId {
    /// The id of the process as text.
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

/// The record that names the owner of a partition. Its version is the fencing token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process that owns the partition.
    pub process: ProcessId,
}

impl Record for Owner {
    const KIND: &'static str = "owner";
}

/// Returns the key of the owner record of `partition`.
pub fn key(partition: &PartitionId) -> Key {
    record::key(partition, Owner::KIND, "")
}

/// Returns the topic that is announced when `partition` may have become free.
pub fn topic(partition: &PartitionId) -> Topic {
    key(partition).as_str().into()
}

/// Returns the range of the heartbeats of all processes. Removing them all makes takeovers immediate. Only a process
/// that knows that every other process has ended may do this, such as one with a store that a single process can open.
pub fn heartbeats() -> KeyRange {
    KeyRange::prefix("process/")
}
