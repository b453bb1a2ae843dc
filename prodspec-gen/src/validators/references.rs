//! References resolve: whatever an asset refers to is there.

use plugin_sdk::{AssetView, Problems, Validator};

/// Every reference names an asset of the same incarnation, and not the one that holds it.
#[derive(Debug, Clone, Copy)]
pub struct References;

impl Validator for References {
    fn name(&self) -> &str {
        "references"
    }

    fn asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
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
                    view.problem("refers to itself; take the reference away")
                        .field(field),
                );
            } else if wrong(&id) {
                let message = format!(
                    "refers to `{id}`, which is not there; add it or take the reference away"
                );
                problems.push(view.problem(message).field(field));
            }
        }
    }
}
