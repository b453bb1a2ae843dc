//! Reads payloads and addons strictly, as the seal does: a field that their type does not have is a problem.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_ignored::Path;

use crate::{document::misfit, problem::Problem};

/// Reads JSON as a type. `Some`: the JSON does not fit the type.
pub(super) type Read = Arc<dyn Fn(&str) -> Option<Problem> + Send + Sync>;

/// Reads JSON as a `T`. Fields that `T` ignores are refused, also where `T` itself does not ask for that, so that its
/// other readers can be tolerant. Not seen are fields inside of internally tagged and untagged enums, because serde
/// does not say that these ignore them.
pub(super) fn reads_as<T: DeserializeOwned>() -> Read {
    Arc::new(|json| {
        let mut unknown = None;
        let mut reader = serde_json::Deserializer::from_str(json);
        let read: Result<T, _> = serde_ignored::deserialize(&mut reader, |path| {
            unknown.get_or_insert_with(|| field_path(&path));
        });
        if let Err(error) = read.and_then(|_| reader.end()) {
            return Some(misfit::<T>(json).unwrap_or_else(|| Problem::new(error)));
        }
        let field = unknown?;
        let problem = Problem::new("unknown field; remove it, or declare it in the type");
        Some(problem.field(field))
    })
}

/// Writes a path as field paths are written, such as `edges[0].provider`.
fn field_path(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", field_path(parent)),
        Path::Map { parent, key } => match field_path(parent) {
            within if within.is_empty() => key.clone(),
            within => format!("{within}.{key}"),
        },
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => field_path(parent),
    }
}
