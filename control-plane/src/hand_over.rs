//! R18: a person gives a live change other values of the same fields.

use std::collections::{BTreeMap, BTreeSet};

use annealing_strategist::change::{self, HandOver, LiveChange};
use control_plane_runtime::Runtime;
use plugin_sdk::{By, FieldEdit};
use prodspec_model::{Asset, AssetId, rollout::RollOut};

use crate::{
    handle::{Error, Handle},
    in_intent::declared,
    roll_out::{RollOutRefused, RollingOut, malformed, tried},
    sought::{Sought, found},
};

/// Maximum number of times that other values are tried again because the source has changed meanwhile.
const ATTEMPTS: usize = 5;

impl<R: Runtime> Handle<R> {
    /// Gives a live change other values of the same fields, without waiting for its end: a new rollout of it takes over. Targets
    /// that have moved count as not updated, bakes begin anew, and the way back leads to where the targets were before the change.
    ///
    /// `change` is the live one in everything but the values. The other values are tried for all targets first. A change that was
    /// paused, or stopped and waited for a person, goes on with the other values; pause it again if they have to wait.
    ///
    /// ```
    /// use control_plane::{Error, model::rollout::RollOut, prelude::*};
    ///
    /// /// Version 8 is bad in a way that version 9 mends: it need not go back first.
    /// async fn mend(handle: &Handle, version_8: RollOut) -> Result<(), Error> {
    ///     let by = By::new("ada", "9 mends the leak of 8");
    ///     handle.hand_over(&version_8.set("version", 9), by).await?;
    ///     Ok(())
    /// }
    /// # let _ = mend;
    /// ```
    ///
    /// # Errors
    /// [`RollOutRefused`] or [`EditRefused`](crate::EditRefused) with the first reason found, or the strategist's, if the change
    /// is over or goes back: nothing was changed. If this process does not own the partition.
    pub async fn hand_over(&self, change: &RollOut, by: By) -> Result<RollingOut, Error> {
        let key = change::requested_key(&change.name).map_err(|error| malformed(&error))?;
        let asset = self.latest().await?.asset(&key);
        let is_other = |(_, declared): (_, RollOut)| declared != *change;
        if asset.and_then(declared).is_some_and(is_other) {
            return Err(RollOutRefused::Declared(key).into());
        }
        let rolling = self.rolling().await?;
        let live = rolling.live_change(&key).await?;
        let live = live.ok_or_else(|| RollOutRefused::NotLive(key.clone()))?;
        check_same_fields(&live.change, change)?;
        let targets = with_values(self, &live, change, &by).await?;
        let rolling_out = RollingOut {
            key,
            targets: targets.len(),
        };
        let shared = &self.shared;
        let prepared = HandOver::prepare(
            &*shared.store,
            &shared.partition,
            &live,
            change.clone(),
            targets,
        );
        rolling
            .hand_over(prepared.await.map_err(Error::Store)?, by)
            .await?;
        Ok(rolling_out)
    }
}

/// Tries the other values. Returns each target with its fields: as it will be, or as it is if it does not change, because it
/// has the values or because they are a person's.
async fn with_values<R: Runtime>(
    handle: &Handle<R>,
    live: &LiveChange,
    change: &RollOut,
    by: &By,
) -> Result<Vec<(Asset, Vec<FieldEdit>)>, Error> {
    let latest = handle.latest().await?;
    let ids: BTreeSet<&AssetId> = live.known.iter().flat_map(|(_, targets)| targets).collect();
    let there: Vec<Asset> = ids.iter().filter_map(|id| latest.asset(id)).collect();
    let beneath: BTreeSet<AssetId> = ids.into_iter().cloned().collect();
    let mut attempts = 1..=ATTEMPTS;
    let mut found_now = found(handle, change, &there).await?;
    let (fields, changed) = loop {
        let (source, fields) = found_now;
        if let Some(first) = there.first().filter(|_| source != live.source) {
            return Err(RollOutRefused::OtherSource(first.id(), source).into());
        }
        let sought = Sought {
            source: source.clone(),
            fields: open(live, &fields)?,
        };
        let holder = (by.clone(), live.holder.clone());
        match tried(handle, holder, sought, beneath.clone()).await {
            Ok((_, changed)) => break (fields, changed),
            Err(error) => {
                // The change goes on meanwhile: it may have set a field.
                found_now = found(handle, change, &there).await?;
                if attempts.next().is_none() || found_now == (source, fields) {
                    return Err(error);
                }
            }
        }
    };
    let changed = changed.into_iter().map(|it| (it.before.id(), it.after));
    let changed: BTreeMap<AssetId, Asset> = changed.collect();
    let with_fields = there.into_iter().map(|asset| {
        let id = asset.id();
        let edits = fields.get(&id).cloned().unwrap_or_default();
        (changed.get(&id).cloned().unwrap_or(asset), edits)
    });
    Ok(with_fields.collect())
}

/// The fields that have other values than the change is to set, of targets whose fields are all the change's.
fn open(
    live: &LiveChange,
    fields: &BTreeMap<AssetId, Vec<FieldEdit>>,
) -> Result<BTreeMap<AssetId, Vec<FieldEdit>>, RollOutRefused> {
    let mut open = BTreeMap::new();
    for (asset, edits) in fields {
        let ours = edits.iter().map(|edit| is_ours(live, asset, edit));
        let ours = ours.collect::<Result<Vec<bool>, _>>()?;
        let edits = edits.iter().filter(|edit| edit.was != edit.to);
        let edits: Vec<FieldEdit> = edits.cloned().collect();
        if ours.into_iter().all(|ours| ours) && !edits.is_empty() {
            open.insert(asset.clone(), edits);
        }
    }
    Ok(open)
}

/// Whether a field of a target has a value that the change gave it, or that it had before.
///
/// # Errors
/// When it is not a field of the change: the target is made from another entry now.
fn is_ours(live: &LiveChange, asset: &AssetId, edit: &FieldEdit) -> Result<bool, RollOutRefused> {
    let same = |known: &&(FieldEdit, Vec<AssetId>)| {
        known.0.document == edit.document && known.0.path == edit.path
    };
    let mut known = live.known.iter().filter(same).peekable();
    if known.peek().is_none() {
        return Err(RollOutRefused::Field {
            asset: asset.clone(),
            path: edit.path.clone(),
            why: "it is another field than the one that the change holds: the asset is made from another entry now"
                .to_owned(),
        });
    }
    Ok(known.any(|(known, _)| known.was == edit.was || known.to == edit.was))
}

/// # Errors
/// When `change` differs from the live one in anything but its values, or does not differ at all.
fn check_same_fields(live: &RollOut, change: &RollOut) -> Result<(), RollOutRefused> {
    let name = live.name.clone();
    let with_values = RollOut {
        set: change.set.clone(),
        ..live.clone()
    };
    if with_values != *change || !live.set.keys().eq(change.set.keys()) {
        return Err(RollOutRefused::OtherThanValues(name));
    }
    match live.set == change.set {
        true => Err(RollOutRefused::SameValues(name)),
        false => Ok(()),
    }
}
