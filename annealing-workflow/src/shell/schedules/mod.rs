//! What an incarnation says of schedules, compared with the one before.

#[cfg(test)]
mod tests;

use plugin_sdk::IncarnationReader;
use prodspec_model::{Asset, Filter, Incarnation, Message, operation::CronOperation};

use crate::{cron::Wanted, kernel::Intended};

/// All schedules of an incarnation.
pub(super) fn all(incarnation: &Incarnation) -> Intended {
    let reader = IncarnationReader::new(incarnation.clone());
    let filter = Filter::types([CronOperation::TYPE]);
    let schedules = reader.matching(&filter);
    Intended {
        all: true,
        schedules: schedules
            .map(|asset| (asset.id(), wanted(&asset)))
            .collect(),
    }
}

/// The schedules that differ between two incarnations. The cost is that of the assets that differ.
pub(super) fn changed(before: &Incarnation, after: &Incarnation) -> Intended {
    let changes = before.snapshot().diff(after.snapshot());
    let is_schedule = |asset: &Asset| asset.type_str() == CronOperation::TYPE;
    let schedules = changes.iter().filter_map(|change| {
        let is = change.after.as_ref().filter(|it| is_schedule(it));
        let was = change.before.as_ref().filter(|it| is_schedule(it));
        match (was, is) {
            (None, None) => None,
            (_, is) => Some((change.id(), is.and_then(wanted))),
        }
    });
    Intended {
        all: false,
        schedules: schedules.collect(),
    }
}

/// What an asset wants. `None`: its payload cannot be read, which generation refuses; its schedule goes on as it was.
fn wanted(asset: &Asset) -> Option<Wanted> {
    let content = asset.payload::<CronOperation>().ok()?;
    Some(Wanted::of(&content))
}
