//! Tests of the document reader with values that do not fit.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    clusters: BTreeMap<String, Cluster>,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    ports: BTreeMap<u16, bool>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    replicas: u32,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Quick,
    Slow { seconds: u8 },
    Named(String),
}

/// A document whose lines count the nodes, so that every position is different.
fn positioned(json: serde_json::Value) -> Document {
    fn number(node: &mut Node, line: &mut u32) {
        *line += 1;
        (node.line, node.column) = (*line, 1);
        match &mut node.value {
            Value::Sequence(items) => items.iter_mut().for_each(|item| number(item, line)),
            Value::Map(entries) => {
                for (name, value) in entries {
                    *line += 1;
                    (name.line, name.column) = (*line, 2);
                    number(value, line);
                }
            }
            _ => {}
        }
    }
    let mut root = Node::from(json);
    number(&mut root, &mut 0);
    Document::new("m.yaml", "m.yaml", 0, root)
}

fn problem_of(json: serde_json::Value) -> String {
    positioned(json).read::<Manifest>().unwrap_err().to_string()
}

#[test]
fn fitting_values_are_read() {
    let read: Manifest = positioned(serde_json::json!({
        "clusters": {"eu": {"replicas": 2}}, "mode": {"slow": {"seconds": 3}}, "ports": {"80": true},
    }))
    .read()
    .unwrap();
    assert_eq!(read.clusters["eu"].replicas, 2);
    assert_eq!(read.mode, Some(Mode::Slow { seconds: 3 }));
    assert!(read.ports[&80]);
    let named: Mode = positioned(serde_json::json!({"named": "x"}))
        .read()
        .unwrap();
    assert_eq!(named, Mode::Named("x".into()));
    let quick: Mode = positioned(serde_json::json!("quick")).read().unwrap();
    assert_eq!(quick, Mode::Quick);
}

#[test]
fn every_misfit_names_line_column_and_field() {
    let cases = [
        (
            serde_json::json!({"clusters": {"eu": {"replicas": "two"}}}),
            r#"m.yaml#0:7:1: clusters.eu.replicas: invalid type: string "two", expected u32"#,
        ),
        (
            serde_json::json!({"clusters": {"eu": {"replicas": -1}}}),
            "m.yaml#0:7:1: clusters.eu.replicas: invalid value: integer `-1`, expected u32",
        ),
        (
            serde_json::json!({"clusters": {"eu": {}}}),
            "m.yaml#0:5:1: clusters.eu: missing field `replicas`",
        ),
        (
            serde_json::json!({"clusters": {"eu": {"replicas": 1, "repicas": 2}}}),
            "m.yaml#0:6:2: clusters.eu.repicas: unknown field `repicas`, expected `replicas`",
        ),
        (
            serde_json::json!({"clusters": {}, "mode": {"slow": {"seconds": 300}}}),
            "m.yaml#0:9:1: mode.slow.seconds: invalid value: integer `300`, expected u8",
        ),
        (
            serde_json::json!({"clusters": {}, "mode": "fast"}),
            "m.yaml#0:5:1: mode: unknown variant `fast`, expected one of `quick`, `slow`, `named`",
        ),
        (
            serde_json::json!([]),
            "m.yaml#0:1:1: invalid length 0, expected struct Manifest with 3 elements",
        ),
    ];
    for (json, expected) in cases {
        assert_eq!(problem_of(json), expected);
    }
}

#[test]
fn sequences_are_indexed_in_the_path() {
    let problem = positioned(serde_json::json!([[1], [2, "x"]]))
        .read::<Vec<Vec<u8>>>()
        .unwrap_err();
    assert_eq!((&*problem.field, problem.line), ("[1][1]", 6));
}

#[test]
fn odd_keys_are_quoted_in_the_path() {
    let problem = problem_of(serde_json::json!({"clusters": {"a.b/c": {"replicas": "two"}}}));
    let path = r#"clusters["a.b/c"].replicas"#;
    assert!(problem.contains(path), "{problem}");
    assert_eq!(path.parse::<FieldPath>().unwrap().to_string(), path);
}
