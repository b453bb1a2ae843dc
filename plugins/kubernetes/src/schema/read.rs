//! Reads the schema in a CustomResourceDefinition.

use plugin_sdk::FieldPath;
use regex::Regex;
use serde_json::Value;

use super::{Additional, Bounds, Limit, Schema, Type};

/// Why a schema cannot be used, and where.
#[derive(Debug, PartialEq)]
pub(crate) struct Misfit {
    pub(crate) path: FieldPath,
    pub(crate) message: String,
}

impl Schema {
    /// Reads the schema at `path` of its definition.
    ///
    /// # Errors
    /// The first part that is wrong.
    pub(crate) fn read(schema: &Value, path: &FieldPath) -> Result<Self, Misfit> {
        let Value::Object(_) = schema else {
            return Err(misfit(path, "a schema must be a map"));
        };
        let flag = |name: &str| schema[name] == true;
        let limit = |name: &str, exclusive: &str| {
            schema[name].as_f64().map(|bound| Limit {
                bound,
                is_exclusive: flag(exclusive),
            })
        };
        let bounds = |least: &str, most: &str| Bounds {
            least: schema[least].as_u64(),
            most: schema[most].as_u64(),
        };
        let inner = |name: &str| match &schema[name] {
            Value::Null => Ok(None),
            inner => Self::read(inner, &path.clone().key(name)).map(|inner| Some(Box::new(inner))),
        };
        let all = |name: &str| {
            let schemas = schema[name].as_array().into_iter().flatten().enumerate();
            schemas
                .map(|(at, inner)| Self::read(inner, &path.clone().key(name).index(at)))
                .collect::<Result<Vec<_>, _>>()
        };
        let properties =
            schema["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, inner)| {
                    let path = path.clone().key("properties").key(name.as_str());
                    Ok((name.clone(), Self::read(inner, &path)?))
                });
        Ok(Self {
            of: type_of(&schema["type"], path)?,
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            has_default: !schema["default"].is_null(),
            properties: properties.collect::<Result<_, _>>()?,
            additional: match &schema["additionalProperties"] {
                Value::Null | Value::Bool(false) => Additional::Refused,
                Value::Bool(true) => Additional::Any,
                inner => Additional::Of(Box::new(Self::read(
                    inner,
                    &path.clone().key("additionalProperties"),
                )?)),
            },
            required: texts(&schema["required"]),
            items: inner("items")?,
            values: schema["enum"].as_array().cloned(),
            pattern: pattern(&schema["pattern"], path)?,
            lengths: [
                bounds("minLength", "maxLength"),
                bounds("minItems", "maxItems"),
                bounds("minProperties", "maxProperties"),
            ],
            minimum: limit("minimum", "exclusiveMinimum"),
            maximum: limit("maximum", "exclusiveMaximum"),
            multiple_of: schema["multipleOf"].as_f64(),
            all_of: all("allOf")?,
            any_of: all("anyOf")?,
            one_of: all("oneOf")?,
            not: inner("not")?,
        })
    }
}

fn type_of(name: &Value, path: &FieldPath) -> Result<Option<Type>, Misfit> {
    Ok(Some(match name.as_str() {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::Text,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        None | Some("") if name.is_null() || name == "" => return Ok(None),
        _ => {
            let message = "must be object, array, string, integer, number or boolean";
            return Err(misfit(&path.clone().key("type"), message));
        }
    }))
}

fn pattern(pattern: &Value, path: &FieldPath) -> Result<Option<Regex>, Misfit> {
    let Some(pattern) = pattern.as_str().filter(|pattern| !pattern.is_empty()) else {
        return Ok(None);
    };
    Regex::new(pattern).map(Some).map_err(|error| {
        let message = format!("is not a regular expression: {error}");
        misfit(&path.clone().key("pattern"), &message)
    })
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn misfit(path: &FieldPath, message: &str) -> Misfit {
    Misfit {
        path: path.clone(),
        message: message.into(),
    }
}
