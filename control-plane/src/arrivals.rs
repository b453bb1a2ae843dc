//! R18: assets that come while a change is live take their turn in it.

use std::{convert::Infallible, time::Duration};

use annealing_strategist::{Handle as Rollouts, change::Arrivals};
use control_plane_runtime::{Outage, Runtime};
use prodspec_model::{Asset, AssetId};

use crate::{
    handle::{Error, Handle},
    roll_out::{RollOutRefused, Sought, by_edits, sought, tried},
};

/// Wait before assets that could not be added are tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// Adds assets that come to the live changes that are for them, while this process owns the partition. It does not end.
pub(crate) async fn include<R: Runtime>(handle: Handle<R>) -> Infallible {
    let mut owned = handle.shared.rollouts.subscribe();
    let mut outage = Outage::default();
    loop {
        // The sender is in `handle`, so waiting cannot fail.
        let rolling = owned.wait_for(Option::is_some).await;
        let rolling = rolling.ok().and_then(|it| it.clone());
        let included = match rolling {
            Some(rolling) => next(&handle, &rolling).await,
            None => Ok(()),
        };
        let now = handle.shared.runtime.now().mono;
        match included {
            Ok(()) => drop(outage.over(now, "adding assets to live changes")),
            Err(error) => {
                if outage.failed(now) {
                    tracing::warn!(partition = %handle.shared.partition, error = &error as &dyn std::error::Error, "failed to add assets that came to live changes; retrying every 30 s");
                }
                handle.shared.runtime.sleep(AGAIN).await;
            }
        }
    }
}

/// Waits until assets have come, and adds them. One that cannot be added does not hold up the others.
///
/// # Errors
/// The first of those that are tried again.
async fn next<R: Runtime>(handle: &Handle<R>, rolling: &Rollouts<R>) -> Result<(), Error> {
    let mut all = Ok(());
    let arrivals = rolling.arrivals().await?;
    // Before the first run, it is not known from which entry an asset is made.
    let mut generation = handle.wait_until_owner().await.watch();
    drop(generation.wait_for(|status| status.runs > 0).await);
    for arrivals in arrivals {
        if arrivals.assets.len() > 1 && add(handle, rolling, &arrivals).await.is_ok() {
            continue;
        }
        for asset in &arrivals.assets {
            let mut one = arrivals.clone();
            one.assets = vec![asset.clone()];
            all = all.and(add_one(handle, rolling, &one).await);
        }
    }
    all
}

/// Adds one asset, or leaves it to a person if the change can never be made for it.
async fn add_one<R: Runtime>(
    handle: &Handle<R>,
    rolling: &Rollouts<R>,
    one: &Arrivals,
) -> Result<(), Error> {
    match add(handle, rolling, one).await {
        Err(Error::RollOut(refused)) if !matches!(refused, RollOutRefused::NoEntry(_)) => {
            tracing::warn!(partition = %handle.shared.partition, change = %one.key, error = &refused as &dyn std::error::Error, "an asset that came is left out of a live change; set its field by hand, or make a change for it");
            rolling.join(one, Vec::new(), one.assets.clone()).await?;
            Ok(())
        }
        outcome => outcome,
    }
}

/// Tries the change for these assets, reserves their fields, and adds them, all of them or none.
async fn add<R: Runtime>(
    handle: &Handle<R>,
    rolling: &Rollouts<R>,
    arrivals: &Arrivals,
) -> Result<(), Error> {
    let latest = handle.latest().await?;
    let there = arrivals.assets.iter().filter_map(|id| latest.asset(id));
    let there: Vec<Asset> = there.collect();
    let Some(first) = there.first() else {
        return Err(Error::NoIncarnation(handle.shared.partition.clone()));
    };
    by_edits(handle, &there).await?;
    let sought = sought(handle, &arrivals.change, &there).await?;
    if sought.source != arrivals.source {
        return Err(RollOutRefused::OtherSource(first.id(), sought.source).into());
    }
    has_known_values(&sought, arrivals)?;
    let is_set = |id: &AssetId| !sought.fields.contains_key(id);
    let beside = there.iter().map(Asset::id).filter(is_set).collect();
    let holder = (arrivals.by.clone(), arrivals.holder.clone());
    let (edit, targets) = tried(handle, holder, sought).await?;
    if !targets.is_empty() {
        let batch = arrivals.batch(&handle.shared.partition, &targets)?;
        handle.desk().await?.reserve(&edit, batch).await?;
    }
    if !rolling.join(arrivals, targets, beside).await? {
        // The change has ended meanwhile.
        handle.desk().await?.release(&arrivals.holder).await?;
    }
    Ok(())
}

/// Checks that each field is absent or has a value that a target had before. Another one is a person's.
fn has_known_values(sought: &Sought, arrivals: &Arrivals) -> Result<(), Error> {
    for (asset, edits) in &sought.fields {
        for edit in edits {
            let mut known = arrivals.known.iter();
            let is_known = known.any(|known| known.to == edit.to && known.was == edit.was);
            if edit.was.is_some() && !is_known {
                return Err(RollOutRefused::Field {
                    asset: asset.clone(),
                    path: edit.path.clone(),
                    why: "it has a value that no target of the change had".to_owned(),
                }
                .into());
            }
        }
    }
    Ok(())
}
