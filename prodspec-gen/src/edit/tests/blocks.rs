//! The texts of YAML before and after fields are added, removed, or change their kind.

use super::{super::yaml, ABSENT, change, check};
use crate::format::Limits;

#[test]
fn r48_fields_are_added_after_the_last_of_their_map() {
    check(
        yaml,
        &[
            "a:\n  b: 1 # why\n  # last\nc: 2\n¦a.d¦absent¦3¦a:\n  b: 1 # why\n  d: 3\n  # last\nc: 2\n",
            "a: 1¦b¦absent¦2¦a: 1\nb: 2",
            "a: 1\r\n¦b¦absent¦{\"c\": [1, {\"d\": 2, \"e\": []}]}¦a: 1\r\nb:\r\n  c:\r\n    - 1\r\n    - d: 2\r\n      e: []\r\n",
            "a:\n    x:\n    - 1\n¦b¦absent¦{\"c\": [1]}¦a:\n    x:\n    - 1\nb:\n    c:\n    - 1\n",
            "- a: 1\n- b\n¦[0].c¦absent¦\"on\"¦- a: 1\n  c: \"on\"\n- b\n",
            "a: |\n  text\n\nb: 1\n¦c¦absent¦2¦a: |\n  text\n\nb: 1\nc: 2\n",
            "x:\n  a: |\n    text\n\nb: 1\n¦x.c¦absent¦2¦x:\n  a: |\n    text\n  c: 2\n\nb: 1\n",
            "a: 1\n---\nb: 1\n¦c¦absent¦2¦a: 1\nc: 2\n---\nb: 1\n",
            "a:\nb: 1\n¦[\"x.y\"]¦absent¦2¦a:\nb: 1\nx.y: 2\n",
            "b: 1\n¦[\"a b: #\"]¦absent¦2¦b: 1\n\"a b: #\": 2\n",
            "b: 1\n¦true¦absent¦2¦b: 1\n\"true\": 2\n",
            "a: {}\n¦a.b¦absent¦1¦a: {b: 1}\n",
            "a: { }\n¦a.b¦absent¦[1, \"x, y\"]¦a: {b: [1, \"x, y\"]}\n",
            "a: {b: 1}\n¦a.c¦absent¦{\"d\": null}¦a: {b: 1, c: {d: null}}\n",
            "a: {\"b\": \"x\"}\n¦a.c¦absent¦\"y\"¦a: {\"b\": \"x\", \"c\": \"y\"}\n",
            "a: {\n  b: 1, # one\n  c: 2\n}\n¦a.d¦absent¦3¦a: {\n  b: 1, # one\n  c: 2,\n  d: 3\n}\n",
            "a: {\n  b: 1, # one\n}\n¦a.d¦absent¦3¦a: {\n  b: 1, d: 3, # one\n}\n",
        ],
    );
}

#[test]
fn r48_items_are_appended() {
    check(
        yaml,
        &[
            "a:\n- 1 # one\nb: 2\n¦a[1]¦absent¦2¦a:\n- 1 # one\n- 2\nb: 2\n",
            "a:\n  - - 1\n¦a[0][1]¦absent¦{\"b\": 1, \"c\": 2}¦a:\n  - - 1\n    - b: 1\n      c: 2\n",
            "a: []\n¦a[0]¦absent¦\"x\"¦a: [x]\n",
            "a: [1, 2,]\n¦a[2]¦absent¦3¦a: [1, 2, 3,]\n",
            "a: [1,2] # why\n¦a[2]¦absent¦[3]¦a: [1,2,[3]] # why\n",
        ],
    );
}

#[test]
fn r48_fields_are_removed_with_their_own_lines() {
    check(
        yaml,
        &[
            "# above\na: 1 # one\n# below\nb: 2\n¦a¦1¦absent¦# above\n# below\nb: 2\n",
            "a: 1\nb:\n  c: 2 # two\n  # within\n  d: 3\n\ne: 4\n¦b¦{\"c\": 2, \"d\": 3}¦absent¦a: 1\n\ne: 4\n",
            "a: 1\nb: 2¦b¦2¦absent¦a: 1",
            "a: 1\r\nb: 2\r\n¦a¦1¦absent¦b: 2\r\n",
            "- 1\n- 2 # two\n- 3\n¦[1]¦2¦absent¦- 1\n- 3\n",
            "- a: 1 # one\n  b: 2\n¦[0].a¦1¦absent¦- b: 2\n",
            "- a: 1 # one\n  # two\n  b: 2\n¦[0].a¦1¦absent¦- # two\n  b: 2\n",
            "- - 1\n  - 2\n¦[0][0]¦1¦absent¦- - 2\n",
            "a: # why\n  # about b\n  b: 1 # one\nc: 2\n¦a.b¦1¦absent¦a: {} # why\n  # about b\nc: 2\n",
            "a:\n- 1\nc: 2\n¦a[0]¦1¦absent¦a: []\nc: 2\n",
            "a: &x\n  b: 1¦a.b¦1¦absent¦a: &x {}",
            "a: 1\n¦a¦1¦absent¦{}\n",
            "a: |\n  text\n\nb: 1\n¦a¦\"text\\n\"¦absent¦\nb: 1\n",
            "a: {b: 1, c: 2, d: 3}\n¦a.b¦1¦absent¦a: {c: 2, d: 3}\n",
            "a: {b: 1, c: 2, d: 3}\n¦a.d¦3¦absent¦a: {b: 1, c: 2}\n",
            "a: [1]\n¦a[0]¦1¦absent¦a: []\n",
            "a: [\n  1, # one\n  # two\n  2, # both\n  3\n]\n¦a[0]¦1¦absent¦a: [\n  # two\n  2, # both\n  3\n]\n",
            "a: [\n  1, # one\n  2\n]\n¦a[1]¦2¦absent¦a: [\n  1, # one\n]\n",
        ],
    );
}

#[test]
fn r48_values_change_their_kind() {
    check(
        yaml,
        &[
            "a: 1 # why\nb: 2\n¦a¦1¦{\"c\": 1, \"d\": [2]}¦a: # why\n  c: 1\n  d:\n    - 2\nb: 2\n",
            "a: 1\n¦a¦1¦[]¦a: []\n",
            "- 1 # why\n¦[0]¦1¦{\"c\": 1, \"d\": 2}¦- # why\n  c: 1\n  d: 2\n",
            "-  1\n- 2¦[1]¦2¦[{\"c\": 1, \"d\": 2}]¦-  1\n- - c: 1\n    d: 2",
            "a:\n  1\n¦a¦1¦[1, 2]¦a:\n  - 1\n  - 2\n",
            "a:\n¦a¦null¦{\"c\": 1}¦a:\n  c: 1\n",
            "a: # why\n  # about b\n  b: 1 # one\nc: 2\n¦a¦{\"b\": 1}¦\"x\"¦a: x # why\n  # about b\nc: 2\n",
            "a:\n  b: 1\nc: 2\n¦a¦{\"b\": 1}¦[1]¦a:\n  - 1\nc: 2\n",
            "a:\n- 1\nc: 2\n¦a¦[1]¦{\"b\": 1}¦a:\n  b: 1\nc: 2\n",
            "a: [1, {b: 2}]\n¦a[0]¦1¦{\"c\": [1]}¦a: [{c: [1]}, {b: 2}]\n",
            "a: [1, 2] # why\n¦a¦[1,2]¦5¦a: 5 # why\n",
        ],
    );
}

#[test]
fn r48_maps_and_lists_are_replaced_field_by_field() {
    check(
        yaml,
        &[
            "a:\n  b: 1 # b\n  c: 2 # c\n  d: 3 # d\n¦a¦{\"b\":1,\"c\":2,\"d\":3}¦{\"b\":1,\"c\":5,\"e\":6}¦a:\n  b: 1 # b\n  c: 5 # c\n  e: 6\n",
            "- 1 # 1\n- 2 # 2\n- 3 # 3\n¦¦[1,2,3]¦[2,3]¦- 2 # 2\n- 3 # 3\n",
            "- 1 # 1\n- 2 # 2\n¦¦[1,2]¦[1,4,5,6]¦- 1 # 1\n- 4 # 2\n- 5\n- 6\n",
            "a: {b: 1}\n¦¦{\"a\":{\"b\":1}}¦{\"a\":{\"c\":1}}¦a: {c: 1}\n",
            "a: 1\n¦¦{\"a\":1}¦{}¦{}\n",
        ],
    );
}

#[test]
fn r48_edits_of_one_call_are_made_together() {
    let text = "list:\n- a # a\n- b # b\n- c # c\nmap:\n  x: 1\n---\nlist: [1]\n";
    let mut edits = vec![
        change("list[0]", "\"a\"", ABSENT),
        change("list[2]", "\"c\"", "\"C\""),
        change("list[3]", ABSENT, "\"d\""),
        change("list[4]", ABSENT, "\"e\""),
        change("map.x", "1", ABSENT),
        change("map.w", ABSENT, "2"),
        change("map.z", ABSENT, "3"),
        change("list[0]", "1", "2"),
    ];
    edits[7].document = 1;
    let edited = yaml(text, &edits, &Limits::default()).unwrap();
    assert_eq!(
        edited,
        "list:\n- b # b\n- C # c\n- d\n- e\nmap:\n  w: 2\n  z: 3\n---\nlist: [2]\n"
    );
}

#[test]
fn r48_nothing_to_change_changes_nothing() {
    let text = "a:   'x' # why";
    let edits = [
        change("a", "\"x\"", "\"x\""),
        change("b", ABSENT, ABSENT),
        change("c.d", ABSENT, ABSENT),
    ];
    assert_eq!(yaml(text, &edits, &Limits::default()), Ok(text.to_owned()));
}

#[test]
fn r48_many_edits_of_one_map_and_one_list_are_made_in_order() {
    let mut edits = Vec::new();
    for nth in 0..40 {
        edits.push(change(&format!("map.k{nth:02}"), "1", ABSENT));
        edits.push(change(&format!("map.new{nth:02}"), ABSENT, "2"));
        edits.push(change(
            &format!("list[{}]", 40 + nth),
            ABSENT,
            &nth.to_string(),
        ));
        edits.push(change(
            &format!("flow[{}]", 1 + nth),
            ABSENT,
            &nth.to_string(),
        ));
        edits.push(change(&format!("empty[{nth}]"), ABSENT, &nth.to_string()));
        edits.push(change(
            &format!("list[{nth}]"),
            "1",
            if nth % 2 == 0 { ABSENT } else { "1" },
        ));
    }
    let lines =
        |line: &dyn Fn(usize) -> String, step| (0..40).step_by(step).map(line).collect::<String>();
    let before = lines(&|nth| format!("  k{nth:02}: 1\n"), 1);
    let text = format!(
        "map:\n{before}list:\n{}flow: [x]\nempty: []\n",
        lines(&|_| "- 1\n".into(), 1)
    );
    let edited = yaml(&text, &edits, &Limits::default()).unwrap();
    let items = lines(&|nth| format!(", {nth}"), 1);
    let after = lines(&|nth| format!("  new{nth:02}: 2\n"), 1);
    let list = lines(&|_| "- 1\n".into(), 2) + &lines(&|nth| format!("- {nth}\n"), 1);
    assert_eq!(
        edited,
        format!(
            "map:\n{after}list:\n{list}flow: [x{items}]\nempty: [{}]\n",
            &items[2..]
        )
    );
}
