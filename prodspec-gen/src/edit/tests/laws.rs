//! Laws of YAML edits, and how few of them are refused.
//!
//! `PROPTEST_CASES=100000 cargo test --release -p prodspec-gen edit::` runs more cases.

use plugin_sdk::document::FieldPath;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use serde_json::json;

use super::{
    super::{Edit, Refused, ways::Syntax, write::Dialect, yaml as edit_yaml, yaml_tree},
    generator::{Written, written},
    law::{Deed, check, deed, json, put, read, taken, to_edit, value},
};
use crate::format::{Limits, Yaml};

const YAML: Syntax = Syntax {
    read: yaml_tree::read,
    dialect: Dialect::Yaml,
};

fn edit(text: &str, edit: &Edit) -> Result<String, Refused> {
    edit_yaml(text, std::slice::from_ref(edit), &Limits::default())
}

fn cases() -> impl Strategy<Value = (Written, prop::sample::Index, Deed)> {
    (written(), any::<prop::sample::Index>(), deed())
}

proptest! {
    #[test]
    fn r48_yaml_edit_keeps_every_other_byte((written, field, deed) in cases()) {
        let field = &written.fields[field.index(written.fields.len())];
        if let Some(one) = to_edit(YAML, &written.text, field, &deed)
            && let Ok(new) = edit(&written.text, &one)
        {
            check::<Yaml>(&written, field, &deed, &one, &new)?;
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
                to_edit(YAML, &written.text, field, &deed)
            })
            .collect();
        if let Ok(together) = edit_yaml(&written.text, &edits, &Limits::default()) {
            let mut one_by_one = written.text.clone();
            for one in &edits {
                one_by_one = match edit(&one_by_one, one) {
                    Ok(next) => next,
                    // An anchor that only another edit of the call frees of its alias.
                    Err(Refused::Shared { .. }) => return Ok(()),
                    Err(refused) => panic!("{refused}"),
                };
            }
            prop_assert_eq!(read::<Yaml>(&together), read::<Yaml>(&one_by_one));
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
        let was = yaml_tree::read(&text, &Limits::default()).ok().and_then(|_| value(YAML, &text, 0, &path));
        let one = Edit { document: 0, path, was, to: (!remove).then_some(to) };
        if let Ok(new) = edit(&text, &one)
            && let (Some(before), Some(after)) = (read::<Yaml>(&text), read::<Yaml>(&new))
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
        let Some(one) = to_edit(YAML, &written.text, field, &deed) else {
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
