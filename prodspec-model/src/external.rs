//! References to configuration that is too large for an asset. Code can find them in any payload or addon without
//! knowing its type.
//!
//! A reference is the JSON object `{"$external":"models/fraud.bin","digest":"..."}` without other keys.

use std::sync::LazyLock;

use memchr::memmem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;

/// A reference to configuration that is too large for an asset: it is kept elsewhere and identified by its digest. Use it
/// as the type of a field in a payload or an addon.
///
/// The digest is required, because content without a digest could change later. It is the BLAKE3 digest of the content,
/// as [`Digest::of`] and the program `b3sum` compute it.
///
/// ```
/// use prodspec_model::{Asset, AssetId, Digest, ExternalRef, TypeName};
/// let model = ExternalRef::new("models/fraud.bin", Digest::of(b"weights"));
/// let payload = serde_json::json!({ "model": model });
/// let asset = Asset::builder(AssetId::new("job/eu")?)
///     .payload_value(TypeName::new("example.v1.Job")?, &payload)?
///     .build()?;
/// assert_eq!(asset.externals(), [("payload.model".to_owned(), model)]);
///
/// let mutable = serde_json::json!({ "model": { "$external": "models/fraud.bin" } });
/// let refused = asset.edit().payload_value(TypeName::new("example.v1.Job")?, &mutable)?.build();
/// assert!(refused.is_err(), "a reference without a digest");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct ExternalRef {
    /// The address at which the content is kept, as the blobs of the control plane know it.
    #[serde(rename = "$external")]
    pub uri: String,
    /// The digest of the content, which identifies it.
    pub digest: Digest,
}

impl ExternalRef {
    /// A reference to the content with this digest at `uri`.
    pub fn new(uri: impl Into<String>, digest: Digest) -> Self {
        let uri = uri.into();
        Self { uri, digest }
    }
}

/// The key of a reference.
const KEY: &str = "$external";

/// The error for an object with the key `$external` that is not a reference.
#[derive(Debug, thiserror::Error)]
#[error(
    "the object at `{field}` has the key `$external`, so it must have an address there, the BLAKE3 digest of the content at `digest`, and no other key"
)]
pub struct InvalidExternal {
    /// The field path of the object, such as `payload.model`.
    pub field: String,
    source: serde_json::Error,
}

static FINDER: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new(b"\"$external\":"));

/// All references in the canonical JSON of an asset, with their field paths. Costs one scan of the bytes if there is
/// none.
///
/// # Errors
/// When an object has the key `$external` but is not a reference.
pub(crate) fn located(json: &[u8]) -> Result<Vec<(String, ExternalRef)>, InvalidExternal> {
    let mut found = Vec::new();
    if FINDER.find(json).is_some()
        && let Ok(value) = serde_json::from_slice::<Value>(json)
    {
        walk("", &value, &mut found)?;
    }
    Ok(found)
}

fn walk(
    path: &str,
    value: &Value,
    found: &mut Vec<(String, ExternalRef)>,
) -> Result<(), InvalidExternal> {
    match value {
        Value::Object(map) if map.contains_key(KEY) => match ExternalRef::deserialize(value) {
            Ok(reference) => found.push((path.to_owned(), reference)),
            Err(source) => {
                let field = path.to_owned();
                return Err(InvalidExternal { field, source });
            }
        },
        Value::Object(map) => {
            for (key, inner) in map {
                let path = match path {
                    "" => key.clone(),
                    within => format!("{within}.{key}"),
                };
                walk(&path, inner, found)?;
            }
        }
        Value::Array(items) => {
            for (nth, inner) in items.iter().enumerate() {
                walk(&format!("{path}[{nth}]"), inner, found)?;
            }
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::canonical;

    #[test]
    fn external_references_are_found_with_their_paths() {
        let digest = Digest::of(b"content");
        let reference = ExternalRef::new("a/b", digest);
        let value = json!({
            "list": [1, { "at": reference }],
            "note": "\"$external\":",
            "$externals": { "digest": 1 },
        });
        let found = located(&canonical::to_bytes(&value).unwrap()).unwrap();
        assert_eq!(found, [("list[1].at".to_owned(), reference)]);
        let none = canonical::to_bytes(&json!({ "uri": "a", "digest": digest })).unwrap();
        assert!(located(&none).unwrap().is_empty());
    }

    #[test]
    fn reference_without_a_valid_digest_is_an_error_that_names_the_field() {
        let digest = Digest::of(b"content").to_string();
        for shape in [
            json!({ "$external": "a" }),
            json!({ "$external": "a", "digest": "latest" }),
            json!({ "$external": "a", "digest": digest, "tag": "v1" }),
            json!({ "$external": 5, "digest": digest }),
        ] {
            let json = canonical::to_bytes(&json!({ "payload": { "model": shape } })).unwrap();
            let said = located(&json).unwrap_err().to_string();
            assert!(said.contains("`payload.model`"), "{said}");
        }
    }
}
