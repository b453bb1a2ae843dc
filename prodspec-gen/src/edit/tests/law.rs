//! What holds for every edit that is made: one field differs, all other bytes and comments stay.

use std::ops::Range;

use plugin_sdk::document::{FieldPath, Step};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{Edit, place::Places, ways::Syntax},
    generator::{Field, Written},
};
use crate::format::{Format, Limits};

/// What happens to one field.
#[derive(Debug, Clone)]
pub(super) enum Deed {
    Replace(Value),
    Remove,
    Add(Value),
}

pub(super) fn json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-z]{1,6}",
        "[a-z #:,'\"\\[{}&*!|>%@`\n\\\\-]{0,8}",
        Just("two\nlines\n".to_owned()),
        Just("yes".to_owned()),
        Just("0123".to_owned()),
        any::<String>(),
    ];
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    scalar.prop_recursive(2, 6, 3, |inner| {
        let map = proptest::collection::btree_map("[a-z.]{1,3}", inner.clone(), 0..3);
        prop_oneof![
            map.prop_map(|entries| entries.into_iter().collect()),
            proptest::collection::vec(inner, 0..3).prop_map(Value::from),
        ]
    })
}

pub(super) fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => json().prop_map(Deed::Replace),
        1 => Just(Deed::Remove),
        2 => json().prop_map(Deed::Add),
    ]
}

/// The value of a field; its aliases are expanded. `None`: it has a merge key, or is not there.
pub(super) fn value(syntax: Syntax, text: &str, document: u32, path: &FieldPath) -> Option<Value> {
    let file = (syntax.read)(text, &Limits::default()).unwrap();
    let root = file.documents.get(document as usize)?;
    let places = Places::of(text, root, 1 << 20);
    let place = places.find(path).ok()??;
    places.json(place.node, path).ok()
}

/// The edit that does `deed` to `field`, and the field that contains all changes.
pub(super) fn to_edit(syntax: Syntax, text: &str, field: &Field, deed: &Deed) -> Option<Edit> {
    let path: FieldPath = field.path.parse().unwrap();
    let was = || value(syntax, text, field.document, &path);
    let (path, was, to) = match deed {
        Deed::Replace(to) => (path.clone(), Some(was()?), Some(to.clone())),
        Deed::Remove => (path.clone(), Some(was()?), None),
        Deed::Add(to) => match (field.map?, was()) {
            (true, _) => (path.key("added"), None, Some(to.clone())),
            (false, Some(Value::Array(items))) => (path.index(items.len()), None, Some(to.clone())),
            (false, _) => return None,
        },
    };
    Some(Edit {
        document: field.document,
        path,
        was,
        to,
    })
}

/// All documents as JSON, by the parser of the sources. `None`: there are merge keys.
pub(super) fn read<F: Format>(text: &str) -> Option<Vec<Value>> {
    fn plain(node: &plugin_sdk::document::Node) -> Value {
        use plugin_sdk::document::Value as Read;
        match &node.value {
            Read::Null => Value::Null,
            Read::Bool(is) => json!(is),
            Read::Int(int) => json!(int),
            Read::Uint(uint) => json!(uint),
            Read::Float(float) => json!(float),
            Read::String(text) => json!(text),
            Read::Sequence(items) => items.iter().map(plain).collect(),
            // A list of pairs, so that the order of entries is compared.
            Read::Map(entries) => {
                let pair = |(name, value): &(plugin_sdk::document::Name, _)| {
                    (name.text.to_string(), plain(value))
                };
                json!({"map": entries.iter().map(pair).collect::<Vec<_>>()})
            }
        }
    }
    let documents = F::parse(text, &Limits::default()).ok()?;
    Some(documents.iter().map(plain).collect())
}

/// Puts `to` at `path` into a value as [`read`] makes them. A value that is replaced is compared without order.
pub(super) fn put(value: &mut Value, path: &[Step], to: Option<&Value>) {
    let Some((step, rest)) = path.split_first() else {
        *value = to.cloned().unwrap();
        return;
    };
    let items = match value {
        Value::Array(items) => items,
        map => map["map"].as_array_mut().unwrap(),
    };
    let at = match step {
        Step::Index(index) => *index,
        Step::Key(key) => {
            let at = items.iter().position(|pair| pair[0] == **key);
            at.unwrap_or(items.len())
        }
        Step::Item { .. } => unreachable!("the laws count items"),
    };
    if rest.is_empty() && to.is_none() {
        items.remove(at);
        return;
    }
    if at == items.len() {
        items.push(match step {
            Step::Key(key) => json!([&**key, null]),
            _ => Value::Null,
        });
    }
    match step {
        Step::Key(_) => put(&mut items[at][1], rest, to),
        _ => put(&mut items[at], rest, to),
    }
}

/// Sorts entries: the parser of TOML does.
fn sort(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(sort),
        Value::Object(map) => {
            let pairs = map["map"].as_array_mut().unwrap();
            pairs.iter_mut().for_each(|pair| sort(&mut pair[1]));
            pairs.sort_by_key(|pair| pair[0].to_string());
        }
        _ => {}
    }
}

/// The value at `path`, without the order of entries, and the rest.
pub(super) fn taken(mut documents: Vec<Value>, edit: &Edit) -> (Option<Value>, Vec<Value>) {
    fn plain(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(plain).collect(),
            Value::Object(map) => {
                let pairs = map["map"].as_array().unwrap().iter();
                let entry = |pair: &Value| (pair[0].as_str().unwrap().to_owned(), plain(&pair[1]));
                pairs.map(entry).collect()
            }
            scalar => scalar.clone(),
        }
    }
    let document = &mut documents[edit.document as usize];
    let mut at = &*document;
    for step in edit.path.steps() {
        let items = at.as_array().or_else(|| at["map"].as_array()).unwrap();
        let found = match step {
            Step::Item { .. } => unreachable!("the laws count items"),
            Step::Index(index) => items.get(*index),
            Step::Key(key) => items
                .iter()
                .find(|pair| pair[0] == **key)
                .map(|pair| &pair[1]),
        };
        match found {
            Some(found) => at = found,
            None => return (None, documents),
        }
    }
    let found = plain(at);
    put(document, edit.path.steps(), Some(&json!("taken")));
    (Some(found), documents)
}

/// The bytes of lines.
fn bytes(text: &str, lines: &Range<usize>) -> Range<usize> {
    let starts = text.match_indices('\n').map(|(at, _)| at + 1);
    let starts: Vec<usize> = std::iter::once(0).chain(starts).collect();
    let at = |line: usize| starts.get(line).copied().unwrap_or(text.len());
    at(lines.start)..at(lines.end)
}

/// Whether `new` is `old` with one text inserted.
fn is_insertion(old: &str, new: &str) -> bool {
    let head = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b);
    let pairs = old.bytes().rev().zip(new.bytes().rev());
    let tail = pairs.take_while(|(a, b)| a == b);
    new.len() >= old.len() && head.count() + tail.count() >= old.len()
}

/// The comments of the generator, which are all different.
fn comments(text: &str) -> Vec<&str> {
    let starts = text.match_indices("# c").map(|(at, _)| &text[at..]);
    let comment = |rest: &'_ str| rest[3..].find(|c: char| !c.is_ascii_digit()).unwrap_or(0) + 3;
    let all = starts.map(|rest| &rest[..comment(rest)]);
    all.filter(|it| it.len() > 3).collect()
}

fn check_bytes(old: &str, new: &str, within: &Range<usize>) -> Result<(), TestCaseError> {
    // The line break before may go with the last lines of a text without a last line break.
    let last = within.end == old.len() && !old.ends_with('\n');
    let mut start = within.start;
    if last && !new.starts_with(&old[..start]) {
        start = old[..start]
            .trim_end_matches('\n')
            .trim_end_matches('\r')
            .len();
    }
    prop_assert!(
        new.starts_with(&old[..start]),
        "the text before changed:\n{new}"
    );
    prop_assert!(
        new.ends_with(&old[within.end..]),
        "the text after changed:\n{new}"
    );
    prop_assert!(
        new.len() >= start + old.len() - within.end,
        "the text around overlaps:\n{new}"
    );
    Ok(())
}

/// Checks everything that holds for an edit that was made.
pub(super) fn check<F: Format>(
    written: &Written,
    field: &Field,
    deed: &Deed,
    edit: &Edit,
    new: &str,
) -> Result<(), TestCaseError> {
    check_values::<F>(&written.text, edit, new)?;
    check_lines(written, field, deed, new)?;
    let gone = match deed {
        Deed::Add(_) => "",
        _ => &written.text[bytes(&written.text, &field.lines)],
    };
    let gone = comments(gone);
    let kept = |comment: &&str| !gone.contains(comment);
    let expected: Vec<&str> = comments(&written.text).into_iter().filter(kept).collect();
    let found: Vec<&str> = comments(new).into_iter().filter(kept).collect();
    prop_assert_eq!(expected, found, "comments of\n{}", new);
    Ok(())
}

/// Only the edited field differs, and has its new value.
fn check_values<F: Format>(old: &str, edit: &Edit, new: &str) -> Result<(), TestCaseError> {
    let (Some(mut before), Some(mut after)) = (read::<F>(old), read::<F>(new)) else {
        prop_assert_eq!(read::<F>(old).is_none(), read::<F>(new).is_none());
        return Ok(());
    };
    let placeholder = edit.to.as_ref().map(|_| json!("taken"));
    if let Some(to) = &edit.to {
        let (found, rest) = taken(after, edit);
        prop_assert_eq!(found.as_ref(), Some(to));
        after = rest;
    }
    let document = &mut before[edit.document as usize];
    put(document, edit.path.steps(), placeholder.as_ref());
    if F::NAME == "TOML" {
        before.iter_mut().chain(&mut after).for_each(sort);
    }
    prop_assert_eq!(before, after);
    Ok(())
}

/// Only the bytes of the value or the lines of the field differ; a field that is added is an insertion.
fn check_lines(
    written: &Written,
    field: &Field,
    deed: &Deed,
    new: &str,
) -> Result<(), TestCaseError> {
    let old = &*written.text;
    let own = bytes(old, &field.lines);
    match (deed, &field.bytes) {
        (Deed::Replace(to), Some(value)) if !to.is_object() && !to.is_array() => {
            check_bytes(old, new, value)
        }
        (Deed::Replace(_), _) => check_bytes(old, new, &own),
        // `{}` replaces the last entry in the line of its map; a comma goes in the line of the entry before.
        (Deed::Remove, _) => {
            let within = |it: &&Field| it.document == field.document;
            let fields: Vec<&Field> = written.fields.iter().filter(within).collect();
            let parent = |path: &str| {
                let path: FieldPath = path.parse().unwrap();
                path.split_last().map(|(parent, _)| parent.to_string())
            };
            let above = parent(&field.path);
            let alone = fields.iter().filter(|it| parent(&it.path) == above).count() == 1;
            let above = fields.iter().find(|it| Some(&it.path) == above.as_ref());
            match above.filter(|it| alone || it.bytes.is_some()) {
                Some(above) => check_bytes(old, new, &bytes(old, &above.lines)),
                // What follows the first entry of an item moves up to its dash.
                None if old[own.clone()]
                    .trim_start_matches(['\u{feff}', ' '])
                    .starts_with('-') =>
                {
                    let rest = &old[own.end..];
                    let moved = rest.len() - rest.trim_start().len();
                    check_bytes(old, new, &(own.start..own.end + moved))
                }
                None => check_bytes(old, new, &own),
            }
        }
        (Deed::Add(_), _) => {
            check_bytes(old, new, &own)?;
            prop_assert!(is_insertion(old, new), "more than an insertion:\n{new}");
            Ok(())
        }
    }
}
