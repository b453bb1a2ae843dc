//! The values of a document, with their positions, and the paths of its fields.

use std::borrow::Cow;

use super::path::{FieldPath, Step};

/// One value of a document, with its position. Values are equal wherever they are: equality ignores positions, so that a
/// comment changes nothing.
#[derive(Debug, Clone)]
pub struct Node {
    /// Line, from 1; 0 when unknown.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
    /// The value at this position.
    pub value: Value,
}

/// A value of a document: the values of JSON, with exact integers and finite floats.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// The null value, such as an empty value in YAML.
    Null,
    /// A boolean: true or false.
    Bool(bool),
    /// An integer from `i64::MIN` to `i64::MAX`.
    Int(i64),
    /// An integer from `i64::MAX + 1` to `u64::MAX`.
    Uint(u64),
    /// A floating-point number, which is finite.
    Float(f64),
    /// A text, without its quotes and escapes.
    String(Box<str>),
    /// A list of values, in order.
    Sequence(Vec<Node>),
    /// Named values in the order of the document. Names are unique.
    Map(Vec<(Name, Node)>),
}

/// A key of a map, with its position. Equality ignores the position.
#[derive(Debug, Clone, Eq)]
pub struct Name {
    /// Line, from 1; 0 when unknown.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
    /// The text of the key.
    pub text: Box<str>,
}

impl Value {
    /// The value as the name of an item in a field path: a text, or an integer or boolean as its text.
    pub fn as_name(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::String(text) => Some(Cow::from(&**text)),
            Self::Int(int) => Some(int.to_string().into()),
            Self::Uint(uint) => Some(uint.to_string().into()),
            Self::Bool(is) => Some(is.to_string().into()),
            Self::Null | Self::Float(_) | Self::Sequence(_) | Self::Map(_) => None,
        }
    }
}

impl Node {
    /// The value at a field path within this value. The empty path is this value. `None`: there is none.
    ///
    /// ```
    /// # use plugin_sdk::document::{FieldPath, Node, Value};
    /// let node = Node::from(serde_json::json!({ "clusters": [{ "replicas": 2 }] }));
    /// let path: FieldPath = "clusters[0].replicas".parse()?;
    /// assert_eq!(node.at(&path).map(|it| &it.value), Some(&Value::Int(2)));
    /// # Ok::<(), plugin_sdk::document::PathError>(())
    /// ```
    pub fn at(&self, path: &FieldPath) -> Option<&Self> {
        let mut steps = path.steps().iter();
        steps.try_fold(self, |node, step| node.child(step))
    }

    /// Whether the path names no value because several items of a list have a name that it gives.
    pub fn is_ambiguous(&self, path: &FieldPath) -> bool {
        let mut node = self;
        for step in path.steps() {
            match node.child(step) {
                Some(child) => node = child,
                None => return node.has_several(step),
            }
        }
        false
    }

    fn has_several(&self, step: &Step) -> bool {
        match &self.value {
            Value::Sequence(items) => step.is_ambiguous(items.len(), |nth, by| items[nth].name(by)),
            _ => false,
        }
    }

    /// The name that the value has in a list, if its field `by` gives it one.
    fn name(&self, by: &str) -> Option<Cow<'_, str>> {
        self.child(&Step::Key(by.into()))?.value.as_name()
    }

    /// The innermost value on the way of a field path that exists.
    pub fn innermost(&self, path: &FieldPath) -> &Self {
        let mut node = self;
        for step in path.steps() {
            match node.child(step) {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }

    /// Whether the values are equal, and all positions too.
    pub(super) fn is_identical(&self, other: &Self) -> bool {
        let here = (self.line, self.column) == (other.line, other.column);
        here && match (&self.value, &other.value) {
            (Value::Sequence(items), Value::Sequence(others)) => {
                items.len() == others.len()
                    && items.iter().zip(others).all(|(a, b)| a.is_identical(b))
            }
            (Value::Map(entries), Value::Map(others)) => {
                let same = |((name, node), (name2, node2)): (&(Name, Self), &(Name, Self))| {
                    let at = (name.line, name.column) == (name2.line, name2.column);
                    at && name == name2 && node.is_identical(node2)
                };
                entries.len() == others.len() && entries.iter().zip(others).all(same)
            }
            (value, other) => value == other,
        }
    }

    /// The value as JSON, without positions.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(is) => Json::Bool(*is),
            Value::Int(int) => Json::from(*int),
            Value::Uint(uint) => Json::from(*uint),
            Value::Float(float) => Json::from(*float),
            Value::String(text) => Json::String(text.to_string()),
            Value::Sequence(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(entries) => {
                let entry = |(name, node): &(Name, Self)| (name.text.to_string(), node.to_json());
                Json::Object(entries.iter().map(entry).collect())
            }
        }
    }

    fn child(&self, step: &Step) -> Option<&Self> {
        match (step, &self.value) {
            (Step::Key(key), Value::Map(entries)) => {
                let named = |(name, _): &&(Name, Self)| name.text == *key;
                entries.iter().find(named).map(|(_, value)| value)
            }
            (step, Value::Sequence(items)) => {
                let at = step.position(items.len(), |nth, by| items[nth].name(by));
                items.get(at?)
            }
            _ => None,
        }
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Converts JSON to a tree without positions.
impl From<serde_json::Value> for Node {
    fn from(json: serde_json::Value) -> Self {
        use serde_json::Value as Json;
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(is) => Value::Bool(is),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => Value::Int(int),
                (None, Some(uint)) => Value::Uint(uint),
                (None, None) => Value::Float(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Value::String(text.into()),
            Json::Array(items) => Value::Sequence(items.into_iter().map(Self::from).collect()),
            Json::Object(map) => {
                let name = |text: String| Name {
                    line: 0,
                    column: 0,
                    text: text.into(),
                };
                Value::Map(
                    map.into_iter()
                        .map(|(key, value)| (name(key), Self::from(value)))
                        .collect(),
                )
            }
        };
        Self {
            line: 0,
            column: 0,
            value,
        }
    }
}
