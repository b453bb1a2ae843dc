use plugin_sdk::FieldPath;
use serde_json::{Value, json};

use super::Schema;

fn misfits(schema: Value, resource: Value) -> Vec<String> {
    let schema = Schema::read(&schema, &FieldPath::default()).unwrap();
    let misfits = schema.misfits(&resource).into_iter();
    misfits
        .map(|misfit| format!("{}: {}", misfit.path, misfit.message))
        .collect()
}

/// What is wrong with a field `v` of this schema and value, both written as JSON.
fn field(schema: &str, value: &str) -> Vec<String> {
    let [schema, value] = [schema, value].map(|text| serde_json::from_str::<Value>(text).unwrap());
    let schema = json!({"type": "object", "properties": {"v": schema}});
    misfits(schema, json!({"v": value, "kind": "A", "metadata": {}}))
}

#[test]
fn values_that_fit_have_no_misfit() {
    for (schema, value) in [
        (
            r#"{"type": "string", "pattern": "^a+$", "minLength": 1, "maxLength": 2}"#,
            r#""aa""#,
        ),
        (r#"{"type": "string", "maxLength": 2}"#, r#""éé""#),
        (r#"{"type": "string", "nullable": true}"#, "null"),
        (r#"{"type": "string", "default": "x"}"#, "null"),
        (
            r#"{"type": "number", "minimum": 0, "exclusiveMinimum": true}"#,
            "0.5",
        ),
        (r#"{"type": "integer", "multipleOf": 2}"#, "4"),
        (r#"{"x-kubernetes-int-or-string": true}"#, r#""80%""#),
        (r#"{"x-kubernetes-int-or-string": true}"#, "80"),
        (
            r#"{"type": "array", "items": {"type": "integer"}, "maxItems": 2}"#,
            "[1, 2]",
        ),
        (
            r#"{"type": "object", "additionalProperties": {"type": "string"}}"#,
            r#"{"a": "b"}"#,
        ),
        (
            r#"{"type": "object", "additionalProperties": true}"#,
            r#"{"a": 1}"#,
        ),
        (
            r#"{"type": "object", "x-kubernetes-preserve-unknown-fields": true}"#,
            r#"{"a": {"b": 1}}"#,
        ),
        (r#"{"x-kubernetes-preserve-unknown-fields": true}"#, "[1]"),
        (
            r#"{"type": "object", "x-kubernetes-embedded-resource": true}"#,
            r#"{"kind": "A", "apiVersion": "v1"}"#,
        ),
        (
            r#"{"type": "object", "required": ["a"], "properties": {"a": {"default": 1}}}"#,
            "{}",
        ),
        (r#"{"type": "string", "enum": ["a", "b"]}"#, r#""b""#),
        (
            r#"{"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}"#,
            "0",
        ),
        (
            r#"{"type": "object", "properties": {"a": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}"#,
            r#"{"a": 1}"#,
        ),
    ] {
        assert_eq!(field(schema, value), [""; 0], "{schema}");
    }
}

#[test]
fn scalars_that_do_not_fit_are_told() {
    for (schema, value, misfit) in [
        (r#"{"type": "string"}"#, "1", "v: must be a string, is 1"),
        (r#"{"type": "string"}"#, "null", "v: must not be null"),
        (
            r#"{"type": "integer"}"#,
            "1.5",
            "v: must be an integer, is 1.5",
        ),
        (
            r#"{"type": "boolean"}"#,
            r#""true""#,
            "v: must be a boolean, is \"true\"",
        ),
        (
            r#"{"x-kubernetes-int-or-string": true}"#,
            "true",
            "v: must be an integer or a string",
        ),
        (
            r#"{"type": "string", "pattern": "^a$"}"#,
            r#""b""#,
            "v: must match the pattern `^a$`",
        ),
        (
            r#"{"type": "string", "minLength": 2}"#,
            r#""é""#,
            "v: must have at least 2 characters, has 1",
        ),
        (
            r#"{"type": "string", "enum": ["a"]}"#,
            r#""b""#,
            "v: must be one of \"a\", is \"b\"",
        ),
    ] {
        let found = field(schema, value);
        assert!(
            found.len() == 1 && found[0].starts_with(misfit),
            "{schema}: {found:?}"
        );
    }
}

#[test]
fn numbers_that_do_not_fit_are_told() {
    for (schema, value, misfit) in [
        (
            r#"{"type": "integer", "minimum": 1}"#,
            "0",
            "v: must be at least 1, is 0",
        ),
        (
            r#"{"type": "number", "maximum": 1, "exclusiveMaximum": true}"#,
            "1",
            "v: must be less than 1, is 1",
        ),
        (
            r#"{"type": "integer", "multipleOf": 2}"#,
            "3",
            "v: must be a multiple of 2",
        ),
        (
            r#"{"type": "integer", "allOf": [{"minimum": 5}]}"#,
            "0",
            "v: must be at least 5",
        ),
        (
            r#"{"type": "integer", "anyOf": [{"minimum": 5}]}"#,
            "0",
            "v: must fit at least one",
        ),
        (
            r#"{"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}"#,
            "3",
            "v: must fit exactly one",
        ),
        (
            r#"{"type": "integer", "not": {"minimum": 1}}"#,
            "3",
            "v: must not fit the schema in not",
        ),
    ] {
        let found = field(schema, value);
        assert!(
            found.len() == 1 && found[0].starts_with(misfit),
            "{schema}: {found:?}"
        );
    }
}

#[test]
fn lists_and_objects_that_do_not_fit_are_told_with_their_path() {
    let preserved = r#"{"x-kubernetes-preserve-unknown-fields": true, "type": "object", "properties": {"a": {"type": "object"}}}"#;
    for (schema, value, misfit) in [
        (
            r#"{"type": "object"}"#,
            "[]",
            "v: must be an object, is a list",
        ),
        (
            r#"{"type": "array", "items": {"type": "string"}}"#,
            r#"["a", 1]"#,
            "v[1]: must be a string",
        ),
        (
            r#"{"type": "array", "minItems": 1}"#,
            "[]",
            "v: must have at least 1 items, has 0",
        ),
        (
            r#"{"type": "object", "maxProperties": 0, "additionalProperties": true}"#,
            r#"{"a": 1}"#,
            "v: must have at most 0 fields",
        ),
        (
            r#"{"type": "object", "required": ["a"]}"#,
            "{}",
            "v: needs the field `a`",
        ),
        (
            r#"{"type": "object"}"#,
            r#"{"a.b": 1}"#,
            "v[\"a.b\"]: is not a field of this kind",
        ),
        (
            r#"{"type": "object"}"#,
            r#"{"kind": 1}"#,
            "v.kind: is not a field of this kind",
        ),
        (
            r#"{"type": "object", "additionalProperties": {"type": "string"}}"#,
            r#"{"a": 1}"#,
            "v.a: must be a string",
        ),
        (
            preserved,
            r#"{"b": 1, "a": {"c": 1}}"#,
            "v.a.c: is not a field of this kind",
        ),
    ] {
        let found = field(schema, value);
        assert!(
            found.len() == 1 && found[0].starts_with(misfit),
            "{schema}: {found:?}"
        );
    }
}

#[test]
fn schemas_that_cannot_be_used_are_refused_with_their_path() {
    for (schema, place) in [
        (
            json!({"properties": {"a": {"type": "text"}}}),
            "properties.a.type",
        ),
        (json!({"items": {"pattern": "("}}), "items.pattern"),
        (json!({"anyOf": [1]}), "anyOf[0]"),
    ] {
        let misfit = Schema::read(&schema, &FieldPath::default()).unwrap_err();
        assert_eq!(misfit.path.to_string(), place);
    }
}
