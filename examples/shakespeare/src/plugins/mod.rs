//! Asset plugins: how each type of Shakespeare's assets is compared with production and changed. Thin clients of the
//! cells; what is to be done follows from pure comparisons.
//!
//! The cells refuse late calls by `(token, n)`, diffs included, so the plugins are guarded. What they report as capacity
//! is what is *in force*: a cell lowers what a job guarantees before it takes anything away, and raises it once it is
//! there. A balancer that is changing has two truths, so it is reported as being worked on.

mod balancer;
mod cells;
mod global;
mod job;
mod schema;

use std::time::Duration;

pub use balancer::Balancers;
pub use cells::Cells;
pub use global::GlobalBalancers;
pub(crate) use job::JOB;
pub use job::Jobs;
pub use schema::{SCHEMA_VERSIONS, Schemas};

use control_plane::prelude::Message;
use control_plane::prelude::{
    Asset, Change, Diff, Effects, FieldChange, Observed, Pushed, addons::Turndown, plugin,
};

use crate::production::api::Progress;

/// How soon to look again at work that a cell does.
const AGAIN: Duration = Duration::from_millis(100);

fn under_way() -> Diff {
    Diff::InProgress {
        check_again_in: AGAIN,
    }
}

fn in_sync(observed: Observed) -> Diff {
    Diff::InSync {
        observed,
        look_again_at: None,
    }
}

fn differs(
    asset: &Asset,
    summary: String,
    fields: Vec<FieldChange>,
    effects: Effects,
    observed: Observed,
) -> Diff {
    Diff::Differs {
        change: Box::new(Change::new(asset, summary, fields, effects)),
        observed,
    }
}

fn pushed(progress: Progress) -> Pushed {
    match progress {
        Progress::Done => Pushed::Done,
        Progress::InProgress => Pushed::InProgress {
            check_again_in: AGAIN,
        },
    }
}

/// Whether the asset is to be removed.
fn leaves(asset: &Asset) -> bool {
    asset.has_addon(Turndown::TYPE)
}

fn misread(error: control_plane::model::message::Error) -> plugin::Error {
    plugin::Error::permanent(error.to_string())
}

/// The fields in which production and intent differ, of those that either has.
fn fields(
    there: Option<&impl serde::Serialize>,
    wanted: Option<&impl serde::Serialize>,
) -> Vec<FieldChange> {
    let object = |value: Result<serde_json::Value, _>| match value {
        Ok(serde_json::Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let there = object(serde_json::to_value(there));
    let wanted = object(serde_json::to_value(wanted));
    let mut names: Vec<&String> = there.keys().chain(wanted.keys()).collect();
    names.sort();
    names.dedup();
    let value = |map: &serde_json::Map<String, serde_json::Value>, name: &str| {
        map.get(name).cloned().unwrap_or_default()
    };
    names
        .into_iter()
        .map(|name| FieldChange::new(name.as_str(), value(&there, name), value(&wanted, name)))
        .filter(|field| field.from != field.to)
        .collect()
}

#[cfg(test)]
mod tests;
