//! Compares what the format reads with what `kubectl` reads, for a corpus and for generated text. `kubectl label --local`
//! prints the objects in a file as it reads them, without a server. Skipped where `kubectl` is not installed; streams, where it is too old.

#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

use std::{io::Write, process::Command};

use plugin_sdk::Document;
use plugins_kubernetes::KubernetesYaml;
use prodspec_gen::format::{Format, Limits};
use proptest::{prelude::*, sample::select, test_runner::TestRunner};
use serde_json::Value;

/// The label that the command needs to have something to do.
const LABEL: &str = "read-by";

/// The objects in a text, as the format reads them. `None`: it refuses the text.
fn ours(text: &str) -> Option<Vec<Value>> {
    let nodes = KubernetesYaml::parse(text, &Limits::default()).ok()?;
    let read = |node| Document::new("m", "m", 0, node).read().unwrap();
    Some(nodes.into_iter().map(read).collect())
}

/// The objects in a text, as `kubectl` reads them.
fn kubectl(text: &str) -> Result<Vec<Value>, String> {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut command = Command::new("kubectl");
    command.args(["label", "--local", "-o", "json", "-f"]);
    command.arg(file.path()).arg(format!("{LABEL}=kubectl"));
    let output = command.env("KUBECONFIG", "/dev/null").output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let objects = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    Ok(objects
        .map(|object| without_label(object.unwrap()))
        .collect())
}

fn without_label(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    let labels = metadata["labels"].as_object_mut().unwrap();
    labels.remove(LABEL);
    if labels.is_empty() {
        metadata.remove("labels");
    }
    object
}

/// The oldest minor version of kubectl 1 whose streams are the reference: older ones read some of them otherwise.
const STREAMS_SINCE: u64 = 25;

/// The minor version of the `kubectl` that is installed; 0 if it does not say.
fn minor_version() -> u64 {
    let version = Command::new("kubectl")
        .args(["version", "--client", "-o", "json"])
        .output();
    let version: Value = version.map_or(Value::Null, |it| {
        serde_json::from_slice(&it.stdout).unwrap_or_default()
    });
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or("");
    minor.trim_end_matches('+').parse().unwrap_or(0)
}

/// Whether this kubectl reads separators with comments, and ends of documents. Otherwise the test is skipped.
fn reads_streams() -> bool {
    let reads = minor_version() >= STREAMS_SINCE;
    if !reads {
        testing_programs::skip(&format!("kubectl 1.{STREAMS_SINCE} or newer"), None);
    }
    reads
}

fn object(name: usize, content: &str) -> String {
    format!("apiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: x{name}}}\n{content}\n")
}

/// JSON with every number as the float that it is nearest to: `1e20` and its digits are the same number.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => 0.into(),
        Value::Number(number) if number.as_i64().is_none() => number.as_f64().into(),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), normal(value)))
            .collect(),
        other => other.clone(),
    }
}

/// Checks that each of `contents` that the format takes is what `kubectl` reads.
fn compare(contents: &[String]) -> Result<(), TestCaseError> {
    let objects = contents.iter().enumerate();
    let objects = objects.map(|(at, content)| object(at, content));
    let taken: Vec<String> = objects.filter(|object| ours(object).is_some()).collect();
    compare_objects(&taken)
}

/// Compares objects that the format takes: all in one stream, and if they differ, in smaller streams.
fn compare_objects(taken: &[String]) -> Result<(), TestCaseError> {
    let whole = taken.join("---\n");
    let normal = |objects: Vec<Value>| objects.iter().map(normal).collect::<Vec<_>>();
    match (taken.len(), ours(&whole).map(normal)) {
        (0, _) => Ok(()),
        (1, ours) => match kubectl(&whole) {
            Ok(theirs) => {
                prop_assert_eq!(ours, Some(normal(theirs)), "{}", whole);
                Ok(())
            }
            // What kubectl refuses has no value that could differ.
            Err(_) => Ok(()),
        },
        (_, ours) if ours.is_some() && ours == kubectl(&whole).ok().map(normal) => Ok(()),
        (many, _) => {
            compare_objects(&taken[..many / 2])?;
            compare_objects(&taken[many / 2..])
        }
    }
}

fn check(cases: u32, contents: impl Strategy<Value = Vec<String>>) {
    testing_programs::needs!("kubectl", "kubernetes-client");
    let more = std::env::var("KUBECTL_CASES").ok();
    let cases = more.and_then(|more| more.parse().ok()).unwrap_or(cases);
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(&contents, |contents| compare(&contents))
        .unwrap();
}

#[test]
fn r45_kubernetes_corpus_is_read_as_kubectl_reads_it() {
    testing_programs::needs!("kubectl", "kubernetes-client");
    let corpus: Vec<String> = CORPUS.iter().map(|content| (*content).to_owned()).collect();
    for content in &corpus {
        assert!(ours(&object(0, content)).is_some(), "refused: {content}");
    }
    let whole: Vec<String> = corpus
        .iter()
        .enumerate()
        .map(|(at, content)| object(at, content))
        .collect();
    assert!(kubectl(&whole.join("---\n")).is_ok());
    compare(&corpus).unwrap();
}

#[test]
fn r45_kubernetes_streams_are_read_as_kubectl_reads_them() {
    testing_programs::needs!("kubectl", "kubernetes-client");
    if !reads_streams() {
        return;
    }
    for text in STREAMS {
        let [ours, theirs] = [ours(text).ok_or_else(String::new), kubectl(text)]
            .map(|read| read.map(|objects| objects.iter().map(normal).collect::<Vec<_>>()));
        assert_eq!(ours, theirs, "{text}");
    }
}

#[test]
fn r45_kubernetes_numbers_and_words_are_read_as_kubectl_reads_them() {
    let number = "[-+]?(0[xXoObB]?)?[0-9_.]{0,6}([eE][-+]?[0-9]{1,3})?[0-9a-f_:]{0,3}";
    let word = select(vec![
        "y", "n", "yes", "No", "oN", "OFF", "true", "False", "~", "null", "NULL", "<<", "=",
        ".inf", ".5",
    ]);
    let tag = select(vec![
        "",
        "",
        "",
        "!!str ",
        "!!int ",
        "!!float ",
        "!!bool ",
        "!!null ",
        "!!binary ",
    ]);
    let quote = select(vec!["", "", "", "'", "\""]);
    let scalar = prop_oneof![
        number.prop_map(|number| number),
        word.prop_map(str::to_owned)
    ];
    let scalar = (tag, quote, scalar)
        .prop_map(|(tag, quote, scalar)| format!("{tag}{quote}{scalar}{quote}"));
    let content = (scalar.clone(), scalar)
        .prop_map(|(key, value)| format!("spec:\n  {key}: {value}\nlist: [{value}]"));
    check(12, proptest::collection::vec(content, 1..60));
}

#[test]
fn r45_kubernetes_syntax_is_read_as_kubectl_reads_it() {
    let token = select(TOKENS);
    let text = proptest::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat());
    let content = prop_oneof![
        text.clone().prop_map(|text| format!("spec: {text}")),
        text.clone().prop_map(|text| format!("spec:\n  {text}")),
        text.clone().prop_map(|text| format!("spec: {{{text}}}")),
        text.clone().prop_map(|text| format!("spec: [{text}]")),
        text.clone().prop_map(|text| format!("spec: \"{text}\"")),
        text.clone()
            .prop_map(|text| format!("spec: |\n  {text}\nend: 1")),
        text.prop_map(|text| format!("spec: >\n  {text}")),
    ];
    check(12, proptest::collection::vec(content, 1..60));
}

#[test]
fn r45_kubernetes_separators_are_read_as_kubectl_reads_them() {
    testing_programs::needs!("kubectl", "kubernetes-client");
    if !reads_streams() {
        return;
    }
    let line = select(vec![
        "---\n",
        "---\n",
        "--- # c\n",
        "---\t\r\n",
        "---#c\n",
        "...\n",
        "# c\n",
        "\n",
        "  \n",
        "...  # c\n",
    ]);
    let end = select(vec!["", "\n"]);
    let object = (0_usize..9, end).prop_map(|(name, end)| object(name, &format!("t: |\n  x{end}")));
    let part = prop_oneof![line.prop_map(str::to_owned), object];
    let texts = proptest::collection::vec(part, 1..8).prop_map(|parts| parts.concat());
    let config = ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let compared = TestRunner::new(config).run(&texts, |text| {
        // kubectl refuses a stream without objects, and `...` without a document before it.
        if let (Some(ours), Ok(theirs)) = (ours(&text), kubectl(&text)) {
            prop_assert_eq!(ours, theirs, "{}", text);
        }
        Ok(())
    });
    compared.unwrap();
}

/// Parts of the syntax of YAML, and some text.
const TOKENS: &[&str] = &[
    "a",
    "b1",
    "-",
    "- ",
    ": ",
    ":",
    "? ",
    "# c",
    "#",
    ", ",
    ",",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "\\n",
    "\\",
    "|",
    ">",
    "|-",
    ">+\n",
    "&x ",
    "*x",
    "!!str ",
    "<<: ",
    "\n",
    "\n",
    "\n  ",
    "\n  ",
    "\n    ",
    " ",
    " ",
    "\t",
    "a: ",
    "b: ",
    "c: ",
    "- a\n",
    "é",
    "%",
    "@",
    "`",
    "x: y",
    "''",
    "...",
    "2",
    "\\u00e9",
    "\\x41",
    "\\/",
    "\\ud83d\\ude00",
    "\\\n",
];

const CORPUS: &[&str] = &[
    "spec: [y, Yes, n, off, On, 0644, 0o644, 0b11, -0b11, 08, 1_000, 12:30:45, 1e3, 1.0, .5, 1., 2001-12-14, ~, -0.0]",
    "spec: {yes: 1, 1: a, 0644: c, \"on\": d}",
    "b: &b {x: 1, y2: 2}\nm1: {x: 5, <<: *b}\nm2: {<<: *b, x: 5}\nm3: {<<: [{x: 1}, {x: 2, z: 3}, *b]}",
    "data:\n  a: |\n    x\n    y\n\n  b: |+\n    x\n\n  c: >-\n    x\n    y\n\n      z\n  d: |2\n      x",
    "spec:\n- a\n-\n  - b\n- c: d\n  e: f\n-   - g\n",
    "spec: 'it''s'\ntext: \"a\\tb\\x41\\u00e9\\\n  c\"\nplain: a\n  b\n\n  c # d\nurl: http://x:80/#y",
    "spec: !!binary |\n  aGVs\n  bG8=\ntext: !!str 12\nempty: !!str\nnone:\n",
    "spec: &a\n  b: &b [1, 2]\n  c: *b\nd: *a",
];

const STREAMS: &[&str] = &[
    "# c\n---\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}\nt: |\n  x\n--- # b\napiVersion: v1\nkind: B\nmetadata: {name: b}\nt: |\n  x",
    "apiVersion: v1\r\nkind: A\r\nmetadata: {name: a}\r\nt: |\r\n  x\r\n\r\n  y\r\n---\r\n# end\r\n",
    "\u{feff}apiVersion: v1\nkind: A\nmetadata: {name: a}\n...\n# end\n",
    "{\"apiVersion\": \"v1\", \"kind\": \"A\", \"metadata\": {\"name\": \"a\"}, \"n\": [1.0, 1e2, 0.5, -0.0]}\n{\"apiVersion\": \"v1\", \"kind\": \"A\", \"metadata\": {\"name\": \"b\"}}",
    "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n- {apiVersion: v1, kind: B, metadata: {name: b}}",
    "apiVersion: v1\nkind: ConfigMapList\nitems:\n- {metadata: {name: a}, data: {x: y}}",
];
