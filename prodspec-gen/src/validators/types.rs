//! Checks that types are declared, and that payloads and addons can be read as their types.

use plugin_sdk::{AssetView, Problems, Validator};

/// Refuses payloads of undeclared types, payloads and declared addons that cannot be read as their Rust types or have
/// unknown fields, and assets that the validators of their payload and addon types refuse.
#[derive(Debug, Clone, Copy)]
pub struct KnownTypes;

impl Validator for KnownTypes {
    fn name(&self) -> &str {
        "types"
    }

    fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let type_name = view.asset().type_str();
        if !view.types().knows(type_name) {
            let message = format!(
                "the type {type_name} is not declared; register a plugin for it, or declare it modelled only"
            );
            problems.push(view.problem(message).field("type"));
            return;
        }
        let misfits = view.types().misfits(view.asset());
        if misfits.is_empty() {
            view.types().validate(view, problems);
        } else {
            problems.extend(misfits);
        }
    }
}
