//! Changes of sources: fields, their values before and after, and the program or person who makes them.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::document::FieldPath;

/// The change of one field of one document. Plain data: values have no positions, so edits can be stored and sent.
///
/// ```
/// use plugin_sdk::FieldEdit;
///
/// let edit = FieldEdit::set("manifest.yaml#0", "clusters[0].replicas".parse()?, 3, 5);
/// assert_eq!(edit.to_string(), "manifest.yaml#0: clusters[0].replicas: 3 -> 5");
/// # Ok::<(), plugin_sdk::document::PathError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldEdit {
    /// The name of the document in its source, as in [`Document::name`](crate::Document::name).
    pub document: Arc<str>,
    /// The field. Indices of lists are those before all edits of the change. The empty path is the whole document.
    pub path: FieldPath,
    /// The expected value. `None`: the field must not be there.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub was: Option<Value>,
    /// The new value. `None` removes the field.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    pub to: Option<Value>,
}

/// A value that is present: a null is a value, other than a field that is left out.
fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl FieldEdit {
    /// Gives a field that has the value `was` the value `to`.
    pub fn set(
        document: &str,
        path: FieldPath,
        was: impl Into<Value>,
        to: impl Into<Value>,
    ) -> Self {
        Self::new(document, path, Some(was.into()), Some(to.into()))
    }

    /// Adds a field that is not there yet.
    pub fn add(document: &str, path: FieldPath, to: impl Into<Value>) -> Self {
        Self::new(document, path, None, Some(to.into()))
    }

    /// Removes a field that has the value `was`.
    pub fn remove(document: &str, path: FieldPath, was: impl Into<Value>) -> Self {
        Self::new(document, path, Some(was.into()), None)
    }

    fn new(document: &str, path: FieldPath, was: Option<Value>, to: Option<Value>) -> Self {
        Self {
            document: document.into(),
            path,
            was,
            to,
        }
    }

    /// Whether this edit and another one change a value in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.document == other.document && self.path.overlaps(&other.path)
    }
}

impl fmt::Display for FieldEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.document, self.path)?;
        match (&self.was, &self.to) {
            (Some(was), Some(to)) => write!(f, "{was} -> {to}"),
            (None, Some(to)) => write!(f, "added as {to}"),
            (Some(was), None) => write!(f, "removed, was {was}"),
            (None, None) => f.write_str("stays absent"),
        }
    }
}

/// The id of a change: 1 to 100 letters, digits, hyphens, dots and underscores. A change with the id of an earlier one is
/// that change, asked for once more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChangeId(Arc<str>);

/// A text that cannot be the id of a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot be the id of a change; use 1 to 100 letters, digits, hyphens, dots and underscores"
)]
pub struct InvalidChangeId(String);

impl ChangeId {
    /// Checks a text and makes it the id of a change.
    ///
    /// # Errors
    /// When it is empty, longer than 100 bytes, or has other characters.
    pub fn new(text: &str) -> Result<Self, InvalidChangeId> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        match (1..=100).contains(&text.len()) && text.bytes().all(allowed) {
            true => Ok(Self(text.into())),
            false => Err(InvalidChangeId(text.to_owned())),
        }
    }

    /// The id of the change as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Writes a number, such as a random one, as an id.
impl From<u128> for ChangeId {
    fn from(number: u128) -> Self {
        Self(format!("{number:032x}").into())
    }
}

impl TryFrom<String> for ChangeId {
    type Error = InvalidChangeId;

    fn try_from(text: String) -> Result<Self, InvalidChangeId> {
        Self::new(&text)
    }
}

impl From<ChangeId> for String {
    fn from(id: ChangeId) -> Self {
        id.0.to_string()
    }
}

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A change of a source, as it is proposed and committed. Everything that its result depends on stands here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SourceChange {
    /// The id under which the change is made once.
    pub id: ChangeId,
    /// The edits. None, or all of them, are made.
    pub edits: Vec<FieldEdit>,
    /// The program or person who changes the source.
    pub who: String,
    /// The reason, for people who read the history of the source later.
    pub why: String,
    /// The time of the change, for sources that have a history.
    pub at: Timestamp,
}

impl SourceChange {
    /// A change with `edits`, made by `who` at the time `at`, because of `why`.
    pub fn new(
        id: ChangeId,
        edits: Vec<FieldEdit>,
        who: impl Into<String>,
        why: impl Into<String>,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            edits,
            who: who.into(),
            why: why.into(),
            at,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_as_a_value_is_kept_apart_from_no_value() {
        let edit = FieldEdit::set("a#0", FieldPath::default().key("b"), Value::Null, 1);
        let text = serde_json::to_value(&edit).unwrap();
        assert_eq!(
            text,
            json!({"document": "a#0", "path": "b", "was": null, "to": 1})
        );
        assert_eq!(serde_json::from_value::<FieldEdit>(text).unwrap(), edit);
        let added = FieldEdit::add("a#0", FieldPath::default(), 1);
        let text = serde_json::to_value(&added).unwrap();
        assert_eq!(serde_json::from_value::<FieldEdit>(text).unwrap(), added);
    }

    #[test]
    fn ids_that_could_not_be_keys_are_refused() {
        for wrong in ["", "a/b", "a b", &"x".repeat(101)] {
            assert!(ChangeId::new(wrong).is_err(), "{wrong}");
        }
        assert!(ChangeId::new("autoscaler-7.eu_1").is_ok());
    }
}
