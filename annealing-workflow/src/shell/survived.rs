//! The note of a process that has lost a partition and lived on, so that its end does not count as a death (R26).

use std::sync::Arc;

use control_plane_runtime::Runtime;
use control_plane_store::{Batch, Key, record};
use plugin_sdk::operation::KeyIdentity;
use prodspec_model::PartitionId;

use super::{build::Workflows, submit::submit};
use crate::record::SurvivedRecord;

/// The key of the note of an owner.
pub(super) fn key(partition: &PartitionId, owner: KeyIdentity) -> Key {
    use control_plane_store::Record as _;
    record::key(partition, SurvivedRecord::KIND, &owner.to_string())
}

/// Writes the note when it is dropped, unless the lane has ended in order. The process lives on then: one that dies drops
/// nothing.
pub(super) struct Survives<R: Runtime> {
    workflows: Arc<Workflows<R>>,
    owner: Option<KeyIdentity>,
}

impl<R: Runtime> Survives<R> {
    pub(super) fn new(workflows: Arc<Workflows<R>>, owner: KeyIdentity) -> Self {
        let owner = Some(owner);
        Self { workflows, owner }
    }

    /// All calls have ended or are handed over: there is nothing to note.
    pub(super) fn ends_in_order(mut self) {
        self.owner = None;
    }
}

impl<R: Runtime> Drop for Survives<R> {
    fn drop(&mut self) {
        let Some(owner) = self.owner.filter(|_| !std::thread::panicking()) else {
            return;
        };
        let workflows = self.workflows.clone();
        self.workflows.runtime.spawn(Box::pin(async move {
            let partition = &workflows.partition;
            let name = owner.to_string();
            let Ok(note) = record::put(partition, &name, &SurvivedRecord {}) else {
                return;
            };
            if let Err(error) = submit(&workflows, Batch::new().write(note)).await.last {
                tracing::warn!(%partition, %error, "failed to note that this process lives on; calls that were in flight count it as dead");
            }
        }));
    }
}
