//! The fence of a lane. A lane can begin again while a commit of the one before is still on its way, without a new owner
//! between them. Every commit expects the fence that its own lane has put up, so a late one is refused.

use control_plane_runtime::Runtime;
use control_plane_store::{Batch, Expect, Key, Version, owner, record};
use plugin_sdk::{BoxError, FencingToken};
use prodspec_model::PartitionId;

use super::{build::Workflows, submit::submit};

fn key(partition: &PartitionId) -> Key {
    record::key(partition, "workflow-fence", "")
}

/// Puts up a new fence, as the owner with this token.
pub(super) async fn put<R: Runtime>(
    workflows: &Workflows<R>,
    token: FencingToken,
) -> Result<Version, BoxError> {
    let partition = &workflows.partition;
    let batch = Batch::new()
        .expect_at(owner::key(partition), Version(token.0))
        .put(key(partition), token.0.to_string());
    Ok(submit(workflows, batch).await.last?)
}

/// Makes a batch expect the fence.
pub(super) fn behind(batch: Batch, partition: &PartitionId, fence: Version) -> Batch {
    batch.expect(key(partition), Expect::At(fence))
}
