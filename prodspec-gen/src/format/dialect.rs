//! Dialects of YAML: programs that read manifests in another way than YAML 1.2, such as Kubernetes' `kubectl`. A dialect
//! says what scalars, keys and merge keys mean; parser, positions and limits are those of [`Yaml`](super::Yaml).

use std::collections::BTreeMap;

use granit_parser::{ScalarStyle, Span, Tag};
use plugin_sdk::document::{Name, Node, Value};

/// The meaning of scalars and keys in a dialect of YAML.
///
/// ```
/// use plugin_sdk::document::{FieldPath, Value};
/// use prodspec_gen::format::{Dialect, Limits, Scalar, parse_dialect};
///
/// /// Every scalar is a text.
/// struct Texts;
///
/// impl Dialect for Texts {
///     fn value(&self, scalar: &Scalar<'_>) -> Result<Value, String> {
///         Ok(Value::String(scalar.text.into()))
///     }
///     fn key(&self, scalar: &Scalar<'_>) -> Result<Box<str>, String> {
///         Ok(scalar.text.into())
///     }
///     fn merges(&self, key: &Scalar<'_>) -> bool {
///         key.plain && key.text == "<<"
///     }
/// }
///
/// let text = "base: &base {a: 1}\nbig: {<<: *base, b: 2}";
/// let documents = parse_dialect(text, &Limits::default(), &Texts)?;
/// let path: FieldPath = "big.a".parse()?;
/// assert_eq!(documents[0].at(&path).unwrap().value, Value::String("1".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Dialect {
    /// The value of a scalar.
    ///
    /// # Errors
    /// Why the scalar is refused, and what to do about it.
    fn value(&self, scalar: &Scalar<'_>) -> Result<Value, String>;

    /// The text of a scalar that is a key of a map. Two keys of one map must not have the same text.
    ///
    /// # Errors
    /// Why the key is refused, and what to do about it.
    fn key(&self, scalar: &Scalar<'_>) -> Result<Box<str>, String>;

    /// Whether a key is a merge key: the entries of its value, a map or a list of maps, are put in its place. They replace
    /// entries before the merge key, and entries after it replace them. Of a list, the first map with a key counts.
    fn merges(&self, key: &Scalar<'_>) -> bool;
}

/// A scalar as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar<'s> {
    /// The text, without quotes and escapes.
    pub text: &'s str,
    /// Whether the scalar has neither quotes nor the header of a block.
    pub plain: bool,
    /// The text that follows the scalar, to the end of the stream.
    pub rest: &'s str,
    /// The complete tag, such as `tag:yaml.org,2002:int`. `None`: it has no tag.
    pub tag: Option<String>,
}

impl<'s> Scalar<'s> {
    /// A scalar of `whole`, which ends where `span` ends.
    pub(super) fn of(
        (text, style, tag): (&'s str, ScalarStyle, Option<&Tag>),
        span: &Span,
        whole: &'s str,
    ) -> Self {
        let end = span.end.byte_offset().unwrap_or(whole.len());
        Self {
            rest: whole.get(end..).unwrap_or_default(),
            text,
            plain: style == ScalarStyle::Plain,
            tag: tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix())),
        }
    }
}

/// The entries of a merge key.
pub(super) struct Merge {
    /// The number of entries before the merge key.
    after: usize,
    /// Later entries replace earlier ones.
    entries: Vec<(Name, Node)>,
}

impl Merge {
    /// The merge of a value, which is a list as written, or else a map. `None`: it cannot be merged.
    pub(super) fn of(node: Node, is_list: bool, after: usize) -> Option<Self> {
        let maps = match (node.value, is_list) {
            (Value::Map(entries), false) => vec![entries],
            (Value::Sequence(items), true) => {
                let maps = items.into_iter().map(|item| match item.value {
                    Value::Map(entries) => Some(entries),
                    _ => None,
                });
                maps.collect::<Option<_>>()?
            }
            _ => return None,
        };
        let entries = maps.into_iter().rev().flatten().collect();
        Some(Self { after, entries })
    }

    /// Puts the entries of all merges into the place of their keys. Each key has its last value, in its first place.
    pub(super) fn all(merges: Vec<Self>, own: Vec<(Name, Node)>) -> Vec<(Name, Node)> {
        if merges.is_empty() {
            return own;
        }
        let mut all: Vec<(Name, Node)> = Vec::new();
        let mut places: BTreeMap<Box<str>, usize> = BTreeMap::new();
        let mut put = |entry: (Name, Node)| match places.get(&entry.0.text) {
            Some(place) => all[*place] = entry,
            None => {
                places.insert(entry.0.text.clone(), all.len());
                all.push(entry);
            }
        };
        let mut merges = merges.into_iter().peekable();
        for (place, entry) in own.into_iter().enumerate() {
            while let Some(merge) = merges.next_if(|merge| merge.after <= place) {
                merge.entries.into_iter().for_each(&mut put);
            }
            put(entry);
        }
        merges.flat_map(|merge| merge.entries).for_each(put);
        all
    }
}
