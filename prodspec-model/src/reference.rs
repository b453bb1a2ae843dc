//! References from one asset to another. Code can find them in any payload or addon without knowing its type.
//!
//! A reference is the JSON object `{"$asset":"job/eu"}` without other keys, or `{"$asset?":"job/eu"}` if it may dangle. A
//! scan of canonical bytes finds it, because the same characters inside a string would have escaped quotes.

use std::sync::LazyLock;

use memchr::memmem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{AssetId, InvalidId};

/// A reference to another asset of the same partition. Use it as the type of a field in a payload or an addon.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct AssetRef {
    /// The id of the asset that the reference names.
    #[serde(rename = "$asset")]
    pub id: AssetId,
}

impl AssetRef {
    /// A reference to the asset `id`.
    pub fn to(id: AssetId) -> Self {
        Self { id }
    }
}

/// A reference that may dangle: the asset that it names need not be there. It is found, indexed and traced as any other
/// reference. Use it for what another system owns, or for what may come later.
///
/// Only plain references may dangle. The provider of a dependency edge and a rollout policy are [`AssetRef`]s: nothing
/// could be compared with an absent provider.
///
/// ```
/// use prodspec_model::{Asset, AssetId, DanglingRef, Message};
/// use serde::{Deserialize, Serialize};
///
/// /// An ingress. Its certificate may be written by hand, or by another team.
/// #[derive(Serialize, Deserialize)]
/// struct Ingress {
///     host: String,
///     certificate: DanglingRef,
/// }
/// # impl Message for Ingress {
/// #     const TYPE: &'static str = "docs.v1.Ingress";
/// # }
///
/// let certificate = DanglingRef::to(AssetId::new("certificate/shop")?);
/// let ingress = Ingress { host: "shop.example".into(), certificate };
/// let asset = Asset::builder(AssetId::new("ingress/shop")?).payload(&ingress)?.build()?;
/// assert!(asset.payload_json().contains(r#"{"$asset?":"certificate/shop"}"#));
/// let found = &asset.located_references()[0];
/// assert_eq!((found.field.as_str(), found.may_dangle), ("payload.certificate", true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct DanglingRef {
    /// The id of the asset that the reference names, whether or not there is such an asset.
    #[serde(rename = "$asset?")]
    pub id: AssetId,
}

impl DanglingRef {
    /// A reference to the asset `id`, which need not be there.
    pub fn to(id: AssetId) -> Self {
        Self { id }
    }
}

/// A reference that was found in an asset, with the field that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocatedReference {
    /// The path of the field, such as `addons.prodspec.v1.DependsOn.edges[0].provider`.
    pub field: String,
    /// The id of the asset that the reference names.
    pub target: AssetId,
    /// `true`: the target need not exist; see [`DanglingRef`].
    pub may_dangle: bool,
}

/// The beginning of the key of a reference as it appears in canonical JSON.
const KEY: &[u8] = br#""$asset"#;
static FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(KEY));
/// The ends of such a key: of a reference, and of one that may dangle.
const ENDS: [&[u8]; 2] = [br#"":"#, br#"?":"#];

/// The reasons for which an object with the key of a reference is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidReference {
    /// The value of the key is not a valid asset id.
    #[error("the target of the reference is not an asset id")]
    Target(#[from] InvalidId),
    /// The object has other keys, or the value of the key is not a string.
    #[error(
        "an object with the key `$asset` or `$asset?` must have a string for it and no other key; rename the key if it is not a reference"
    )]
    Shape,
}

/// The ids of all assets that canonical JSON refers to, sorted, without duplicates. Costs one scan of the bytes.
///
/// # Errors
/// When an object has the key `$asset` but is not a reference.
pub(crate) fn targets(json: &[u8]) -> Result<Vec<AssetId>, InvalidReference> {
    let mut found = Vec::new();
    for at in FINDER.find_iter(json) {
        let rest = &json[at + KEY.len()..];
        let Some(value) = ENDS.iter().find_map(|end| rest.strip_prefix(*end)) else {
            continue;
        };
        match json[..at].last() {
            Some(b'{') => found.push(target(value)?),
            // The match is the end of a longer key.
            Some(b'\\') => {}
            _ => return Err(InvalidReference::Shape),
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// The target id at the start of `rest`, the bytes after the key of a reference. The object must end after the id.
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

/// The target of the reference that the object is, and whether it may dangle. `None`: it is no reference.
fn as_reference(object: &Map<String, Value>) -> Option<(&str, bool)> {
    let (key, value) = object.iter().next().filter(|_| object.len() == 1)?;
    let may_dangle = match key.as_str() {
        "$asset" => false,
        "$asset?" => true,
        _ => return None,
    };
    Some((value.as_str()?, may_dangle))
}

/// Appends every reference in `value` to `found`, with its field path, such as `edges[0].provider`.
pub(crate) fn located(path: &str, value: &Value, found: &mut Vec<LocatedReference>) {
    match value {
        Value::Object(map) => {
            if let Some((id, may_dangle)) = as_reference(map) {
                found.extend(AssetId::new(id).ok().map(|target| LocatedReference {
                    field: path.to_owned(),
                    target,
                    may_dangle,
                }));
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
    fn strings_that_look_like_references_are_ignored() {
        let json = canonical::to_bytes(
            &serde_json::json!({"note": "{\"$asset\":\"job/eu\"}", "open": "{"}),
        )
        .unwrap();
        assert_eq!(targets(&json).unwrap(), []);
    }

    #[test]
    fn object_with_the_reference_key_is_a_reference_or_an_error() {
        let targets = |value: serde_json::Value| targets(&canonical::to_bytes(&value).unwrap());
        for shape in [
            serde_json::json!({"to": {"$asset": "job/eu", "weight": 1}}),
            serde_json::json!({"to": {"": 1, "$asset": "job/eu"}}),
            serde_json::json!([{"$asset": 5}]),
            serde_json::json!([{"$asset": {"id": "job/eu"}}]),
            serde_json::json!({"$asset": null}),
            serde_json::json!({"$asset?": 5}),
            serde_json::json!({"$asset": "job/eu", "$asset?": "job/us"}),
        ] {
            let said = targets(shape.clone());
            assert_eq!(said, Err(InvalidReference::Shape), "{shape}");
        }
        for id in ["../b", "", "a\"b", "a\\b", "ä"] {
            for key in ["$asset", "$asset?"] {
                let said = targets(serde_json::json!({"to": {key: id}}));
                assert!(matches!(said, Err(InvalidReference::Target(_))), "{id}");
            }
        }
        let none = serde_json::json!({"$assets": 1, "$asset??": 1, "x\"$asset": 2, "$asset\"": 3, "a": "$asset", "b": ["$asset"]});
        assert_eq!(targets(none), Ok(vec![]));
    }

    #[test]
    fn r49_references_are_found_with_their_paths_whether_or_not_they_may_dangle() {
        let value =
            serde_json::json!({"edges": [{"provider": {"$asset": "b"}}], "top": {"$asset?": "a"}});
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
            .map(|it| format!("{}={} {}", it.field, it.target, it.may_dangle))
            .collect();
        assert_eq!(paths, ["edges[0].provider=b false", "top=a true"]);
    }
}
