//! Hostile and broken files: one clear error each, with line and column, in bounded time.

use proptest::prelude::*;

use super::*;

fn refused<F: Format>(text: &str) -> String {
    F::parse(text, &Limits::default())
        .and_then(|_| declares_end::<F>(text))
        .map(|()| "accepted".to_owned())
        .unwrap_or_else(|problem| {
            format!("{}:{}: {}", problem.line, problem.column, problem.message)
        })
}

fn yaml(text: &str) -> Vec<Node> {
    Yaml::parse(text, &Limits::default()).unwrap()
}

fn json(text: &str) -> Vec<Node> {
    Json::parse(text, &Limits::default()).unwrap()
}

/// A tree without its positions.
fn plain(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(is) => (*is).into(),
        Value::Int(int) => (*int).into(),
        Value::Uint(uint) => (*uint).into(),
        Value::Float(float) => (*float).into(),
        Value::String(text) => text.to_string().into(),
        Value::Sequence(items) => items.iter().map(plain).collect(),
        Value::Map(entries) => entries
            .iter()
            .map(|(name, value)| (name.text.to_string(), plain(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

#[test]
fn the_three_formats_read_the_same_values() {
    let expected = serde_json::json!({
        "name": "no", "n": -3, "big": 18_446_744_073_709_551_615_u64, "x": 1.5, "on": true,
        "list": ["a", {"b": 1}],
    });
    let from_yaml =
        yaml("name: no\nn: -3\nbig: 18446744073709551615\nx: 1.5\non: true\nlist:\n- a\n- b: 1\n");
    let from_json = json(&expected.to_string());
    assert_eq!(plain(&from_yaml[0]), expected);
    assert_eq!(plain(&from_json[0]), expected);
    let toml = "name = 'no'\nn = -3\nx = 1.5\non = true\nlist = ['a', {b = 1}]\n";
    let mut from_toml = plain(&Toml::parse(toml, &Limits::default()).unwrap()[0]);
    from_toml["big"] = expected["big"].clone();
    assert_eq!(from_toml, expected);
}

#[test]
fn positions_are_those_of_the_text() {
    let at = |nodes: Vec<Node>| {
        let Value::Map(entries) = &nodes[0].value else {
            panic!("a map")
        };
        let (name, value) = entries.iter().find(|(name, _)| &*name.text == "b").unwrap();
        (name.line, name.column, value.line, value.column)
    };
    assert_eq!(at(yaml("a: 1\nb:   2\n")), (2, 1, 2, 6));
    assert_eq!(at(json("{\"a\": 1,\n  \"b\" :  2}")), (2, 3, 2, 10));
    let toml = Toml::parse("a = 1\nb =  2\n", &Limits::default()).unwrap();
    assert_eq!(at(toml), (2, 1, 2, 6));
}

#[test]
fn documents_of_a_file_are_read_in_order() {
    let documents = yaml("a: 1\n---\nb: 2\n...\n");
    let read: Vec<_> = documents.iter().map(plain).collect();
    assert_eq!(
        read,
        [serde_json::json!({"a": 1}), serde_json::json!({"b": 2})]
    );
}

#[test]
fn aliases_repeat_what_they_name() {
    let documents = yaml("a: &x {n: 1}\nb: *x\n");
    assert_eq!(
        plain(&documents[0]),
        serde_json::json!({"a": {"n": 1}, "b": {"n": 1}})
    );
}

#[test]
fn duplicate_keys_are_refused_with_both_places() {
    let twice = "the key `a` stands twice in one map, first in line 1; remove one";
    assert_eq!(
        refused::<Yaml>("a: 1\nb: 2\na: 3\n"),
        format!("3:1: {twice}")
    );
    assert_eq!(
        refused::<Json>("{\"a\": 1,\n\"a\": 2}"),
        format!("2:1: {twice}")
    );
    assert_eq!(refused::<Toml>("a = 1\na = 2\n"), "2:1: duplicate key");
}

#[test]
fn numbers_that_are_none_are_refused_with_their_place() {
    let yaml = |number: &str| refused::<Yaml>(&format!("a: {number}"));
    let toml = |number: &str| refused::<Toml>(&format!("a = {number}"));
    let json = |number: &str| refused::<Json>(&format!("{{\"a\": {number}}}"));
    assert!(yaml(".nan").starts_with("1:4: .nan is not a finite number"));
    assert!(yaml("-.inf").starts_with("1:4: -.inf is not a finite number"));
    assert!(toml("nan").starts_with("1:5: nan is not a finite 64-bit number"));
    assert!(json("NaN").starts_with("1:7: expected value"));
    let over = "9".repeat(400);
    let shown = format!("the integer {}… does not fit 64 bits", "9".repeat(40));
    for (number, says) in [
        ("1e999", "1e999 is not a finite 64-bit number"),
        (&*over, &*shown),
    ] {
        assert!(
            yaml(number).starts_with(&format!("1:4: {says}")),
            "{}",
            yaml(number)
        );
        assert!(
            toml(number).starts_with(&format!("1:5: {says}")),
            "{}",
            toml(number)
        );
        assert!(
            json(number).starts_with(&format!("1:7: {says}")),
            "{}",
            json(number)
        );
    }
}

#[test]
fn yaml_comments_mean_nothing_wherever_they_stand() {
    let bare = yaml("a:\n  - 1\nb: {c: 2}\n");
    let said = "# 1\na: # 2\n  # 3\n  - 1 # 4\n  # 5\n# 6\nb: {c: 2} # 7\n# 8\n";
    assert_eq!(plain(&bare[0]), plain(&yaml(said)[0]));
}

#[test]
fn yaml_beyond_the_core_schema_is_refused() {
    for (text, says) in [
        ("a: *b", "1:4: "),
        (
            "a: &x [*x]",
            "1:8: an alias must not stand inside what it repeats",
        ),
        ("<<: {a: 1}", "1:1: merge keys are not YAML 1.2"),
        ("? [a]\n: 1", "1:3: a key must be plain text"),
        ("a: !secret x", "a tag that is not of the core schema"),
        ("a: 1\n---\n", "an empty document"),
        ("just text", "1:1: a document must be a map or a list"),
        ("a: [1, 2\n", ": "),
        ("a: \"x\n", ": "),
    ] {
        let said = refused::<Yaml>(text);
        assert!(
            said != "accepted" && said.contains(says),
            "{text:?}: {said}"
        );
    }
}

#[test]
fn json_is_strict() {
    for (text, says) in [
        ("12", "1:1: a document must be a map or a list"),
        ("{\"a\": 1} x", "1:10: "),
        ("{\"a\": [1, 2", "1:12: EOF while parsing a list"),
        ("{\"a\": 01}", "1:"),
        ("{'a': 1}", "1:2: "),
        ("[1,]", "1:4: "),
        ("// no\n{}", "1:1: "),
    ] {
        let said = refused::<Json>(text);
        assert!(
            said != "accepted" && said.contains(says),
            "{text:?}: {said}"
        );
    }
}

#[test]
fn deep_nesting_is_refused_quickly() {
    let open = "[".repeat(200_000);
    assert!(refused::<Yaml>(&open).contains("nested deeper than 64 levels"));
    assert!(refused::<Json>(&open).contains("nested deeper than 64 levels"));
    assert_ne!(refused::<Toml>(&format!("a = {open}")), "accepted");
    assert_ne!(refused::<Toml>(&"a.".repeat(100_000)), "accepted");
    assert!(refused::<Yaml>(&"{a: ".repeat(50_000)).contains("nested deeper"));
    assert!(refused::<Yaml>(&"- ".repeat(100_000)).contains("nested deeper"));
    assert!(refused::<Json>(&"{\"a\":".repeat(50_000)).contains("nested deeper"));
}

#[test]
fn an_alias_bomb_is_refused_before_it_goes_off() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let line = format!(
            "a{level}: &a{level} [{}]\n",
            format!("*a{},", level - 1).repeat(9)
        );
        bomb.push_str(&line);
    }
    let said = refused::<Yaml>(&bomb);
    assert!(
        said.contains("expand to more than 16777216 bytes"),
        "{said}"
    );
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(1 << 20),
        "*a,".repeat(1000)
    );
    assert!(refused::<Yaml>(&long).contains("expand to more than"));
    let deep = format!(
        "a: &a {}1{}\nb: {}*a{}\n",
        "[".repeat(40),
        "]".repeat(40),
        "[".repeat(40),
        "]".repeat(40)
    );
    assert!(refused::<Yaml>(&deep).contains("nested deeper"));
}

#[test]
fn many_keys_and_long_lines_cost_linear_time() {
    let entries: Vec<String> = (0..200_000).map(|n| format!("\"key{n}\":\"ä\"")).collect();
    let text = format!("{{{}}}", entries.join(","));
    assert_eq!(json(&text).len(), 1);
    assert_eq!(yaml(&text).len(), 1);
}

#[test]
fn an_end_marker_stands_once_and_last() {
    let said = |text: &str| declares_end::<Yaml>(text).map_err(|problem| problem.to_string());
    assert!(said("a: 1\n...\n").is_ok());
    assert!(said("a: 1\n...\n\n").is_ok());
    assert!(
        said("a: 1\n")
            .unwrap_err()
            .contains("does not end with the line `...`")
    );
    assert!(said("a: 1\n..\n").is_err());
    assert!(
        said("a: 1\n...\n---\nb: 1\n")
            .unwrap_err()
            .contains("something follows")
    );
    assert!(said("a: 1\n...\n---\nb: 1\n...\n").is_err());
    assert!(said("").is_err());
    assert!(declares_end::<Json>("{}").is_ok());
    assert!(declares_end::<Toml>("a = 1\n# end\n").is_ok());
    assert!(declares_end::<Toml>("a = 1\n").is_err());
}

proptest! {
    /// Whatever the bytes: an answer, no panic.
    #[test]
    fn any_text_gets_an_answer(text in r#"[-a-c0-9:.\[\]{},&*!?|>'"%@` \n#e+~=\\]{0,80}"#) {
        let limits = Limits::default();
        let _ = (Yaml::parse(&text, &limits), Toml::parse(&text, &limits), Json::parse(&text, &limits));
    }

    /// JSON that is accepted is accepted by serde_json with the same value, and the other way round.
    #[test]
    fn json_agrees_with_serde_json(text in r#"[-{}\[\]",:0-9aetrufn. \n]{0,20}"#) {
        let ours = Json::parse(&text, &Limits::default());
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        if let Ok(nodes) = &ours {
            prop_assert_eq!(&plain(&nodes[0]), &theirs.unwrap());
        } else if let Ok(value) = theirs {
            // What we refuse beyond that: bare values, duplicate keys, integers beyond 64 bits.
            prop_assert!(!value.is_object() && !value.is_array() || text.contains(':') || text.len() > 18);
        }
    }
}
