//! Retention: after seals, old incarnations that nobody speaks of any more are removed.

use std::{collections::BTreeSet, time::Duration};

use annealing_enforcer::Handle as Enforcement;
use plane_runtime::Runtime;
use plane_store::{
    Batch, Version,
    incarnations::{Keep, Removed},
    owner,
    record::{self, Record},
    records::Decisions,
};
use plugin_sdk::{BoxError, FencingToken};
use prodspec_gen::Status;
use prodspec_model::IncarnationNo;
use tokio::sync::watch;

use crate::plane::Shared;

/// How many records of decisions are read at a time.
const PAGE: usize = 1000;

/// Looks after seals, but not after each: what it costs is shared by a tenth of what is kept.
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
        last = no;
        match remove_old(shared, token, enforcement).await {
            Ok(removed) if removed == Removed::default() => {}
            Ok(removed) => {
                tracing::info!(partition = %shared.partition, ?removed, "removed old incarnations");
            }
            Err(error) => {
                tracing::warn!(partition = %shared.partition, %error, "old incarnations were not removed; tried again after a later seal");
            }
        }
    }
}

async fn remove_old<R: Runtime>(
    shared: &Shared<R>,
    token: FencingToken,
    enforcement: &Enforcement<R>,
) -> Result<Removed, BoxError> {
    let first = IncarnationNo(0);
    let kept = shared.incarnations.headers(first, shared.keep + 1).await?;
    if kept.len() <= shared.keep {
        return Ok(Removed::default());
    }
    let mut pinned = decided(shared).await?;
    pinned.extend(enforcement.cited().await?);
    let rollouts = shared.rollouts.borrow().clone();
    if let Some(rollouts) = rollouts {
        pinned.extend(rollouts.cited().await?);
    }
    let keep = Keep {
        count: shared.keep,
        age: Duration::ZERO,
        pinned,
    };
    let now = shared.runtime.now().wall;
    let owner = Batch::new().expect_at(owner::key(&shared.partition), Version(token.0));
    Ok(shared.incarnations.retain(&keep, now, &owner).await?)
}

/// The incarnations that kept decisions speak of.
async fn decided<R>(shared: &Shared<R>) -> Result<BTreeSet<IncarnationNo>, plane_store::Error> {
    let mut found = BTreeSet::new();
    let mut rest = Some(record::range(&shared.partition, Decisions::KIND));
    while let Some(range) = rest {
        let page = shared.store.scan(range, PAGE).await?;
        for (key, row) in &page.rows {
            let decisions = record::decode::<Decisions>(key, row)?.value;
            found.extend(decisions.0.iter().map(|decision| decision.incarnation));
        }
        rest = page.rest;
    }
    Ok(found)
}
