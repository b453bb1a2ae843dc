//! What an incarnation says of schedules and watches, compared with the one before.

#[cfg(test)]
mod tests;

use plugin_sdk::IncarnationReader;
use prodspec_model::{
    Asset, AssetId, Filter, Incarnation, Message,
    addons::Turndown,
    operation::{CronOperation, WatchOperation},
};

use crate::{cron, kernel::Intended, watch};

/// All schedules and watches of an incarnation.
pub(super) fn all(incarnation: &Incarnation) -> Intended {
    let reader = IncarnationReader::new(incarnation.clone());
    let mut intended = Intended {
        all: true,
        ..Intended::default()
    };
    let types = Filter::types([CronOperation::TYPE, WatchOperation::TYPE]);
    for asset in reader.matching(&types) {
        add(&mut intended, &asset.id(), asset.type_str(), Some(&asset));
    }
    intended
}

/// The schedules and watches that differ between two incarnations. The cost is that of the assets that differ.
pub(super) fn changed(before: &Incarnation, after: &Incarnation) -> Intended {
    let mut intended = Intended::default();
    for change in before.snapshot().diff(after.snapshot()) {
        // An asset may change its type.
        for type_name in [CronOperation::TYPE, WatchOperation::TYPE] {
            let is = |asset: &&Asset| asset.type_str() == type_name;
            let now = change.after.as_ref().filter(is);
            if let Some(asset) = now.or(change.before.as_ref().filter(is)) {
                add(&mut intended, &asset.id(), type_name, now);
            }
        }
    }
    intended
}

/// Adds an asset of a type. `now`: its content. `None`: it is no asset of this type any more.
fn add(intended: &mut Intended, id: &AssetId, type_name: &str, now: Option<&Asset>) {
    let turned_down = now.is_some_and(|asset| asset.has_addon(Turndown::TYPE));
    match type_name {
        CronOperation::TYPE | WatchOperation::TYPE if turned_down => {
            intended.turned_down.insert(id.clone());
        }
        CronOperation::TYPE => {
            let wanted = now.and_then(schedule);
            intended.schedules.insert(id.clone(), wanted);
        }
        WatchOperation::TYPE => {
            let wanted = now.and_then(watch);
            intended.watches.insert(id.clone(), wanted);
        }
        _ => {}
    }
}

/// What the asset of a schedule wants. `None`: its payload cannot be read, which generation refuses; its schedule goes on as
/// it was.
fn schedule(asset: &Asset) -> Option<cron::Wanted> {
    let content = asset.payload::<CronOperation>().ok()?;
    Some(cron::Wanted::of(&content))
}

/// The same for the asset of a watch.
fn watch(asset: &Asset) -> Option<watch::Wanted> {
    let content = asset.payload::<WatchOperation>().ok()?;
    Some(watch::Wanted::of(&content))
}
