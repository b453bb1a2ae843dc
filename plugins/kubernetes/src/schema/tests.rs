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

/// What is wrong with a field `v` of this schema and value.
fn field(schema: Value, value: Value) -> Vec<String> {
    misfits(
        json!({"type": "object", "properties": {"v": schema}}),
        json!({"v": value, "kind": "A", "metadata": {}}),
    )
}

#[test]
fn values_that_fit_have_no_misfit() {
    for (schema, value) in [
        (
            json!({"type": "string", "pattern": "^a+$", "minLength": 1, "maxLength": 2}),
            json!("aa"),
        ),
        (json!({"type": "string", "maxLength": 2}), json!("éé")),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (json!({"type": "string", "default": "x"}), json!(null)),
        (
            json!({"type": "number", "exclusiveMinimum": true, "minimum": 0}),
            json!(0.5),
        ),
        (json!({"type": "integer", "multipleOf": 2}), json!(4)),
        (json!({"x-kubernetes-int-or-string": true}), json!("80%")),
        (json!({"x-kubernetes-int-or-string": true}), json!(80)),
        (
            json!({"type": "array", "items": {"type": "integer"}, "maxItems": 2}),
            json!([1, 2]),
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"a": "b"}),
        ),
        (
            json!({"type": "object", "additionalProperties": true}),
            json!({"a": 1}),
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            json!({"a": {"b": 1}}),
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            json!([1]),
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            json!({"kind": "A", "apiVersion": "v1"}),
        ),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "default": 1}}}),
            json!({}),
        ),
        (json!({"type": "string", "enum": ["a", "b"]}), json!("b")),
        (
            json!({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}),
            json!(0),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"a": 1}),
        ),
    ] {
        assert_eq!(field(schema.clone(), value), [""; 0], "{schema}");
    }
}

#[test]
fn values_that_do_not_fit_are_told_with_their_path() {
    for (schema, value, misfit) in [
        (
            json!({"type": "string"}),
            json!(1),
            "v: must be a string, is 1",
        ),
        (
            json!({"type": "integer"}),
            json!(1.5),
            "v: must be an integer, is 1.5",
        ),
        (
            json!({"type": "boolean"}),
            json!("true"),
            "v: must be a boolean, is \"true\"",
        ),
        (
            json!({"type": "object"}),
            json!([]),
            "v: must be an object, is a list",
        ),
        (
            json!({"type": "string"}),
            json!(null),
            "v: must not be null",
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            "v: must be an integer or a string",
        ),
        (
            json!({"type": "string", "pattern": "^a$"}),
            json!("b"),
            "v: must match the pattern `^a$`",
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("é"),
            "v: must have at least 2 characters, has 1",
        ),
        (
            json!({"type": "string", "enum": ["a"]}),
            json!("b"),
            "v: must be one of \"a\", is \"b\"",
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "v: must be at least 1, is 0",
        ),
        (
            json!({"type": "number", "maximum": 1, "exclusiveMaximum": true}),
            json!(1),
            "v: must be less than 1, is 1",
        ),
        (
            json!({"type": "integer", "multipleOf": 2}),
            json!(3),
            "v: must be a multiple of 2",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a", 1]),
            "v[1]: must be a string",
        ),
        (
            json!({"type": "array", "minItems": 1}),
            json!([]),
            "v: must have at least 1 items, has 0",
        ),
        (
            json!({"type": "object", "maxProperties": 0, "additionalProperties": true}),
            json!({"a": 1}),
            "v: must have at most 0 fields",
        ),
        (
            json!({"type": "object", "required": ["a"]}),
            json!({}),
            "v: needs the field `a`",
        ),
        (
            json!({"type": "object"}),
            json!({"a.b": 1}),
            "v[\"a.b\"]: is not a field of this kind",
        ),
        (
            json!({"type": "object"}),
            json!({"kind": 1}),
            "v.kind: is not a field of this kind",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"a": 1}),
            "v.a: must be a string",
        ),
        (
            json!({"type": "integer", "allOf": [{"minimum": 5}]}),
            json!(0),
            "v: must be at least 5",
        ),
        (
            json!({"type": "integer", "anyOf": [{"minimum": 5}]}),
            json!(0),
            "v: must fit at least one",
        ),
        (
            json!({"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}),
            json!(3),
            "v: must fit exactly one",
        ),
        (
            json!({"type": "integer", "not": {"minimum": 1}}),
            json!(3),
            "v: must not fit the schema in not",
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true, "type": "object", "properties": {"a": {"type": "object"}}}),
            json!({"b": 1, "a": {"c": 1}}),
            "v.a.c: is not a field of this kind",
        ),
    ] {
        let found = field(schema.clone(), value);
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
