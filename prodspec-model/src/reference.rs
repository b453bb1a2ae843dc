//! References from one asset to another, found by program in any payload or addon without knowing its type.
//!
//! A reference is the JSON object `{"$asset":"job/eu"}` and nothing else, so that a scan of canonical bytes finds it:
//! inside a string the quotes would be escaped.

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    digest::Digest,
    id::{AssetId, InvalidId},
};

/// A reference to another asset of the same partition. Use it as the type of a field in a payload or an addon.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssetRef {
    /// The asset referred to.
    #[serde(rename = "$asset")]
    pub id: AssetId,
}

impl AssetRef {
    /// Refers to `id`.
    pub fn to(id: AssetId) -> Self {
        Self { id }
    }
}

/// Configuration too large for an asset, kept elsewhere and fixed by its digest.
///
/// A reference without a digest would be mutable data and cannot be written down.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalRef {
    /// Where the content is.
    pub uri: String,
    /// What the content is.
    pub digest: Digest,
}

/// How the key of a reference is written in canonical JSON. Inside a string the quotes would be escaped.
const KEY: &[u8] = br#""$asset":"#;

/// Why an object with the key `$asset` is no reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidReference {
    /// Its target is no asset id.
    #[error("the target is no asset id")]
    Target(#[from] InvalidId),
    /// Other keys stand beside it, or its value is no text.
    #[error(
        "an object with the key `$asset` must have one text for it and no other key; rename the key if no reference is meant"
    )]
    Shape,
}

/// Every asset that canonical JSON refers to, sorted, each once. Costs one scan of the bytes.
///
/// # Errors
/// When an object with the key of a reference is none.
pub(crate) fn targets(json: &[u8]) -> Result<Vec<AssetId>, InvalidReference> {
    let mut found = Vec::new();
    for at in memmem::find_iter(json, KEY) {
        match json[..at].last() {
            Some(b'{') => found.push(target(&json[at + KEY.len()..])?),
            // The end of a longer key.
            Some(b'\\') => {}
            _ => return Err(InvalidReference::Shape),
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// The id in what follows the key of a reference, which ends the object.
fn target(rest: &[u8]) -> Result<AssetId, InvalidReference> {
    let text = rest.strip_prefix(b"\"").ok_or(InvalidReference::Shape)?;
    let end = memchr::memchr2(b'"', b'\\', text).ok_or(InvalidReference::Shape)?;
    let id = std::str::from_utf8(&text[..end]).unwrap_or("\u{fffd}");
    match &text[end..] {
        [b'"', b'}', ..] => Ok(AssetId::new(id)?),
        [b'\\', ..] => Ok(AssetId::new("\u{fffd}")?),
        _ => Err(InvalidReference::Shape),
    }
}

/// Every reference in `value` with its field path, such as `edges[0].provider`.
pub(crate) fn located(path: &str, value: &Value, found: &mut Vec<(String, AssetId)>) {
    match value {
        Value::Object(map) => {
            if let (1, Some(Value::String(id))) = (map.len(), map.get("$asset")) {
                found.extend(AssetId::new(id).ok().map(|id| (path.to_owned(), id)));
                return;
            }
            for (key, inner) in map {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                located(&path, inner, found);
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                located(&format!("{path}[{at}]"), inner, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical;

    #[test]
    fn strings_that_look_like_references_are_none() {
        let json = canonical::to_bytes(
            &serde_json::json!({"note": "{\"$asset\":\"job/eu\"}", "open": "{"}),
        )
        .unwrap();
        assert_eq!(targets(&json).unwrap(), []);
    }

    #[test]
    fn an_object_with_the_key_of_a_reference_is_one_or_an_error() {
        let targets = |value: serde_json::Value| targets(&canonical::to_bytes(&value).unwrap());
        for shape in [
            serde_json::json!({"to": {"$asset": "job/eu", "weight": 1}}),
            serde_json::json!({"to": {"": 1, "$asset": "job/eu"}}),
            serde_json::json!([{"$asset": 5}]),
            serde_json::json!([{"$asset": {"id": "job/eu"}}]),
            serde_json::json!({"$asset": null}),
        ] {
            let said = targets(shape.clone());
            assert_eq!(said, Err(InvalidReference::Shape), "{shape}");
        }
        for id in ["../b", "", "a\"b", "a\\b", "ä"] {
            let said = targets(serde_json::json!({"to": {"$asset": id}}));
            assert!(matches!(said, Err(InvalidReference::Target(_))), "{id}");
        }
        let none = serde_json::json!({"$assets": 1, "x\"$asset": 2, "$asset\"": 3, "a": "$asset", "b": ["$asset"]});
        assert_eq!(targets(none), Ok(vec![]));
    }

    #[test]
    fn references_are_found_with_their_paths() {
        let value =
            serde_json::json!({"edges": [{"provider": {"$asset": "b"}}], "top": {"$asset": "a"}});
        let json = canonical::to_bytes(&value).unwrap();
        let ids: Vec<_> = targets(&json)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(ids, ["a", "b"]);
        let mut found = Vec::new();
        located("", &value, &mut found);
        let paths: Vec<_> = found
            .iter()
            .map(|(path, id)| format!("{path}={id}"))
            .collect();
        assert_eq!(paths, ["edges[0].provider=b", "top=a"]);
    }
}
