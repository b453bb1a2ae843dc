//! Retention: after seals, removes old incarnations that nothing refers to any more.

use std::{collections::BTreeSet, time::Duration};

use annealing_enforcer::Handle as Enforcement;
use control_plane_runtime::Runtime;
use control_plane_store::{
    Batch, Version,
    incarnations::{Keep, Removed},
    owner,
};
use plugin_sdk::{BoxError, FencingToken};
use prodspec_gen::Status;
use prodspec_model::IncarnationNo;
use tokio::sync::watch;

use crate::{shared::Shared, trains};

/// Removes old incarnations after seals. To keep the cost low, it runs once per `keep / 10` seals.
pub(crate) async fn follow<R: Runtime>(
    shared: &Shared<R>,
    token: FencingToken,
    enforcement: &Enforcement<R>,
    mut status: watch::Receiver<Status>,
) {
    let mut last = IncarnationNo(0);
    let every = (shared.keep / 10).max(1) as u32;
    while status.changed().await.is_ok() {
        let newest = status.borrow_and_update().incarnation.clone();
        let Some(no) = newest.map(|header| header.id.no) else {
            continue;
        };
        if no.0 - last.0 < every {
            continue;
        }
        match remove_old(shared, token, enforcement).await {
            Ok(removed) => {
                last = no;
                if removed != Removed::default() {
                    tracing::info!(partition = %shared.partition, ?removed, "removed old incarnations");
                }
            }
            Err(error) => {
                tracing::warn!(partition = %shared.partition, %error, "failed to remove old incarnations; retrying after the next seal");
            }
        }
    }
}

async fn remove_old<R: Runtime>(
    shared: &Shared<R>,
    token: FencingToken,
    enforcement: &Enforcement<R>,
) -> Result<Removed, BoxError> {
    let kept = shared.incarnations.numbers().await?;
    let mut kept: BTreeSet<IncarnationNo> = kept.into_iter().collect();
    let mut old: BTreeSet<IncarnationNo> = kept.iter().rev().skip(shared.keep).copied().collect();
    let looked = kept.last().copied().unwrap_or_default();
    // Only the strategist knows which of them live rollouts need, and the lane which its calls read; without the two
    // nothing is removed.
    let (rollouts, lane) = (shared.rollouts.borrow().clone(), shared.lanes.running());
    let (Some(rollouts), Some(lane)) = (rollouts, lane) else {
        return Ok(Removed::default());
    };
    if old.is_empty() {
        return Ok(Removed::default());
    }
    let used = [
        rollouts.referenced().await?,
        lane.referenced().await?,
        trains::versions(shared).await?,
    ];
    for referenced in used.iter().flatten() {
        old.remove(referenced);
    }
    // From here on none of these incarnations can become the intent of an asset, and no new decision cites them.
    let retired = enforcement.retire(old).await?;
    kept.retain(|no| !retired.contains(no));
    let keep = Keep {
        after: looked,
        count: shared.keep,
        age: Duration::ZERO,
        pinned: kept,
    };
    let now = shared.runtime.now().wall;
    let owner = Batch::new().expect_at(owner::key(&shared.partition), Version(token.0));
    Ok(shared.incarnations.retain(&keep, now, &owner).await?)
}
