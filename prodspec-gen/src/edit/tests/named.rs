//! Items of lists that are named by one of their fields: found in the very text that is edited.

use plugin_sdk::FieldPath;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{json, toml, value, yaml},
    ABSENT, change, check,
};
use crate::format::Limits;

const YAML: &str = "\
clusters: # ours
- name: eu # the first
  replicas: 3
- {name: us, replicas: 4}
- replicas: 5
  name: 80
";

#[test]
fn r48_item_is_edited_by_its_name_wherever_it_is() {
    let set = |from: &str, to: &str| YAML.replace(from, to);
    for (path, was, to, after) in [
        (
            r#"clusters[name="eu"].replicas"#,
            "3",
            "6",
            set("replicas: 3", "replicas: 6"),
        ),
        (
            r#"clusters[name="us"].replicas"#,
            "4",
            "6",
            set("replicas: 4", "replicas: 6"),
        ),
        (
            r#"clusters[name="80"].replicas"#,
            "5",
            "6",
            set("replicas: 5", "replicas: 6"),
        ),
        (
            r#"clusters[name="eu"].flag"#,
            ABSENT,
            "true",
            set("replicas: 3\n", "replicas: 3\n  flag: true\n"),
        ),
        (
            r#"clusters[name="us"]"#,
            r#"{"name":"us","replicas":4}"#,
            ABSENT,
            set("- {name: us, replicas: 4}\n", ""),
        ),
        (
            r#"clusters[name="ap"]"#,
            ABSENT,
            r#"{"name":"ap"}"#,
            format!("{YAML}- name: ap\n"),
        ),
    ] {
        let edited = yaml(YAML, &[change(path, was, to)], &Limits::default());
        assert_eq!(
            edited.map_err(|refused| refused.to_string()),
            Ok(after),
            "{path}"
        );
    }
    check(
        toml,
        &[
            "[[a]]\nn = \"x\"\n[[a]]\nn = \"y\"\nv = 1\n¦a[n=\"y\"].v¦1¦2¦[[a]]\nn = \"x\"\n[[a]]\nn = \"y\"\nv = 2\n",
        ],
    );
    check(
        json,
        &[
            "[{\"n\": \"x\", \"v\": 1}, {\"n\": \"y\"}]\n¦[n=\"x\"].v¦1¦2¦[{\"n\": \"x\", \"v\": 2}, {\"n\": \"y\"}]\n",
        ],
    );
}

#[test]
fn r48_name_of_no_item_or_of_two_is_refused() {
    let twice = "a:\n- {n: x, v: 1}\n- {n: x, v: 1}\n";
    for (text, path, was, to, refusal) in [
        (
            twice,
            r#"a[n="x"].v"#,
            "1",
            "2",
            "`a[n=\"x\"].v` may be several fields: two items of the list `a`, line 2, have that name; give each item a name of its own",
        ),
        (
            twice,
            r#"a[n="x"]"#,
            ABSENT,
            r#"{"n":"x"}"#,
            "`a[n=\"x\"]` may be several fields: two items of the list `a`, line 2, have that name; give each item a name of its own",
        ),
        (
            twice,
            r#"a[n="y"].v"#,
            "1",
            "2",
            "there is no field `a[n=\"y\"].v`: the list at `a`, line 2, has no such entry; correct the path, or add the value that contains it first",
        ),
        (
            twice,
            r#"a[n="y"]"#,
            ABSENT,
            r#"{"n":"z"}"#,
            "`a[n=\"y\"]` would not name the item any more after this edit; keep the field that names it, or name the item by another field or by its index",
        ),
        (
            "a: {n: x}\n",
            r#"a[n="x"]"#,
            ABSENT,
            r#"{"n":"x"}"#,
            "there is no field `a[n=\"x\"]`: the map at `a`, line 1, has no such entry; correct the path, or add the value that contains it first",
        ),
    ] {
        let refused = yaml(text, &[change(path, was, to)], &Limits::default());
        assert_eq!(refused.unwrap_err().to_string(), refusal);
    }
    let edits = [
        change("clusters[0].replicas", "3", "4"),
        change(r#"clusters[name="eu"].replicas"#, "3", "5"),
    ];
    let refused = yaml(YAML, &edits, &Limits::default()).unwrap_err();
    assert!(refused.to_string().contains("overlap"), "{refused}");
}

/// One change that renames an item could otherwise lead its other edits to another item.
#[test]
fn r48_item_cannot_lose_the_name_by_which_a_path_finds_it() {
    let text = r#"[{"n": "a", "m": "1", "v": 1}, {"n": "b", "m": "2", "v": 7}]"#;
    let remove = change(r#"[n="a"].v"#, "1", ABSENT);
    let rename = |path: &str, was: &str, to: &str| change(path, was, to);
    for edits in [
        vec![rename(r#"[n="a"].n"#, r#""a""#, r#""z""#)],
        vec![rename(
            r#"[n="b"]"#,
            r#"{"n":"b","m":"2","v":7}"#,
            r#"{"n":"a"}"#,
        )],
        vec![remove.clone(), rename(r#"[m="2"].n"#, r#""b""#, r#""a""#)],
        vec![remove.clone(), rename("[1].n", r#""b""#, r#""a""#)],
        vec![
            remove.clone(),
            rename("[0].n", r#""a""#, r#""z""#),
            rename("[1].n", r#""b""#, r#""a""#),
        ],
        vec![
            remove,
            rename("[1]", r#"{"n":"b","m":"2","v":7}"#, r#"{"n":"a"}"#),
        ],
    ] {
        let limits = Limits::default();
        json(text, &edits, &limits).unwrap_err();
        yaml(text, &edits, &limits).unwrap_err();
        let of_row = |it: &super::super::Edit| plugin_sdk::FieldEdit {
            document: "d".into(),
            path: it.path.clone(),
            was: it.was.clone(),
            to: it.to.clone(),
        };
        let fields: Vec<_> = edits.iter().map(of_row).collect();
        let row: Value = serde_json::from_str(text).unwrap();
        value::edited(Some(row), &fields.iter().collect::<Vec<_>>()).unwrap_err();
    }
    let by_index = rename("[1].n", r#""b""#, r#""c""#);
    let renamed = json(text, &[by_index], &Limits::default()).unwrap();
    assert_eq!(renamed, text.replace(r#""b""#, r#""c""#));
}

proptest! {
    #[test]
    fn r48_edit_by_name_equals_the_edit_by_index(
        values in proptest::collection::vec(any::<u8>(), 1..6),
        at in any::<prop::sample::Index>(),
        to in prop_oneof![Just(None), any::<u8>().prop_map(Some)],
        field in prop_oneof![Just("v"), Just("new")],
    ) {
        let nth = at.index(values.len());
        let items = values.iter().enumerate();
        let items: Vec<Value> = items.map(|(nth, v)| json!({"name": format!("c{nth}"), "v": v})).collect();
        let list = FieldPath::keys(["list"]);
        let was = items[nth].get(field).cloned();
        let edit = |path: FieldPath| super::super::Edit {
            document: 0,
            path: path.key(field),
            was: was.clone(),
            to: to.map(Value::from),
        };
        let [by_name, by_index] = [list.clone().item("name", format!("c{nth}")), list.index(nth)].map(edit);
        let text = serde_json::to_string(&json!({"list": items})).unwrap();
        for function in [json, yaml] {
            let limits = Limits::default();
            let named = function(&text, std::slice::from_ref(&by_name), &limits).unwrap();
            prop_assert_eq!(named, function(&text, std::slice::from_ref(&by_index), &limits).unwrap());
        }
        let row = || Some(json!({"list": items}));
        let in_table = |it: &super::super::Edit| {
            let super::super::Edit { path, was, to, .. } = it.clone();
            let document = "d".into();
            let field = plugin_sdk::FieldEdit { document, path, was, to };
            value::edited(row(), &[&field]).unwrap()
        };
        prop_assert_eq!(in_table(&by_name), in_table(&by_index));
    }
}
