use plugin_sdk::document::FieldPath;
use serde_json::{Value as Json, json};

use super::*;

/// The objects in a text as JSON, or the problem.
fn objects(text: &str) -> Result<Vec<Json>, String> {
    let nodes = KubernetesYaml::parse(text, &Limits::default())
        .map_err(|problem| format!("{}:{}: {}", problem.line, problem.column, problem.message))?;
    let documents = nodes
        .into_iter()
        .map(|node| Document::new("m", "m", 0, node));
    Ok(documents.map(|document| document.read().unwrap()).collect())
}

/// The value of one scalar as it is written.
fn value(scalar: &str) -> Result<Json, String> {
    let mut all = objects(&format!("v: {scalar}"))?;
    Ok(all.remove(0)["v"].take())
}

fn refused(text: &str) -> String {
    objects(text).unwrap_err()
}

#[test]
fn r45_kubernetes_scalars_are_those_of_kubectl() {
    let cases = [
        ("yes", json!(true)),
        ("On", json!(true)),
        ("y", json!(true)),
        ("N", json!(false)),
        ("off", json!(false)),
        ("yEs", json!("yEs")),
        ("~", json!(null)),
        ("0644", json!(420)),
        ("0o644", json!(420)),
        ("0O17", json!(15)),
        ("-0b11", json!(-3)),
        ("0x_1F", json!(31)),
        ("08", json!(8)),
        ("1_000", json!(1000)),
        ("+12", json!(12)),
        ("12:30:45", json!("12:30:45")),
        ("2001-12-14", json!("2001-12-14")),
        ("1e3", json!(1000)),
        ("1.0", json!(1)),
        ("-0.0", json!(0)),
        ("1.", json!(1)),
        (".5", json!(0.5)),
        (
            "1.2345678901234567e18",
            json!(1_234_567_890_123_456_800_i64),
        ),
        (
            "0x123456789abcdef0123456789",
            json!("0x123456789abcdef0123456789"),
        ),
        ("!!str 12", json!("12")),
        ("!!int \"0644\"", json!(420)),
        ("!!float 1", json!(1)),
        ("!!bool 'yes'", json!(true)),
        ("!!binary aGVsbG8=", json!("hello")),
        ("=", json!("=")),
        ("\"yes\"", json!("yes")),
        ("'{{ .x }}'", json!("{{ .x }}")),
        ("is {{ $value }}%", json!("is {{ $value }}%")),
        ("more than\n  {{ $value }}", json!("more than {{ $value }}")),
    ];
    for (scalar, expected) in cases {
        assert_eq!(value(scalar), Ok(expected), "{scalar}");
    }
}

#[test]
fn r45_kubernetes_scalars_that_kubectl_reads_as_something_else_are_refused() {
    for (scalar, why) in [
        ("18446744073709551615", "does not fit 64 bits"),
        ("9223372036854775808", "does not fit 64 bits"),
        ("99999999999999999999", "does not fit 64 bits"),
        ("0777777777777777777777777", "does not fit 64 bits"),
        ("1e400", "does not fit 64 bits"),
        (".inf", "not a finite number"),
        ("-.Inf", "not a finite number"),
        (".nan", "not a finite number"),
        (".5_0", "without underscores"),
        ("!!int 1.5", "tagged !!int, but `1.5` is not one"),
        ("!!int x", "tagged !!int"),
        ("!!null x", "tagged !!null"),
        ("!!binary '*'", "not base64"),
        ("!!binary /w==", "not UTF-8"),
        ("!foo 12", "remove it"),
        ("! 12", "remove it"),
        ("!!timestamp 2001-12-14", "remove it"),
        ("!!set {a}", "remove it"),
        ("x\n   {{- .Values.x }}", "looks like a template"),
        (
            "{{ .Values.x }}",
            "render it first, for example with an exec source",
        ),
    ] {
        let problem = value(scalar).unwrap_err();
        assert!(
            problem.starts_with("1:") && problem.contains(why),
            "{scalar}: {problem}"
        );
    }
}

#[test]
fn r45_kubernetes_keys_are_texts_as_kubectl_converts_them() {
    let keys = objects("{yes: a, 0644: b, -1: c, \"on\": d}").unwrap_err();
    assert!(keys.contains("read as JSON"), "{keys}");
    let keys = objects("yes: a\n0644: b\n-1: c\n\"on\": d\n? e\n: f\n");
    assert_eq!(
        keys,
        Ok(vec![
            json!({"true": "a", "420": "b", "-1": "c", "on": "d", "e": "f"})
        ])
    );
    for (text, why) in [
        ("1.5: a", "1:1: a key must not be a number with a fraction"),
        ("~: a", "1:1: a key must not be empty or null"),
        (
            "v: [a:]",
            "1:5: kubectl takes the colon as a part of the key",
        ),
        (
            "v: [a :]",
            "1:5: kubectl takes the colon as a part of the key",
        ),
        (
            "v: {a:,b: 1}",
            "1:5: kubectl takes the colon as a part of the key",
        ),
        ("a: 1\na: 2", "2:1: the key `a` appears twice"),
        ("on: 1\nyes: 2", "2:1: the key `true` appears twice"),
        ("1: a\n\"1\": b", "2:1: the key `1` appears twice"),
        ("{{ .k }}: a", "1:1: "),
        ("a{{ .k }}: a", "1:1: looks like a template"),
        ("[a]: b", "1:1: "),
    ] {
        let problem = refused(text);
        assert!(problem.starts_with(why), "{text}: {problem}");
    }
}

#[test]
fn r45_kubernetes_merge_keys_are_merged_as_kubectl_merges_them() {
    let base = "b: &b {x: 1, y2: 2}\nc: &c {x: 3, z: 4}\n";
    let merged = |map: &str| Ok::<_, String>(objects(&format!("{base}m: {map}"))?[0]["m"].clone());
    for (map, expected) in [
        ("{<<: *b, x: 5}", json!({"x": 5, "y2": 2})),
        // kubectl lets a merge key replace what is before it.
        ("{x: 5, <<: *b}", json!({"x": 1, "y2": 2})),
        (
            "{<<: [*b, *c], k: 1}",
            json!({"x": 1, "y2": 2, "z": 4, "k": 1}),
        ),
        ("{<<: {x: 7}, <<: *c}", json!({"x": 3, "z": 4})),
        ("{\"<<\": 1}", json!({"<<": 1})),
        ("{!!merge <<: *b, x: 5}", json!({"x": 5, "y2": 2})),
        ("{!!str <<: 1}", json!({"<<": 1})),
    ] {
        assert_eq!(merged(map), Ok(expected), "{map}");
    }
    for map in ["{<<: 1}", "{<<: [*b, 1]}", "{<<: [[*b]]}", "{<<: ~}"] {
        let problem = merged(map).unwrap_err();
        assert!(
            problem.contains("a merge key takes a map or a list of maps"),
            "{map}: {problem}"
        );
    }
    let alias = refused("l: &l [{a: 1}]\nm: {<<: *l}");
    assert!(alias.starts_with("2:9: a merge key takes"), "{alias}");
}

#[test]
fn r45_kubernetes_streams_are_separated_as_kubectl_separates_them() {
    let text = "# first\n---\na: |\n  x\n--- # second\n# nothing\n---\nb: |2-\n   y\r\n---\nc: \"z\"\n...\n# end\n";
    assert_eq!(
        objects(text),
        Ok(vec![
            json!({"a": "x\n"}),
            json!({"b": " y"}),
            json!({"c": "z"})
        ])
    );
    assert_eq!(
        objects("a: |\n  x"),
        Ok(vec![json!({"a": "x\n"})]),
        "kubectl ends the last line"
    );
    assert_eq!(objects("# nothing\n...\n"), Ok(vec![]));
    assert_eq!(objects("\u{feff}a: 1\n---"), Ok(vec![json!({"a": 1})]));
    for (text, why) in [
        (
            "a: 1\n--- {b: 2}\n",
            "2:1: kubectl does not begin a document in a line with content",
        ),
        ("--- !!map\na: 1", "1:1: kubectl does not begin"),
        (
            "a: 1\n...\nb: 2\n",
            "3:1: kubectl ignores what comes after `...`",
        ),
        ("a: 1\n... x", "2:1: content follows `...`"),
        (
            "%YAML 1.1\n---\na: 1",
            "1:1: kubectl does not take YAML directives",
        ),
        (
            "a: 1\n---\n# c\n%TAG ! x\n---\na: 1",
            "4:1: kubectl does not take YAML directives",
        ),
        ("a: \"x\u{85}\"", "1:6: a control character"),
        ("a: 1\nb: x\u{2028}y", "2:5: a control character"),
        ("a: &x 1\n---\nb: *x", "3:4: "),
        ("- a", "1:1: a Kubernetes object must be a map"),
        (
            "a: 1\n---\n{{- if .x }}\nb: 2\n{{- end }}",
            "3:1: looks like a template",
        ),
        ("{{- if .x }}\nb: 2\n{{- end }}", "1:1: "),
        ("a: 1\n---\nb: [", "3:4: "),
    ] {
        let problem = refused(text);
        assert!(problem.starts_with(why), "{text:?}: {problem}");
    }
    assert!(refused("{{- if .x }}\nb: 2").contains("looks like a template"));
}

#[test]
fn r45_kubernetes_json_is_a_stream_with_the_numbers_of_kubectl() {
    let text = "{\"a\": 1.0, \"b\": 0.5}\n {\"c\": [1e2]}";
    assert_eq!(
        objects(text),
        Ok(vec![json!({"a": 1, "b": 0.5}), json!({"c": [100]})])
    );
    let nodes = KubernetesYaml::parse(text, &Limits::default()).unwrap();
    let path: FieldPath = "c[0]".parse().unwrap();
    let number = nodes[1].at(&path).unwrap();
    assert_eq!((number.line, number.column), (2, 9));
    let large = refused("{\"a\": 1}\n{\"a\": 18446744073709551615}");
    assert!(
        large.starts_with("2:7: the integer 18446744073709551615"),
        "{large}"
    );
    assert!(
        refused("{\"a\": 1} {\"b\": }").starts_with("1:16: begins with `{` and is read as JSON")
    );
    assert!(refused("{\"a\": 1, \"a\": 2}").contains("appears twice"));
}

#[test]
fn r45_kubernetes_lists_are_unpacked_with_the_positions_of_their_items() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- kind: A\n  apiVersion: v1\n- {kind: B, apiVersion: v1}\n";
    let nodes = KubernetesYaml::parse(text, &Limits::default()).unwrap();
    let lines: Vec<_> = nodes.iter().map(|node| (node.line, node.column)).collect();
    assert_eq!(lines, [(4, 3), (6, 3)]);
    let implied = objects("apiVersion: v1\nkind: ConfigMapList\nitems: [{a: 1}, {kind: X, a: 2}]");
    let expected =
        json!([{"a": 1, "kind": "ConfigMap", "apiVersion": "v1"}, {"kind": "X", "a": 2}]);
    assert_eq!(json!(implied.unwrap()), expected);
    assert_eq!(objects("kind: List\nitems: []"), Ok(vec![]));
    assert_eq!(
        objects("kind: AllowList"),
        Ok(vec![json!({"kind": "AllowList"})])
    );
    for (text, why) in [
        (
            "kind: ConfigMap\nitems: []",
            "2:8: kubectl reads an object with `items` as a list",
        ),
        ("kind: List\nitems: 1", "2:8: must be a list of objects"),
        (
            "kind: List\nitems: [1]",
            "2:9: an item of a list must be an object",
        ),
        (
            "kind: List\nitems: [{kind: List, items: []}]",
            "2:29: kubectl does not read a list in a list",
        ),
    ] {
        let problem = refused(text);
        assert!(problem.starts_with(why), "{text:?}: {problem}");
    }
}

#[test]
fn many_small_documents_cost_linear_time() {
    let limits = Limits::default();
    let empty = "---\n".repeat(200_000);
    assert_eq!(KubernetesYaml::parse(&empty, &limits), Ok(vec![]));
    let json = KubernetesYaml::parse(&"{}".repeat(200_000), &limits).unwrap();
    assert_eq!(
        json.last().map(|node| (node.line, node.column)),
        Some((1, 399_999))
    );
}
