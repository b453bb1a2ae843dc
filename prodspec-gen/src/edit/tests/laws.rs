//! Laws of YAML edits: one field differs, all other bytes and comments stay, and few edits are refused.
//!
//! `PROPTEST_CASES=100000 cargo test --release -p prodspec-gen edit::` runs more cases.

use std::ops::Range;

use plugin_sdk::document::{FieldPath, Step};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

use super::{
    super::{Edit, Refused, place::Places, yaml as edit_yaml, yaml_tree},
    generator::{Field, Written, written},
};
use crate::format::{Format, Limits, Yaml};

/// What happens to one field.
#[derive(Debug, Clone)]
enum Deed {
    Replace(Value),
    Remove,
    Add(Value),
}

fn json() -> impl Strategy<Value = Value> {
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

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => json().prop_map(Deed::Replace),
        1 => Just(Deed::Remove),
        2 => json().prop_map(Deed::Add),
    ]
}

/// The value of a field; its aliases are expanded. `None`: it has a merge key, or is not there.
fn value(text: &str, document: u32, path: &FieldPath) -> Option<Value> {
    let file = yaml_tree::read(text, &Limits::default()).unwrap();
    let places = Places::of(text, &file, document, 1 << 20).ok()?;
    let place = places.find(path).ok()??;
    places.json(place.node, path).ok()
}

/// The edit that does `deed` to `field`, and the field that contains all changes.
fn to_edit(text: &str, field: &Field, deed: &Deed) -> Option<Edit> {
    let path: FieldPath = field.path.parse().unwrap();
    let was = || value(text, field.document, &path);
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

fn edit(text: &str, edit: &Edit) -> Result<String, Refused> {
    edit_yaml(text, std::slice::from_ref(edit), &Limits::default())
}

/// All documents as JSON, by the parser of the sources. `None`: there are merge keys.
fn read(text: &str) -> Option<Vec<Value>> {
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
    let documents = Yaml::parse(text, &Limits::default()).ok()?;
    Some(documents.iter().map(plain).collect())
}

/// Puts `to` at `path` into a value as [`read`] makes them. A value that is replaced is compared without order.
fn put(value: &mut Value, path: &[Step], to: Option<&Value>) {
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
    };
    if rest.is_empty() && to.is_none() {
        items.remove(at);
        return;
    }
    if at == items.len() {
        items.push(match step {
            Step::Index(_) => Value::Null,
            Step::Key(key) => json!([&**key, null]),
        });
    }
    match step {
        Step::Index(_) => put(&mut items[at], rest, to),
        Step::Key(_) => put(&mut items[at][1], rest, to),
    }
}

/// The value at `path`, without the order of entries, and the rest.
fn taken(mut documents: Vec<Value>, edit: &Edit) -> (Option<Value>, Vec<Value>) {
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
fn check(
    written: &Written,
    field: &Field,
    deed: &Deed,
    edit: &Edit,
    new: &str,
) -> Result<(), TestCaseError> {
    check_values(&written.text, edit, new)?;
    check_lines(written, field, deed, edit, new)?;
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
fn check_values(old: &str, edit: &Edit, new: &str) -> Result<(), TestCaseError> {
    let (Some(mut before), Some(mut after)) = (read(old), read(new)) else {
        prop_assert_eq!(read(old).is_none(), read(new).is_none());
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
    prop_assert_eq!(before, after);
    Ok(())
}

/// Only the bytes of the value or the lines of the field differ; a field that is added is an insertion.
fn check_lines(
    written: &Written,
    field: &Field,
    deed: &Deed,
    edit: &Edit,
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
        (Deed::Remove, _) if edit.path.steps().len() > 1 => {
            let parent = edit.path.split_last().unwrap().0.to_string();
            let mut fields = written.fields.iter();
            let parent = fields.find(|it| it.document == field.document && it.path == parent);
            check_bytes(old, new, &bytes(old, &parent.unwrap().lines))?;
            let alone = value(old, edit.document, &edit.path.split_last().unwrap().0);
            let alone = alone.is_none_or(|it| {
                it.as_array()
                    .map_or_else(|| it.as_object().unwrap().len(), Vec::len)
                    == 1
            });
            match parent.unwrap().bytes.is_some() || alone {
                true => Ok(()),
                // What follows the first entry of an item moves up to its dash.
                false if old[own.clone()].trim_start().starts_with('-') => {
                    let rest = &old[own.end..];
                    let moved = rest.len() - rest.trim_start().len();
                    check_bytes(old, new, &(own.start..own.end + moved))
                }
                false => check_bytes(old, new, &own),
            }
        }
        (Deed::Remove, _) => Ok(()),
        (Deed::Add(_), _) => {
            check_bytes(old, new, &own)?;
            prop_assert!(is_insertion(old, new), "more than an insertion:\n{new}");
            Ok(())
        }
    }
}

fn cases() -> impl Strategy<Value = (Written, prop::sample::Index, Deed)> {
    (written(), any::<prop::sample::Index>(), deed())
}

proptest! {
    #[test]
    fn r48_yaml_edit_keeps_every_other_byte((written, field, deed) in cases()) {
        let field = &written.fields[field.index(written.fields.len())];
        if let Some(one) = to_edit(&written.text, field, &deed)
            && let Ok(new) = edit(&written.text, &one)
        {
            check(&written, field, &deed, &one, &new)?;
        }
    }

    #[test]
    fn r48_edits_made_together_give_the_values_of_edits_one_by_one(
        (written, field, deed) in cases(),
        others in proptest::collection::vec((any::<prop::sample::Index>(), json()), 1..3),
    ) {
        let replace = others.into_iter().map(|(field, to)| (field, Deed::Replace(to)));
        // Removing an item moves the indices of others, so that it comes last.
        let all = replace.chain([(field, deed)]);
        let edits: Vec<Edit> = all
            .filter_map(|(field, deed)| {
                let field = &written.fields[field.index(written.fields.len())];
                to_edit(&written.text, field, &deed)
            })
            .collect();
        if let Ok(together) = edit_yaml(&written.text, &edits, &Limits::default()) {
            let mut one_by_one = written.text.clone();
            for one in &edits {
                one_by_one = edit(&one_by_one, one).unwrap();
            }
            prop_assert_eq!(read(&together), read(&one_by_one));
        }
    }

    #[test]
    fn r48_no_text_makes_an_edit_panic(
        text in prop_oneof![
            "[ab:\\-? \n\r\t#\\[\\]{},&*!|>'\"%~é\u{feff}0.+<]{0,40}",
            "(a|b|- |\\? |: |: |\n|\n|\n  |  | \\||>|\\+|#x| #x|\\[|\\]|\\{|\\}|, |&a |\\*a|<<|'|\"|---\n|\\.\\.\\.\n|\r\n|1){0,30}",
            any::<String>(),
        ],
        path in prop::sample::select(vec!["a", "b", "a.b", "[0]", "[1]", "a[0]", "[0].a", "a.a", "b[1]", ""]),
        to in json(),
        remove in any::<bool>(),
    ) {
        let path: FieldPath = path.parse().unwrap();
        let was = yaml_tree::read(&text, &Limits::default()).ok().and_then(|_| value(&text, 0, &path));
        let one = Edit { document: 0, path, was, to: (!remove).then_some(to) };
        if let Ok(new) = edit(&text, &one)
            && let (Some(before), Some(after)) = (read(&text), read(&new))
            && let Some(to) = &one.to
        {
            let (found, after) = taken(after, &one);
            let mut before = before;
            put(&mut before[0], one.path.steps(), Some(&json!("taken")));
            prop_assert_eq!(found.as_ref(), Some(to));
            prop_assert_eq!(before, after);
        }
    }
}

/// Runs edits of ordinary texts; the number of edits, and the refusals.
fn run(count: u32) -> (usize, Vec<String>) {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let (mut made, mut refusals) = (0, Vec::new());
    for _ in 0..count {
        let (written, field, deed) = cases().new_tree(&mut runner).unwrap().current();
        let field = &written.fields[field.index(written.fields.len())];
        if written.shared || field.path.is_empty() {
            continue;
        }
        let Some(one) = to_edit(&written.text, field, &deed) else {
            continue;
        };
        made += 1;
        if let Err(refused) = edit(&written.text, &one) {
            refusals.push(format!("{refused}\n{deed:?}\n{}", written.text));
        }
    }
    (made, refusals)
}

#[test]
fn r48_few_edits_of_ordinary_texts_are_refused() {
    let (made, refusals) = run(2_000);
    assert!(made > 500, "only {made} edits");
    let first: Vec<&String> = refusals.iter().take(3).collect();
    assert!(
        refusals.len() * 50 < made,
        "{} of {made}: {}",
        refusals.len(),
        format!("{first:#?}").replace("\\n", "\n")
    );
}

#[test]
fn r48_generated_texts_are_read() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..500 {
        let written = written().new_tree(&mut runner).unwrap().current();
        let file = yaml_tree::read(&written.text, &Limits::default());
        assert!(file.is_ok(), "{:?}\n{}", file.err(), written.text);
    }
}
