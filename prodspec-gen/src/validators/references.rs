//! Checks references: the assets that an asset refers to must exist.

use plugin_sdk::{AssetView, Problems, Validator};

/// Refuses references to assets that are not in the same incarnation, and references of an asset to itself.
#[derive(Debug, Clone, Copy)]
pub struct References;

impl Validator for References {
    fn name(&self) -> &str {
        "references"
    }

    fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let itself = view.asset().id_str();
        let wrong = |id: &prodspec_model::AssetId| {
            id.as_str() == itself || !view.is_incomplete() && view.get(id).is_none()
        };
        if !view.references().iter().any(wrong) {
            return;
        }
        for (field, id) in view.asset().located_references() {
            if id.as_str() == itself {
                problems.push(
                    view.problem("refers to itself; remove the reference")
                        .field(field),
                );
            } else if wrong(&id) {
                let message = format!(
                    "refers to `{id}`, which does not exist; add it or remove the reference"
                );
                problems.push(view.problem(message).field(field));
            }
        }
    }
}
