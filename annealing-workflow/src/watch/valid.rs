//! Checks a watch before it is sealed.

use plugin_sdk::{
    AssetTypes, AssetView, Problems,
    document::{FieldPath, Step},
    operation::FunctionInfo,
    with_causes,
};
use prodspec_model::{
    Filter,
    operation::{IntentWatch, Watch, WatchOperation},
};
use serde_json::Value;

use crate::operation::template_problems;

/// Checks that the types and fields of a watch are there, that it can start runs, and that its operation can be run by
/// a control plane with these functions.
///
/// ```
/// use annealing_workflow::watch;
/// use plugin_sdk::{AssetType, operation::FunctionInfo};
/// use prodspec_model::operation::WatchOperation;
///
/// let notice = FunctionInfo::new("send-notice");
/// let watches = AssetType::<WatchOperation>::new().modelled_only().valid(move |content, view, problems| {
///     watch::valid(content, view, problems, |name| (name == "send-notice").then_some(&notice));
/// });
/// # let _ = watches;
/// ```
pub fn valid<'f>(
    content: &WatchOperation,
    view: &AssetView<'_>,
    problems: &mut Problems,
    function: impl Fn(&str) -> Option<&'f FunctionInfo>,
) {
    for (field, message) in wrong(content, view.types(), function) {
        problems.push(view.problem(message).field(format!("payload.{field}")));
    }
}

/// Each field that cannot be used, with a message.
pub(super) fn wrong<'f>(
    content: &WatchOperation,
    types: &AssetTypes,
    function: impl Fn(&str) -> Option<&'f FunctionInfo>,
) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let mut note = |field: String, message: String| wrong.push((field, message));
    let kind = match &content.on {
        Watch::Intent(_) => "on.intent",
        Watch::Status(_) => "on.status",
    };
    for (field, message) in wrong_filter(content.on.filter(), types) {
        note(format!("{kind}.of.{field}"), message);
    }
    match &content.on {
        Watch::Intent(on) => {
            for (at, field) in on.fields.iter().enumerate() {
                if let Some(message) = wrong_field(on, field, types) {
                    note(format!("{kind}.fields[{at}]"), message);
                }
            }
        }
        Watch::Status(on) if on.is.is_empty() => {
            let message = "it names no condition; name at least one".to_owned();
            note(format!("{kind}.is"), message);
        }
        Watch::Status(_) => {}
    }
    if content.at_most == 0 {
        let message = "no run could start; allow at least 1".to_owned();
        note("at_most".to_owned(), message);
    }
    wrong.extend(template_problems(&content.template, function));
    wrong
}

/// The types of a filter that the pipeline does not know. Assets may have addons that it does not know.
fn wrong_filter(of: &Filter, types: &AssetTypes) -> Vec<(String, String)> {
    let all = of.types.iter().enumerate();
    let unknown = all.filter(|(_, name)| !types.knows(name));
    let unknown = unknown.map(|(at, name)| {
        let message = format!("the type `{name}` is unknown; register it, or correct the name");
        (format!("types[{at}]"), message)
    });
    unknown.collect()
}

/// Why a field cannot be watched. `None`: it can.
fn wrong_field(on: &IntentWatch, field: &str, types: &AssetTypes) -> Option<String> {
    let path: FieldPath = match field.parse() {
        Ok(path) => path,
        Err(error) => return Some(with_causes(&error)),
    };
    let key = |at: usize| match path.steps().get(at) {
        Some(Step::Key(key)) => Some(&**key),
        _ => None,
    };
    let schemas = types.schemas();
    match (key(0), key(1)) {
        (Some("payload"), Some(name)) => {
            let watched = on.of.types.iter().filter_map(|it| schemas.get(it.as_str()));
            let mut watched = watched.peekable();
            let missing = watched.peek().is_some() && watched.all(|it| lacks(it, name));
            let which = on.of.types.join(", ");
            missing.then(|| format!("no payload of {which} has a field `{name}`"))
        }
        (Some("payload" | "addons"), _) => None,
        _ => Some(format!(
            "`{field}` begins with neither `payload` nor `addons`, such as `payload.replicas`"
        )),
    }
}

/// Whether no payload with this schema has the field. Schemas that say more than their properties are not judged.
fn lacks(schema: &Value, field: &str) -> bool {
    let more = [
        "$ref",
        "allOf",
        "anyOf",
        "oneOf",
        "patternProperties",
        "additionalProperties",
    ];
    let open = |key: &&str| schema.get(*key).is_some_and(|it| *it != Value::Bool(false));
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.is_some_and(|fields| !more.iter().any(open) && !fields.contains_key(field))
}
