//! Edits that are refused, with the messages that their callers read.

use super::{super::yaml, ABSENT, change, parts};
use crate::format::Limits;

fn refusal(text: &str, path: &str, was: &str, to: &str) -> String {
    match yaml(text, &[change(path, was, to)], &Limits::default()) {
        Ok(edited) => format!("edited: {edited}"),
        Err(refused) => refused.to_string(),
    }
}

#[test]
fn r48_refusals_name_the_place_and_the_next_step() {
    let cases = [
        "a:\n  b: 1\n¦a.c.d¦1¦2¦there is no field `a.c.d`: the map at `a`, line 2, has no such entry; correct the path, or add the value that contains it first",
        "a: [1]\n¦a[3]¦absent¦2¦there is no field `a[3]`: the list at `a`, line 1, has no such entry; correct the path, or add the value that contains it first",
        "a: 1\n¦a.b¦absent¦2¦there is no field `a.b`: the single value at `a`, line 1, has no such entry; correct the path, or add the value that contains it first",
        "x: 0\na: 1\n¦a¦3¦2¦`a`, line 2, is 1, but 3 was expected; read the file again and decide anew",
        "x: 0\na: 1\n¦a¦absent¦2¦`a`, line 2, is 1, but absent was expected; read the file again and decide anew",
        "x: 0\n¦a¦1¦2¦`a`, line 1, is absent, but 1 was expected; read the file again and decide anew",
        "a: 1\n¦¦{\"a\":1}¦[1]¦the document as a whole cannot be removed or replaced; name a field within it",
        "a: 1\n¦¦{\"a\":1}¦absent¦the document as a whole cannot be removed or replaced; name a field within it",
        "a: &x 1\nb: *x\n¦a¦1¦2¦`a` cannot be changed alone: line 1 has the anchor &x, which an alias repeats; write the value out where it is used, then edit it",
        "a: &x 1\nb: *x\n¦b¦1¦2¦`b` cannot be changed alone: line 2 has the alias *x; write the value out where it is used, then edit it",
        "a: &x {c: 1}\nb: *x\n¦b.c¦1¦2¦`b.c` cannot be changed alone: line 2 has the alias *x; write the value out where it is used, then edit it",
        "a: &x {c: 1}\nb: *x\n¦a.d¦absent¦2¦`a.d` cannot be changed alone: line 1 has the anchor &x, which an alias repeats; write the value out where it is used, then edit it",
        "a:\n  c: &x 1\nb: *x\n¦a¦{\"c\":1}¦absent¦`a` cannot be changed alone: line 2 has the anchor &x, which an alias elsewhere repeats; write the value out where the alias is, then edit this field",
        "a: &x {c: 1}\nb:\n  <<: *x\n  d: 1\n¦b.c¦absent¦2¦`b.c` cannot be changed alone: line 3 has a merge key, which can give this field a value; write the merged fields out first",
        "a: !!str 1\n¦a¦\"1\"¦[2]¦cannot prove that the edit of `a`, line 1, changes only that field: there is no way to write it here; edit the file by hand",
        "a: |\n  x\nb: 1\n  # note\n¦b¦1¦absent¦cannot prove that the edit of `b`, line 3, changes only that field: another value would change, or the value would be read differently; edit the file by hand",
        "a: {{ x }}\n¦a¦1¦2¦the file cannot be edited because it does not parse; correct it first: line 1, column 4: looks like a template: `{{` begins an expression; render it first, for example with an exec source, or quote the text. The parser reports 1:5: a key must be plain text, not a map, list or alias",
        "a: b\n  {{- x }}\n¦a¦1¦2¦the file cannot be edited because it does not parse; correct it first: line 1, column 4: looks like a template: `{{` begins an expression; render it first, for example with an exec source, or quote the text",
        "a: [1\n¦a¦1¦2¦the file cannot be edited because it does not parse; correct it first: line 1, column 4: unclosed bracket '['",
        "a: 1\na: 2\n¦a¦1¦2¦the file cannot be edited because it does not parse; correct it first: line 2, column 1: the key `a` appears twice in one map, first in line 1; remove one",
    ];
    for case in cases {
        let [text, path, was, to, expected] = parts(case);
        assert_eq!(refusal(text, path, was, to), expected, "{text}");
    }
}

#[test]
fn r48_other_fields_of_a_map_with_a_merge_key_are_edited() {
    let text = "a: &x {c: 1}\nb:\n  <<: *x\n  d: 1 # why\n";
    let edited = yaml(text, &[change("b.d", "1", "2")], &Limits::default());
    assert_eq!(edited.unwrap(), text.replace("d: 1", "d: 2"));
    let both = yaml(
        text,
        &[change("b", "{\"c\":1,\"d\":1}", ABSENT)],
        &Limits::default(),
    );
    assert!(both.unwrap_err().to_string().contains("a merge key"));
}

#[test]
fn r34_overlapping_edits_of_one_call_are_refused() {
    let edits = [
        change("a.b.c", "1", "2"),
        change("d", "1", "2"),
        change("a.b", "1", "2"),
    ];
    let refused = yaml("a: {b: {c: 1}}\nd: 1\n", &edits, &Limits::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`a.b` and `a.b.c` are edited together, but overlap; keep one of the edits"
    );
}

#[test]
fn r34_all_edits_of_a_call_are_made_or_none() {
    let edits = [change("a", "1", "2"), change("b", "3", "4")];
    assert!(yaml("a: 1\nb: 2\n", &edits, &Limits::default()).is_err());
}

#[test]
fn r48_missing_documents_and_long_files_are_refused() {
    let mut edit = change("a", "1", "\"long long text\"");
    edit.document = 2;
    let limits = Limits::default();
    let refused = yaml("a: 1\n---\n# empty\n---\na: 1\n", &[edit.clone()], &limits).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "there is no document 2: the file has 2; correct the index"
    );
    edit.document = 0;
    let limits = Limits {
        bytes: 10,
        ..limits
    };
    let refused = yaml("a: 1\n", &[edit], &limits).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the file would have 18 bytes, 10 are allowed; split it or raise the limit"
    );
}

#[test]
fn r48_deep_values_and_large_aliases_are_refused() {
    let mut deep = String::from("1");
    for _ in 0..100 {
        deep = format!("[{deep}]");
    }
    let refused = refusal("a: 1\n", "a", "1", &deep);
    assert!(
        refused.contains("nested deeper than 64 levels"),
        "{refused}"
    );
    let text = "a: &a {x: 1}\nb: {<<: *a}\nc: &c [*a, *a]\nd: [*c, *c]\n";
    let limits = Limits {
        expansion: 400,
        ..Limits::default()
    };
    let was = "[[{\"x\":1},{\"x\":1}],[{\"x\":1},{\"x\":1}]]";
    let refused = yaml(text, &[change("d", was, ABSENT)], &limits).unwrap_err();
    assert!(refused.to_string().contains("expand to more"), "{refused}");
    assert!(yaml(text, &[change("d", was, ABSENT)], &Limits::default()).is_ok());
}
