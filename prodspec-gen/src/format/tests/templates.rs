//! R45: templates that were not rendered, expressions inside of text, and tags of keys.

use super::*;

#[test]
fn r45_templates_are_refused_with_a_message_about_templates() {
    for (text, place) in [
        ("a: {{ .Values.x }}\n", "1:4"),
        ("a: x\n   {{- if .Values.x }}\n", "1:4"),
        ("- x\n   {% if y %}\n", "1:3"),
        ("a: 1\n{{ .Values.name }}: x\n", "2:1"),
        ("app-{{ .Values.name }}: x\n", "1:1"),
        ("a:\n  {{- if .Values.x }}\n  b: 1\n  {{- end }}\n", "2:3"),
        (
            "a:\n  b: 1\n  {{- range .Values.x }}\n  - {{ . }}\n  {{- end }}\n",
            "3:3",
        ),
        ("{% if x %}\na: 1\n{% endif %}\n", "1:1"),
        ("a: <%= x %>\n", "1:4"),
    ] {
        let said = refused::<Yaml>(text);
        let says = format!("{place}: looks like a template: ");
        assert!(said.starts_with(&says), "{text:?}: {said}");
    }
    let json = refused::<Json>("{\n\"a\": {{ .x }}\n}");
    assert!(
        json.starts_with("2:6: looks like a template: `{{` begins an expression; render it first"),
        "{json}"
    );
    assert!(
        json.contains("The parser reports 2:"),
        "the message keeps the parser's error: {json}"
    );
    let toml = refused::<Toml>("a = {{ x }}\n");
    assert!(toml.starts_with("1:5: looks like a template: "), "{toml}");
    // Quoted text that another program renders later.
    for text in [
        "a: \"{{ $labels.x }}\"\n",
        "a: 'is {{ x }}'\n",
        "a: |\n  {{ x }}\n",
        "a: {b: {c: 1}}\n",
        "# {{ x }}\na: 1\n",
        "a: 5 {% is not\n",
    ] {
        let parsed = Yaml::parse(text, &Limits::default());
        assert!(parsed.is_ok(), "{text:?}: {parsed:?}");
    }
    let twice = refused::<Yaml>("a: \"{{ x }}\"\na: '{{ x }}'\n");
    assert!(
        twice.starts_with("2:1: the key `a` appears twice"),
        "{twice}"
    );
}

#[test]
fn r45_expressions_inside_of_text_are_text() {
    for (text, read) in [
        ("a: is {{ $value }} now\n", "is {{ $value }} now"),
        ("a: app-{{ .x }}\n", "app-{{ .x }}"),
        (
            "a: more than\n  {{ $value }}\n  % of {{- .x }}\n",
            "more than {{ $value }} % of {{- .x }}",
        ),
        ("a: 5 {% of %} <% all %>\n", "5 {% of %} <% all %>"),
        ("a: >-\n  {{- x }}\n  y\n", "{{- x }} y"),
    ] {
        assert_eq!(plain(&yaml(text)[0])["a"], read, "{text:?}");
    }
    // The error of such a text is that of the parser.
    let error = refused::<Yaml>("a: is {{ $value }}\nb: 'x\n");
    assert!(!error.contains("template"), "{error}");
    let error = refused::<Yaml>("a: is {{ $value }}: x\n");
    assert!(!error.contains("template"), "{error}");
}

#[test]
fn r45_rendered_text_is_taken_as_the_format_reads_it() {
    let rendered = Limits {
        rendered: true,
        ..Limits::default()
    };
    for (text, expected) in [
        (
            "a: x\n   {{- if y }}\n",
            serde_json::json!({"a": "x {{- if y }}"}),
        ),
        ("a: <%= x %>\n", serde_json::json!({"a": "<%= x %>"})),
        ("a{{ x }}: 1\n", serde_json::json!({"a{{ x }}": 1})),
    ] {
        assert!(refused::<Yaml>(text).contains("looks like a template"));
        let read = Yaml::parse(text, &rendered).unwrap();
        assert_eq!(plain(&read[0]), expected, "{text:?}");
    }
    let errors = [
        Yaml::parse("a: {{ x }}\n", &rendered),
        Json::parse("{\"a\": {{ x }}}", &rendered),
        Toml::parse("a = {{ x }}\n", &rendered),
    ];
    for error in errors {
        let message = error.unwrap_err().message;
        assert!(!message.contains("template"), "{message}");
    }
}

#[test]
fn r45_explicit_tags_of_keys_hold_or_are_refused() {
    let keys = yaml("!!str <<: 1\n!!str 5: 2\n!!int 6: 3\n!!str ~: 4\n");
    assert_eq!(
        plain(&keys[0]),
        serde_json::json!({"<<": 1, "5": 2, "6": 3, "~": 4})
    );
    for (text, problem) in [
        ("!!int x: 1\n", "1:7: tagged !!int, but `x` is not one"),
        ("!x y: 1\n", "1:4: the tag is not of the core schema"),
        ("!!null ~: 1\n", "1:8: a key must not be empty or null"),
        ("!!merge <<: {a: 1}\n", "1:9: merge keys are not YAML 1.2"),
    ] {
        let refused = refused::<Yaml>(text);
        assert!(refused.starts_with(problem), "{text:?}: {refused}");
    }
}
