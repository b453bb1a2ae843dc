//! Reads the schema in a CustomResourceDefinition.

use std::collections::BTreeMap;

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
        let from = From { schema, path };
        Ok(Self {
            of: type_of(&schema["type"], path)?,
            nullable: from.flag("nullable"),
            int_or_string: from.flag("x-kubernetes-int-or-string"),
            preserve: from.flag("x-kubernetes-preserve-unknown-fields"),
            embedded: from.flag("x-kubernetes-embedded-resource"),
            has_default: !schema["default"].is_null(),
            properties: from.properties()?,
            additional: from.additional()?,
            required: texts(&schema["required"]),
            items: from.inner("items")?,
            values: schema["enum"].as_array().cloned(),
            pattern: pattern(&schema["pattern"], path)?,
            lengths: ["Length", "Items", "Properties"].map(|of| from.bounds(of)),
            minimum: from.limit("minimum", "exclusiveMinimum"),
            maximum: from.limit("maximum", "exclusiveMaximum"),
            multiple_of: schema["multipleOf"].as_f64(),
            all_of: from.all("allOf")?,
            any_of: from.all("anyOf")?,
            one_of: from.all("oneOf")?,
            not: from.inner("not")?,
        })
    }
}

/// A schema in its definition.
struct From<'s> {
    schema: &'s Value,
    path: &'s FieldPath,
}

impl From<'_> {
    fn flag(&self, name: &str) -> bool {
        self.schema[name] == true
    }

    fn limit(&self, name: &str, exclusive: &str) -> Option<Limit> {
        let bound = self.schema[name].as_f64()?;
        let is_exclusive = self.flag(exclusive);
        Some(Limit {
            bound,
            is_exclusive,
        })
    }

    fn bounds(&self, of: &str) -> Bounds {
        let [least, most] = ["min", "max"].map(|end| self.schema[format!("{end}{of}")].as_u64());
        Bounds { least, most }
    }

    fn inner(&self, name: &str) -> Result<Option<Box<Schema>>, Misfit> {
        let inner = Some(&self.schema[name]).filter(|inner| !inner.is_null());
        let path = self.path.clone().key(name);
        let inner = inner.map(|inner| Schema::read(inner, &path).map(Box::new));
        inner.transpose()
    }

    fn all(&self, name: &str) -> Result<Vec<Schema>, Misfit> {
        let schemas = self.schema[name].as_array().into_iter().flatten();
        let schemas = schemas.enumerate();
        let read = |(at, inner)| Schema::read(inner, &self.path.clone().key(name).index(at));
        schemas.map(read).collect()
    }

    fn properties(&self) -> Result<BTreeMap<String, Schema>, Misfit> {
        let properties = self.schema["properties"].as_object().into_iter().flatten();
        let read = |(name, inner): (&String, &Value)| {
            let path = self.path.clone().key("properties").key(name.as_str());
            Ok((name.clone(), Schema::read(inner, &path)?))
        };
        properties.map(read).collect()
    }

    fn additional(&self) -> Result<Additional, Misfit> {
        match self.schema["additionalProperties"].as_bool() {
            Some(true) => Ok(Additional::Any),
            Some(false) => Ok(Additional::Refused),
            None => {
                let inner = self.inner("additionalProperties")?;
                Ok(inner.map_or(Additional::Refused, Additional::Of))
            }
        }
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
