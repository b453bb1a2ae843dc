//! R18: assets that come while a change is live take their turn in it.

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use annealing_strategist::{Handle as Rollouts, change::LiveChange};
use control_plane_runtime::{Outage, Runtime};
use plugin_sdk::FieldEdit;
use prodspec_model::{Asset, AssetId, Incarnation, rollout::RolloutPolicy};

use crate::{
    desk::EditRefused,
    handle::{Error, Handle},
    roll_out::{RollOutRefused, by_edits, policy_of, tried},
    sought::{Sought, sought},
};

/// Wait before a strategist that has ended is looked for again.
const SOON: Duration = Duration::from_secs(1);
/// Wait before assets that could not be added are tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// Adds assets that come to the live changes that are for them, while this process owns the partition. It does not end.
pub(crate) async fn include<R: Runtime>(handle: Handle<R>) -> Infallible {
    let runtime = &handle.shared.runtime;
    let mut owned = handle.shared.rollouts.subscribe();
    let mut outage = Outage::default();
    loop {
        // The sender is in `handle`, so waiting cannot fail.
        let rolling = owned.wait_for(Option::is_some).await;
        let rolling = rolling.ok().and_then(|it| it.clone());
        let Some(rolling) = rolling else { continue };
        let Ok(arrivals) = rolling.arrivals().await else {
            // The ownership has ended, or the strategist starts again.
            runtime.sleep(SOON).await;
            continue;
        };
        match add_all(&handle, &rolling, arrivals).await {
            Ok(()) => drop(outage.over(runtime.now().mono, "adding assets to live changes")),
            Err(error) => {
                if outage.failed(runtime.now().mono) {
                    tracing::warn!(partition = %handle.shared.partition, error = &error as &dyn std::error::Error, "failed to add assets that came to live changes; retrying every 30 s");
                }
                runtime.sleep(AGAIN).await;
            }
        }
    }
}

/// Adds assets that have come. One that cannot be added does not hold up the others.
///
/// # Errors
/// The first of those that are tried again.
async fn add_all<R: Runtime>(
    handle: &Handle<R>,
    rolling: &Rollouts<R>,
    all: Vec<LiveChange>,
) -> Result<(), Error> {
    // Before the first run, it is not known from which entry an asset is made.
    let mut generation = handle.wait_until_owner().await.watch();
    drop(generation.wait_for(|status| status.runs > 0).await);
    let mut result = Ok(());
    for arrivals in all {
        if arrivals.arrivals.len() > 1 && add(handle, rolling, &arrivals).await.is_ok() {
            continue;
        }
        for asset in &arrivals.arrivals {
            let mut one = arrivals.clone();
            one.arrivals = vec![asset.clone()];
            result = result.and(add_one(handle, rolling, &one).await);
        }
    }
    result
}

/// Adds one asset, or leaves it to a person if the change cannot be made for it.
async fn add_one<R: Runtime>(
    handle: &Handle<R>,
    rolling: &Rollouts<R>,
    one: &LiveChange,
) -> Result<(), Error> {
    match add(handle, rolling, one).await {
        Err(error) if is_final(handle, &error).await => {
            tracing::warn!(partition = %handle.shared.partition, change = %one.key, error = &error as &dyn std::error::Error, "an asset that came is left out of a live change; set its field by hand, or make a change for it");
            rolling.join(one, Vec::new(), one.arrivals.clone()).await?;
            Ok(())
        }
        outcome => outcome,
    }
}

/// Whether trying again does not help.
pub(crate) async fn is_final<R: Runtime>(handle: &Handle<R>, error: &Error) -> bool {
    match error {
        // The last good run may not have made the asset yet. If it has, the generator gives no provenance.
        Error::RollOut(RollOutRefused::NoEntry(asset)) => match handle.generation().await {
            Ok(generation) => generation.trace(asset).await.is_some(),
            Err(_) => false,
        },
        // Its group may be about to be updated by edits.
        Error::RollOut(RollOutRefused::NotByEdits { asset, .. }) => {
            let latest = handle.latest().await;
            latest.is_ok_and(|latest| !says_edits(&latest, asset))
        }
        Error::RollOut(_) => true,
        Error::Edit(refused) => !matches!(
            refused,
            EditRefused::Store(_)
                | EditRefused::KeepsChanging(_)
                | EditRefused::Failed(_)
                | EditRefused::Elsewhere(_)
                | EditRefused::Unknown { .. }
                | EditRefused::Held(_)
        ),
        _ => false,
    }
}

/// Whether the policy of an asset says that its group is updated by edits.
fn says_edits(latest: &Incarnation, asset: &AssetId) -> bool {
    let policy = latest.asset(asset).and_then(|asset| policy_of(&asset));
    let policy = policy.and_then(|policy| latest.asset(&policy));
    let policy = policy.and_then(|asset| asset.payload::<RolloutPolicy>().ok());
    policy.is_some_and(|policy| !policy.update.is_pins())
}

/// Tries the change for these assets, reserves their fields, and adds them, all of them or none.
async fn add<R: Runtime>(
    handle: &Handle<R>,
    rolling: &Rollouts<R>,
    arrivals: &LiveChange,
) -> Result<(), Error> {
    let latest = handle.latest().await?;
    let there = arrivals.arrivals.iter().filter_map(|id| latest.asset(id));
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
    let beneath = beside_one_field(&sought, arrivals);
    let (edit, targets) = tried(handle, holder, sought, beneath).await?;
    if !targets.is_empty() {
        let batch = arrivals.batch(&handle.shared.partition, &targets)?;
        handle.desk().await?.reserve(&edit, batch).await?;
    }
    Ok(rolling.join(arrivals, targets, beside).await?)
}

/// The targets that change by the fields of these assets, too: they are updated together.
fn beside_one_field(sought: &Sought, arrivals: &LiveChange) -> BTreeSet<AssetId> {
    let shares = |known: &FieldEdit| {
        let mut edits = sought.fields.values().flatten();
        edits.any(|edit| edit.document == known.document && edit.path == known.path)
    };
    let shared = arrivals.known.iter().filter(|(known, _)| shares(known));
    shared
        .flat_map(|(_, targets)| targets.iter().cloned())
        .collect()
}

/// Checks that each field is absent or has a value that a target had before. Another one is a person's.
fn has_known_values(sought: &Sought, arrivals: &LiveChange) -> Result<(), Error> {
    for (asset, edits) in &sought.fields {
        for edit in edits {
            let mut known = arrivals.known.iter();
            let is_known = known.any(|(known, _)| known.to == edit.to && known.was == edit.was);
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
