//! Checks references: the assets that an asset refers to must exist.

use plugin_sdk::{AssetView, Problems, Validator};
use prodspec_model::{
    AssetId, Message,
    addons::{DependsOn, RolloutPolicyRef},
};

/// Refuses references to assets that are not in the same incarnation, unless they may dangle, and references of an asset
/// to itself. The references in [`DependsOn`] and [`RolloutPolicyRef`] may not dangle.
#[derive(Debug, Clone, Copy)]
pub struct References;

/// The addons whose references may not dangle.
const FIRM: [&str; 2] = [DependsOn::TYPE, RolloutPolicyRef::TYPE];

impl Validator for References {
    fn name(&self) -> &str {
        "references"
    }

    fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let itself = view.asset().id_str();
        let absent = |id: &AssetId| !view.is_incomplete() && view.get(id).is_none();
        let suspect = |id: &AssetId| id.as_str() == itself || absent(id);
        if !view.references().iter().any(suspect) && !has_dangling_firm(view) {
            return;
        }
        for found in view.asset().located_references() {
            let id = &found.target;
            let message = if id.as_str() == itself {
                "refers to itself; remove the reference".to_owned()
            } else if found.may_dangle && is_firm(&found.field) {
                format!(
                    "refers to `{id}` with `$asset?`, but this reference may not dangle; write `$asset`"
                )
            } else if !found.may_dangle && absent(id) {
                format!(
                    "refers to `{id}`, which does not exist; add it, remove the reference, or let it dangle with \
                     `$asset?`"
                )
            } else {
                continue;
            };
            problems.push(view.problem(message).field(found.field));
        }
    }
}

/// Whether an addon whose references may not dangle has one that is written as if it might.
fn has_dangling_firm(view: &AssetView<'_>) -> bool {
    let json = |name: &&str| view.asset().addon_json(name);
    let mut firm = FIRM.iter().filter_map(json);
    firm.any(|json| json.contains(r#""$asset?""#))
}

/// Whether the field is in an addon whose references may not dangle.
fn is_firm(field: &str) -> bool {
    let addon = field.strip_prefix("addons.");
    let rest = addon.and_then(|addon| FIRM.iter().find_map(|name| addon.strip_prefix(name)));
    rest.is_some_and(|rest| rest.starts_with(['.', '[']))
}
