//! Field paths: where a value is within a document, such as `clusters[2].replicas`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One step of a [`FieldPath`]: into a map or into a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The value of this key of a map.
    Key(Box<str>),
    /// The item of a list at this index, from 0.
    Index(usize),
}

/// The path of a field within its document. The empty path is the whole document.
///
/// Keys are separated by dots, indices of lists are in brackets. A key that is empty, or has a dot, bracket, double
/// quote, white space or control character, is written as a JSON string in brackets.
///
/// ```
/// use plugin_sdk::document::{FieldPath, Step};
///
/// let path: FieldPath = r#"clusters[2].labels["example.com/tier"]"#.parse()?;
/// assert_eq!(path.steps()[1], Step::Index(2));
/// assert_eq!(path.steps()[3], Step::Key("example.com/tier".into()));
/// assert_eq!(path.to_string(), r#"clusters[2].labels["example.com/tier"]"#);
/// assert!("clusters[2]".parse::<FieldPath>()?.is_prefix_of(&path));
/// # Ok::<(), plugin_sdk::document::PathError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FieldPath(Vec<Step>);

/// A text that is not a field path, with the byte at which it goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{path}` is not a field path: {expected} at byte {at}; write it like `clusters[2].labels[\"a.b\"]`"
)]
pub struct PathError {
    path: Box<str>,
    expected: &'static str,
    at: usize,
}

impl FieldPath {
    /// The path that goes into a map for each of `keys`. Use it for keys that are not known before; they need no quotes.
    ///
    /// ```
    /// use plugin_sdk::FieldPath;
    /// let path = FieldPath::keys(["apps", "shop.example", "cluster"]);
    /// assert_eq!(path.to_string(), r#"apps["shop.example"].cluster"#);
    /// ```
    pub fn keys<K: Into<Box<str>>>(keys: impl IntoIterator<Item = K>) -> Self {
        keys.into_iter().fold(Self::default(), Self::key)
    }

    /// The steps of the path, from the root of the document.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The same path with one more step into a map.
    #[must_use]
    pub fn key(mut self, key: impl Into<Box<str>>) -> Self {
        self.0.push(Step::Key(key.into()));
        self
    }

    /// The same path with one more step into a list.
    #[must_use]
    pub fn index(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }

    /// The path without its last step, and that step. `None` for the empty path.
    pub fn split_last(&self) -> Option<(Self, &Step)> {
        let (last, parent) = self.0.split_last()?;
        Some((Self(parent.to_vec()), last))
    }

    /// Whether `other` is this field, or a field within it.
    pub fn is_prefix_of(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Whether the fields have a value in common: one path is a prefix of the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.is_prefix_of(other) || other.is_prefix_of(self)
    }
}

impl From<Vec<Step>> for FieldPath {
    fn from(steps: Vec<Step>) -> Self {
        Self(steps)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write_key(f, key, nth == 0)?,
            }
        }
        Ok(())
    }
}

/// Writes a key of a path, which is the `first` step of the path or not.
pub(super) fn write_key(f: &mut impl fmt::Write, key: &str, first: bool) -> fmt::Result {
    if !is_bare(key) {
        let quoted = serde_json::to_string(key).map_err(|_| fmt::Error)?;
        return write!(f, "[{quoted}]");
    }
    if !first {
        f.write_str(".")?;
    }
    f.write_str(key)
}

/// Whether a key is written without quotes.
fn is_bare(key: &str) -> bool {
    !key.is_empty() && !key.contains(ends_bare)
}

fn ends_bare(character: char) -> bool {
    matches!(character, '.' | '[' | ']' | '"')
        || character.is_whitespace()
        || character.is_control()
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(path: &str) -> Result<Self, PathError> {
        let wrong = |expected, at| PathError {
            path: path.into(),
            expected,
            at,
        };
        let mut steps = Vec::new();
        let mut at = 0;
        while let Some(first) = path[at..].chars().next() {
            let rest = &path[at..];
            let (step, length) = match (first, at) {
                ('[', _) => bracketed(&rest[1..])
                    .map(|(step, length)| (step, length + 1))
                    .ok_or_else(|| wrong("expected an index or a quoted key, and `]`,", at + 1))?,
                ('.', 1..) => bare(&rest[1..])
                    .map(|(step, length)| (step, length + 1))
                    .ok_or_else(|| wrong("expected a key", at + 1))?,
                (_, 0) => bare(rest).ok_or_else(|| wrong("expected a key", at))?,
                _ => return Err(wrong("expected `.` or `[`", at)),
            };
            steps.push(step);
            at += length;
        }
        Ok(Self(steps))
    }
}

/// A key without quotes at the beginning of `rest`, and its length.
fn bare(rest: &str) -> Option<(Step, usize)> {
    let length = rest.find(ends_bare).unwrap_or(rest.len());
    (length > 0).then(|| (Step::Key(rest[..length].into()), length))
}

/// What follows an opening bracket: an index or a quoted key, with its closing bracket, and its length.
fn bracketed(rest: &str) -> Option<(Step, usize)> {
    let (step, length) = if rest.starts_with('"') {
        let mut keys = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let key = keys.next()?.ok()?;
        (Step::Key(key.into()), keys.byte_offset())
    } else {
        let length = rest.find(|c: char| !c.is_ascii_digit())?;
        let digits = &rest[..length];
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        (Step::Index(digits.parse().ok()?), length)
    };
    rest[length..]
        .starts_with(']')
        .then_some((step, length + 1))
}

impl TryFrom<String> for FieldPath {
    type Error = PathError;

    fn try_from(path: String) -> Result<Self, PathError> {
        path.parse()
    }
}

impl From<FieldPath> for String {
    fn from(path: FieldPath) -> Self {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::document::{Node, Value};

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = prop_oneof![
            "[a-z]{1,3}",
            "[ab.\\[\\]\"\\\\ \n0é-]{0,3}",
            any::<String>()
        ];
        let key = key.prop_map(|key: String| Step::Key(key.into()));
        let index = prop_oneof![0_usize..12, any::<usize>()].prop_map(Step::Index);
        proptest::collection::vec(prop_oneof![key, index], 0..5)
    }

    proptest! {
        #[test]
        fn r34_field_path_reads_back_as_written(steps in steps()) {
            let path = FieldPath::from(steps);
            prop_assert_eq!(path.to_string().parse::<FieldPath>(), Ok(path.clone()));
            let json = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<FieldPath>(&json).unwrap(), path);
        }

        #[test]
        fn any_text_is_a_path_or_an_error(text in "[a-b.\\[\\]\"0-2 é\\\\]{0,10}") {
            if let Ok(path) = text.parse::<FieldPath>() {
                prop_assert_eq!(path.to_string().parse::<FieldPath>(), Ok(path));
            }
        }

        #[test]
        fn r34_fields_overlap_exactly_if_one_contains_the_other(a in steps(), b in steps(), cut in 0_usize..5) {
            let (a, b) = (FieldPath::from(a), FieldPath::from(b));
            let prefix = FieldPath::from(a.steps()[..cut.min(a.steps().len())].to_vec());
            prop_assert!(prefix.is_prefix_of(&a) && prefix.overlaps(&a) && a.overlaps(&prefix));
            let parted = a.steps().iter().zip(b.steps()).any(|(a, b)| a != b);
            prop_assert_eq!(a.overlaps(&b), !parted);
        }
    }

    #[test]
    fn paths_are_written_as_problems_write_them() {
        let cases = [
            ("", vec![]),
            ("a", vec![Step::Key("a".into())]),
            ("[1][1]", vec![Step::Index(1), Step::Index(1)]),
            ("a.80", vec![Step::Key("a".into()), Step::Key("80".into())]),
            (
                r#"["a.b/c"].d"#,
                vec![Step::Key("a.b/c".into()), Step::Key("d".into())],
            ),
            (
                r#"a[""][0]"#,
                vec![Step::Key("a".into()), Step::Key("".into()), Step::Index(0)],
            ),
        ];
        for (text, steps) in cases {
            let path = FieldPath::from(steps);
            assert_eq!(path.to_string(), text);
            assert_eq!(text.parse(), Ok(path));
        }
    }

    #[test]
    fn wrong_paths_are_refused_with_the_place() {
        for text in [
            ".", "a.", ".a", "a..b", "[", "[]", "[x]", "[01]", "[-1]", "a]", "a b", "[\"a]",
            "[0]a", "[1 ]",
        ] {
            let error = text.parse::<FieldPath>().unwrap_err();
            assert!(
                error.to_string().contains("write it like"),
                "{text}: {error}"
            );
        }
        let error = "a[x]".parse::<FieldPath>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`a[x]` is not a field path: expected an index or a quoted key, and `]`, at byte 2; write it like `clusters[2].labels[\"a.b\"]`"
        );
    }

    #[test]
    fn values_are_found_by_their_path() {
        let root = Node::from(json!({"a": [{"b.c": 7}], "d": null}));
        let at = |path: &str| root.at(&path.parse().unwrap()).map(|node| &node.value);
        assert_eq!(at(r#"a[0]["b.c"]"#), Some(&Value::Int(7)));
        assert_eq!(at("d"), Some(&Value::Null));
        assert_eq!(at(""), Some(&root.value));
        for missing in ["a[1]", "a.b", "d.x", "[0]", "e"] {
            assert_eq!(at(missing), None, "{missing}");
        }
    }
}
