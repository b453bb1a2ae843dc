//! Types are known, and payloads and addons read as them.

use plugin_sdk::{AssetView, Problems, Validator};

/// Every payload type is declared; payloads and known addons read as their Rust types; what their types declare valid
/// is asked.
#[derive(Debug, Clone, Copy)]
pub struct KnownTypes;

impl Validator for KnownTypes {
    fn name(&self) -> &str {
        "types"
    }

    fn asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let type_name = view.asset().type_str();
        if !view.types().knows(type_name) {
            let message = format!(
                "nobody knows the type {type_name}; register a plugin for it, or declare it modelled only"
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
