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

const MARK: &[u8] = br#"{"$asset":""#;

/// Every asset that canonical JSON refers to, sorted, each once. Costs one scan of the bytes.
///
/// # Errors
/// When a marked object does not hold a valid asset id.
pub(crate) fn targets(json: &[u8]) -> Result<Vec<AssetId>, InvalidId> {
    let mut found = Vec::new();
    for at in memmem::find_iter(json, MARK) {
        let rest = &json[at + MARK.len()..];
        let end = memchr::memchr(b'"', rest).unwrap_or(rest.len());
        let id = std::str::from_utf8(&rest[..end]).unwrap_or("\u{fffd}");
        found.push(AssetId::new(id)?);
    }
    found.sort();
    found.dedup();
    Ok(found)
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
