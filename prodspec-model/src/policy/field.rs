//! Fields of assets, by which series and alerts meet them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::asset::Asset;

/// A field of an asset, as text: `id`, `type`, `payload.<path>` or `addon.<name>.<path>`. The name of an addon is the last part of
/// its type, or the whole of it in brackets; the parts of a path are separated by dots.
///
/// ```
/// use prodspec_model::{Asset, AssetId, addons::{Owner, PhysicalCluster}, policy::AssetField};
///
/// let asset = Asset::builder(AssetId::new("job/eu")?).payload(&Owner::new("search"))?;
/// let asset = asset.addon(&PhysicalCluster::new("eu-1"))?.build()?;
/// let of = |field: &str| AssetField::from(field).of(&asset);
/// assert_eq!(of("id").as_deref(), Some("job/eu"));
/// assert_eq!(of("addon.PhysicalCluster.cluster").as_deref(), Some("eu-1"));
/// assert_eq!(of("addon.[prodspec.v1.PhysicalCluster].cluster").as_deref(), Some("eu-1"));
/// assert_eq!(of("payload.nothing"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct AssetField(String);

/// The part of an asset in which a field is.
enum Part<'a> {
    Id,
    Type,
    Payload(&'a str),
    Addon(&'a str, &'a str),
}

impl AssetField {
    /// Checks that the text names a field. An asset may still lack it.
    ///
    /// # Errors
    /// The reason, and how to write a field.
    pub fn check(&self) -> Result<(), String> {
        match self.part() {
            Some(_) => Ok(()),
            None => Err(format!(
                "`{}` is no field of an asset: write id, type, payload.<path> or addon.<name>.<path>",
                self.0
            )),
        }
    }

    /// The value of the field as text. `None`: the asset lacks it, or it is no text, number or truth value.
    pub fn of(&self, asset: &Asset) -> Option<String> {
        match self.part()? {
            Part::Id => Some(asset.id_str().to_owned()),
            Part::Type => Some(asset.type_str().to_owned()),
            Part::Payload(path) => at(asset.payload_json(), path),
            Part::Addon(name, path) => {
                let mut addons = asset.addons();
                let (_, json) = addons.find(|(full, _)| is_named(full, name))?;
                at(json, path)
            }
        }
    }

    fn part(&self) -> Option<Part<'_>> {
        match self.0.as_str() {
            "id" => return Some(Part::Id),
            "type" => return Some(Part::Type),
            _ => {}
        }
        let is_path = |path: &&str| path.split('.').all(|part| !part.is_empty());
        if let Some(path) = self.0.strip_prefix("payload.").filter(is_path) {
            return Some(Part::Payload(path));
        }
        let rest = self.0.strip_prefix("addon.")?;
        let (name, path) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once("].")?,
            None => rest.split_once('.')?,
        };
        let named = !name.is_empty() && is_path(&path);
        named.then_some(Part::Addon(name, path))
    }
}

/// Whether an addon type has this name: the whole of it, or its last part.
fn is_named(full: &str, name: &str) -> bool {
    let before = full.strip_suffix(name);
    before.is_some_and(|it| it.is_empty() || it.ends_with('.'))
}

fn at(json: &str, path: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    match path.split('.').try_fold(&value, |it, part| it.get(part))? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl fmt::Display for AssetField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for AssetField {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}
