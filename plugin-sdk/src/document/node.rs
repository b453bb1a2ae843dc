//! The values of a document, with their positions, and the paths of its fields.

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

impl Node {
    /// The value at a field path, such as `clusters[1].replicas`. The empty path is this value. `None`: there is none.
    ///
    /// ```
    /// # use plugin_sdk::document::{Node, Value};
    /// let node = Node::from(serde_json::json!({ "clusters": [{ "replicas": 2 }] }));
    /// assert_eq!(node.at("clusters[0].replicas").map(|it| &it.value), Some(&Value::Int(2)));
    /// assert!(node.at("clusters[1]").is_none());
    /// ```
    pub fn at(&self, path: &str) -> Option<&Self> {
        match self.walk(path) {
            (node, "") => Some(node),
            _ => None,
        }
    }

    /// The innermost value on the way of a field path that exists.
    pub fn innermost(&self, path: &str) -> &Self {
        self.walk(path).0
    }

    /// Follows a path as far as it exists. Returns the value there, and the rest of the path.
    fn walk<'n, 'p>(&'n self, path: &'p str) -> (&'n Self, &'p str) {
        let step = match &self.value {
            Value::Map(entries) => {
                let path = path.strip_prefix('.').unwrap_or(path);
                // A key may contain the characters of paths: the longest key that fits is the one that is meant.
                let fits = entries.iter().filter_map(|(name, node)| {
                    let rest = path.strip_prefix(&*name.text)?;
                    let ends = rest.is_empty() || rest.starts_with(['.', '[']);
                    ends.then_some((node, rest))
                });
                fits.min_by_key(|(_, rest)| rest.len())
            }
            Value::Sequence(items) => item(items, path),
            _ => None,
        };
        match step {
            Some((node, rest)) if !path.is_empty() => node.walk(rest),
            _ => (self, path),
        }
    }
}

/// The item that the first segment of a path names, and the rest of the path.
fn item<'n, 'p>(items: &'n [Node], path: &'p str) -> Option<(&'n Node, &'p str)> {
    let (nth, rest) = path.strip_prefix('[')?.split_once(']')?;
    Some((items.get(nth.parse::<usize>().ok()?)?, rest))
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
