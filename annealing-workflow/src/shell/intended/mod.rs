//! What an incarnation says of schedules and watches, compared with the one before.

#[cfg(test)]
mod tests;

use plugin_sdk::IncarnationReader;
use prodspec_model::{
    Asset, Filter, Incarnation, Message,
    operation::{CronOperation, WatchOperation},
    snapshot::Change,
};

use crate::{cron, kernel::Intended, watch};

/// All schedules and watches of an incarnation.
pub(super) fn all(incarnation: &Incarnation) -> Intended {
    let reader = IncarnationReader::new(incarnation.clone());
    let schedules = Filter::types([CronOperation::TYPE]);
    let schedules = reader.matching(&schedules);
    let schedules = schedules.map(|asset| (asset.id(), schedule(&asset)));
    let schedules = schedules.collect();
    let watches = Filter::types([WatchOperation::TYPE]);
    let watches = reader.matching(&watches);
    let watches = watches.map(|asset| (asset.id(), watch(&asset)));
    Intended {
        all: true,
        schedules,
        watches: watches.collect(),
    }
}

/// The schedules and watches that differ between two incarnations. The cost is that of the assets that differ.
pub(super) fn changed(before: &Incarnation, after: &Incarnation) -> Intended {
    let changes = before.snapshot().diff(after.snapshot());
    Intended {
        all: false,
        schedules: of_type::<CronOperation, _>(&changes, schedule).collect(),
        watches: of_type::<WatchOperation, _>(&changes, watch).collect(),
    }
}

/// The changed assets of a type, each with what it wants now.
fn of_type<T: Message, W>(
    changes: &[Change],
    wanted: impl Fn(&Asset) -> Option<W>,
) -> impl Iterator<Item = (prodspec_model::AssetId, Option<W>)> {
    let is = |asset: &&Asset| asset.type_str() == T::TYPE;
    changes.iter().filter_map(move |change| {
        let after = change.after.as_ref().filter(is);
        let before = change.before.as_ref().filter(is);
        let id = before.or(after)?.id();
        Some((id, after.and_then(&wanted)))
    })
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
