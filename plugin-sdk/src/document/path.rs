//! Field paths: where a value is within a document, such as `clusters[2].replicas`.

use std::{borrow::Cow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// One step of a [`FieldPath`]: into a map or into a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The value of this key of a map.
    Key(Box<str>),
    /// The item of a list at this index, from 0.
    Index(usize),
    /// The only item of a list of maps in which the field `by` is `is`. An item keeps this name wherever it moves in its
    /// list, and no other item gets it.
    Item {
        /// The key of the field that names the items.
        by: Box<str>,
        /// The value of that field: a text, or an integer or boolean as its text.
        is: Box<str>,
    },
}

impl Step {
    /// The item of a list of maps that has `is` in the field `by`.
    pub fn item(by: impl Into<Box<str>>, is: impl Into<Box<str>>) -> Self {
        let (by, is) = (by.into(), is.into());
        Self::Item { by, is }
    }

    /// The position of the item that the step names, in a list of so many items. `named(nth, by)` is the name that the item
    /// `nth` has in the field `by`. `None`: there is no such item, or more than one, or the step names an entry of a map.
    pub fn position<'n>(
        &self,
        count: usize,
        named: impl Fn(usize, &str) -> Option<Cow<'n, str>>,
    ) -> Option<usize> {
        match (self, self.found(count, named)) {
            (Self::Index(index), _) => Some(*index).filter(|it| *it < count),
            (_, [first, None]) => first,
            _ => None,
        }
    }

    /// Whether more than one item of a list has the name that the step gives. The arguments are those of
    /// [`position`](Self::position).
    pub fn is_ambiguous<'n>(
        &self,
        count: usize,
        named: impl Fn(usize, &str) -> Option<Cow<'n, str>>,
    ) -> bool {
        matches!(self.found(count, named), [_, Some(_)])
    }

    /// The first two items with the name that the step gives.
    fn found<'n>(
        &self,
        count: usize,
        named: impl Fn(usize, &str) -> Option<Cow<'n, str>>,
    ) -> [Option<usize>; 2] {
        let Self::Item { by, is } = self else {
            return [None; 2];
        };
        let mut found = (0..count).filter(|nth| named(*nth, by).is_some_and(|it| it == **is));
        [found.next(), found.next()]
    }

    /// The value that the step names within a JSON value.
    pub fn of<'v>(&self, value: &'v Json) -> Option<&'v Json> {
        match (self, value) {
            (Self::Key(key), Json::Object(entries)) => entries.get(&**key),
            (step, Json::Array(items)) => items.get(step.of_items(items)?),
            _ => None,
        }
    }

    /// The position of the item that the step names in a JSON list.
    pub fn of_items(&self, items: &[Json]) -> Option<usize> {
        let name = |nth: usize, by: &str| match items[nth].as_object()?.get(by)? {
            Json::String(text) => Some(Cow::from(text)),
            Json::Number(number) if !number.is_f64() => Some(number.to_string().into()),
            Json::Bool(is) => Some(is.to_string().into()),
            _ => None,
        };
        self.position(items.len(), name)
    }

    /// Whether `new` becomes the item that the step names when it is added to a list of so many items that has none: it comes
    /// at that index, or it has that name.
    pub fn adds_to(&self, count: usize, new: &Json) -> bool {
        match self {
            Self::Key(_) => false,
            Self::Index(index) => *index == count,
            Self::Item { .. } => self.names(new),
        }
    }

    /// Whether the step gives the name of an item, and `item` has it.
    pub fn names(&self, item: &Json) -> bool {
        let by_name = matches!(self, Self::Item { .. });
        by_name && self.of_items(std::slice::from_ref(item)).is_some()
    }

    /// Whether a path that has `item` and `next` where another one has this step ends at, or goes into, a field that names the
    /// items of the list.
    fn is_named_by(&self, item: &Self, next: Option<&Self>) -> bool {
        let is_item = matches!(item, Self::Index(_) | Self::Item { .. });
        let names = |by: &str| matches!(next, Some(Self::Key(key)) if **key == *by);
        matches!(self, Self::Item { by, .. } if is_item && names(by))
    }

    /// Whether the steps certainly name different values of one map or list. An index and the name of an item may name the
    /// same item, and so may the values of two fields.
    fn differs(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Index(_), Self::Item { .. }) | (Self::Item { .. }, Self::Index(_)) => false,
            (Self::Item { by, .. }, Self::Item { by: other_by, .. }) if by != other_by => false,
            _ => self != other,
        }
    }
}

/// The path of a field within its document. The empty path is the whole document.
///
/// Keys are separated by dots, indices of lists are in brackets. A key that is empty, or has a dot, bracket, double
/// quote, white space or control character, is written as a JSON string in brackets. The items of a list of maps can be
/// named by one of their fields, which has the same value in no other item: `clusters[name="eu"]`. The value is written
/// as a JSON string, whatever its type.
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

    /// The same path with one more step into a list: to the item that has `is` in the field `by`.
    ///
    /// ```
    /// use plugin_sdk::FieldPath;
    /// let path = FieldPath::keys(["clusters"]).item("name", "eu").key("replicas");
    /// assert_eq!(path.to_string(), r#"clusters[name="eu"].replicas"#);
    /// assert_eq!(path.to_string().parse(), Ok(path));
    /// ```
    #[must_use]
    pub fn item(mut self, by: impl Into<Box<str>>, is: impl Into<Box<str>>) -> Self {
        self.0.push(Step::item(by, is));
        self
    }

    /// Adds the steps of a path that begins at this field.
    #[must_use]
    pub fn join(mut self, relative: &Self) -> Self {
        self.0.extend(relative.0.iter().cloned());
        self
    }

    /// Whether the path names an item of a list by its index. Another item has the index after the next insertion.
    pub fn has_index(&self) -> bool {
        self.0.iter().any(|step| matches!(step, Step::Index(_)))
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

    /// Whether one field may depend on the other: one path is a prefix of the other, or would be if an index named the item
    /// that the other path names by its fields; or one is a field that names items on the other path.
    pub fn overlaps(&self, other: &Self) -> bool {
        for (at, (one, two)) in self.0.iter().zip(&other.0).enumerate() {
            if one.is_named_by(two, other.0.get(at + 1)) || two.is_named_by(one, self.0.get(at + 1))
            {
                return true;
            }
            if one.differs(two) {
                return false;
            }
        }
        true
    }

    /// Whether the path finds the same items after its field has become `to`: it does not set a field that names an item on
    /// it, and an item at its end has the name that it gives.
    pub fn keeps_names(&self, to: Option<&Json>) -> bool {
        let mut pairs = self.0.iter().zip(self.0.iter().skip(1));
        let sets_name = |(item, next): (&Step, &Step)| matches!((item, next), (Step::Item { by, .. }, Step::Key(key)) if by == key);
        let ends_named = match (self.0.last(), to) {
            (Some(item @ Step::Item { .. }), Some(to)) => item.names(to),
            _ => true,
        };
        ends_named && !pairs.any(sets_name)
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
                Step::Item { by, is } => {
                    let is = serde_json::to_string(is).map_err(|_| fmt::Error)?;
                    f.write_str("[")?;
                    write_bare_or_quoted(f, by)?;
                    write!(f, "={is}]")?;
                }
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

/// Writes the key of a field that names items. Without quotes it begins with no digit, as an index does.
fn write_bare_or_quoted(f: &mut impl fmt::Write, key: &str) -> fmt::Result {
    match is_bare(key) && !key.contains('=') && !key.starts_with(|it: char| it.is_ascii_digit()) {
        true => f.write_str(key),
        false => f.write_str(&serde_json::to_string(key).map_err(|_| fmt::Error)?),
    }
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
                    .ok_or_else(|| {
                        wrong(
                            "expected an index, a quoted key or `name=\"..\"`, and `]`,",
                            at + 1,
                        )
                    })?,
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

/// A JSON string at the beginning of `rest`, and its length.
fn quoted(rest: &str) -> Option<(String, usize)> {
    let mut texts = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    let text = texts.next()?.ok()?;
    Some((text, texts.byte_offset()))
}

/// The step after an opening bracket, an index, a quoted key or the name of an item, with its closing bracket, and its length.
fn bracketed(rest: &str) -> Option<(Step, usize)> {
    let (step, length) = if rest.starts_with('"') {
        let (key, length) = quoted(rest)?;
        match rest[length..].strip_prefix('=') {
            Some(value) => {
                let (is, more) = quoted(value)?;
                (Step::item(key, is), length + 1 + more)
            }
            None => (Step::Key(key.into()), length),
        }
    } else if !rest.starts_with(|it: char| it.is_ascii_digit()) {
        let (by, value) = rest.split_once('=')?;
        if !is_bare(by) {
            return None;
        }
        let (is, length) = quoted(value)?;
        (Step::item(by, is), by.len() + 1 + length)
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
        let by = prop_oneof!["[a-c]{1,2}", "[a1=.\\[\\]\" é-]{0,3}"];
        let item = (by, prop_oneof!["[a-b]", any::<String>()]);
        let item = item.prop_map(|(by, is)| Step::item(by, is));
        proptest::collection::vec(prop_oneof![key, index, item], 0..5)
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
            prop_assert_eq!(a.overlaps(&b), b.overlaps(&a));
            let equal = a.steps().iter().zip(b.steps()).all(|(a, b)| a == b);
            prop_assert!(a.overlaps(&b) || !equal);
        }
    }

    #[test]
    fn r34_item_named_by_a_field_may_be_the_one_at_any_index() {
        let overlap = |a: &str, b: &str| {
            let [a, b] = [a, b].map(|path| path.parse::<FieldPath>().unwrap());
            a.overlaps(&b)
        };
        assert!(overlap(r#"a[n="x"].b"#, "a[3]"));
        assert!(overlap(r#"a[n="x"]"#, r#"a[m="y"].b"#));
        assert!(!overlap(r#"a[n="x"]"#, r#"a[n="y"].b"#));
        assert!(!overlap(r#"a[n="x"].b"#, "a[3].c"));
        assert!(overlap(r#"a[n="x"].b"#, "a[3].n") && overlap(r#"a[n="x"].b"#, r#"a[m="y"].n"#));
        assert!(
            overlap(r#"a[n="x"].b"#, r#"a[n="y"].n"#),
            "it may get that name"
        );
        assert!(!overlap("a[1]", "a[2]") && !overlap(r#"a[n="x"]"#, "a.n"));
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
                r#"a[name="eu"]["1=2"="x\"]"]"#,
                vec![
                    Step::Key("a".into()),
                    Step::item("name", "eu"),
                    Step::item("1=2", "x\"]"),
                ],
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
            ".",
            "a.",
            ".a",
            "a..b",
            "[",
            "[]",
            "[x]",
            "[01]",
            "[-1]",
            "a]",
            "a b",
            "[\"a]",
            "[0]a",
            "[1 ]",
            "[n=]",
            "[n=x]",
            "[=\"x\"]",
            "[n=\"x\"",
            "[1=\"x\"]",
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
            "`a[x]` is not a field path: expected an index, a quoted key or `name=\"..\"`, and `]`, at byte 2; write it like `clusters[2].labels[\"a.b\"]`"
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

    #[test]
    fn item_is_found_by_the_field_that_names_it_and_not_if_two_have_that_name() {
        let json =
            json!([{"n": "x", "v": 1}, {"n": "y"}, {"n": "y"}, {"n": 80, "v": 2}, "x", {"v": 3}]);
        let node = Node::from(json.clone());
        for (path, found) in [
            (r#"[n="x"].v"#, Some(1)),
            (r#"[n="80"].v"#, Some(2)),
            (r#"[v="3"].v"#, Some(3)),
            (r#"[n="y"]"#, None),
            (r#"[n="z"]"#, None),
            (r#"[m="x"]"#, None),
        ] {
            let path: FieldPath = path.parse().unwrap();
            let value = node.at(&path).map(|it| it.to_json());
            assert_eq!(value, found.map(Json::from), "{path}");
            let mut steps = path.steps().iter();
            let value = steps.try_fold(&json, |value, step| step.of(value));
            assert_eq!(value.cloned(), found.map(Json::from), "{path}");
        }
    }
}
