//! Commits whose callers wait until it is known what became of them.

use std::time::Duration;

use control_plane_runtime::Runtime;
use control_plane_store::{Batch, CommitError, Version};

use super::build::Workflows;

/// Maximum number of times that a batch is submitted.
const TRIES: u32 = 5;
/// Wait before it is submitted again.
const AGAIN: Duration = Duration::from_millis(100);

/// What became of a batch that was submitted until the store gave a certain answer, at most five times.
pub(super) struct Submitted {
    pub(super) last: Result<Version, CommitError>,
    /// An attempt before the last one may have been made.
    pub(super) uncertain: bool,
}

/// Submits a batch, again while the store cannot be reached or does not say what became of it.
pub(super) async fn submit<R: Runtime>(workflows: &Workflows<R>, batch: Batch) -> Submitted {
    let mut uncertain = false;
    for _ in 1..TRIES {
        match workflows.store.commit(batch.clone()).await {
            Err(error) if error.may_resubmit() => {
                uncertain |= matches!(error, CommitError::Unknown { .. });
                workflows.runtime.sleep(AGAIN).await;
            }
            last => return Submitted { last, uncertain },
        }
    }
    let last = workflows.store.commit(batch).await;
    Submitted { last, uncertain }
}
