//! Structural schemas of custom resources: the subset of OpenAPI in CustomResourceDefinitions, with the strict field
//! validation of an API server: unknown fields are refused.
//!
//! A walker of our own, because a general JSON schema has no `nullable`, `x-kubernetes-int-or-string` or
//! `x-kubernetes-preserve-unknown-fields`, takes unknown fields, and other regular expressions than Go's.

mod check;
mod read;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// One node of a schema.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    of: Option<Type>,
    nullable: bool,
    int_or_string: bool,
    /// Whether fields that are not specified are taken as they are.
    preserve: bool,
    /// Whether the value is an object with `apiVersion`, `kind` and `metadata`.
    embedded: bool,
    /// Whether the server fills the field in.
    has_default: bool,
    properties: BTreeMap<String, Self>,
    additional: Additional,
    required: Vec<String>,
    items: Option<Box<Self>>,
    values: Option<Vec<Value>>,
    pattern: Option<Regex>,
    /// Bounds for the length of a text, the number of items and the number of fields.
    lengths: [Bounds; 3],
    minimum: Option<Limit>,
    maximum: Option<Limit>,
    multiple_of: Option<f64>,
    all_of: Vec<Self>,
    any_of: Vec<Self>,
    one_of: Vec<Self>,
    not: Option<Box<Self>>,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Object,
    Array,
    Text,
    Integer,
    Number,
    Boolean,
}

/// What fields without a schema of their own may have.
#[derive(Debug, Default)]
enum Additional {
    #[default]
    Refused,
    Any,
    Of(Box<Schema>),
}

/// The smallest and the greatest number of something.
#[derive(Debug, Default)]
struct Bounds {
    least: Option<u64>,
    most: Option<u64>,
}

/// The smallest or greatest number that is allowed.
#[derive(Debug)]
struct Limit {
    bound: f64,
    is_exclusive: bool,
}

#[cfg(test)]
mod tests;
