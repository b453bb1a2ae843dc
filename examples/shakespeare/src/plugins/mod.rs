//! The asset plugins: how each asset type is compared with production and pushed. They are thin clients of the cells
//! and of the database; the comparisons are pure functions.
//!
//! The cells refuse late calls, including diffs, by their `(token, n)`, so the plugins are registered as guarded. The
//! plugins report the capacity *in force*: a cell lowers it before it removes tasks, and raises it after new tasks
//! serve. A balancer that is changing has both an old and a new capacity, so its diff reports "in progress".

mod balancer;
mod global;
mod job;
mod schema;

pub use balancer::Balancers;
pub use global::GlobalBalancers;
pub use job::Jobs;
pub use schema::Schemas;

use control_plane::prelude::{
    Asset, Change, Diff, Effects, FieldChange, Message, Observed, addons::Turndown, plugin,
};
use testbed::cells::AGAIN;

fn under_way() -> Diff {
    Diff::InProgress {
        check_again_in: AGAIN,
    }
}

fn in_sync(observed: Observed) -> Diff {
    Diff::in_sync().observed(observed)
}

fn differs(
    asset: &Asset,
    summary: String,
    fields: Vec<FieldChange>,
    effects: Effects,
    observed: Observed,
) -> Diff {
    Diff::differs(Change::new(asset, summary, fields, effects)).observed(observed)
}

/// Returns true if intent asks for a turndown of the asset.
fn leaves(asset: &Asset) -> bool {
    asset.has_addon(Turndown::TYPE)
}

fn misread(error: control_plane::model::message::Error) -> plugin::Error {
    plugin::Error::permanent(error.to_string())
}

/// Returns the fields in which production (`there`) and intent (`wanted`) differ.
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
