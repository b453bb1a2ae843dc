//! Documents: the content of a source of truth, as trees of values that know their line and column.

mod located;
mod reader;

use std::sync::Arc;

use prodspec_model::{Provenance, SourceName};
use serde::de::DeserializeOwned;

pub use located::Located;

use crate::problem::Problem;

/// One value of a document, with its position.
#[derive(Debug, Clone, PartialEq)]
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

/// A key of a map, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Line, from 1; 0 when unknown.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
    /// The text of the key.
    pub text: Box<str>,
}

/// One document of a source. Cheap to clone.
///
/// ```
/// use plugin_sdk::document::{Document, Name, Node, Value};
/// #[derive(serde::Deserialize)]
/// struct Manifest { replicas: u32 }
///
/// let text = Node { line: 1, column: 11, value: Value::String("two".into()) };
/// let root = Value::Map(vec![(Name { line: 1, column: 1, text: "replicas".into() }, text)]);
/// let document = Document::new("manifest.yaml", "manifest.yaml", 0, Node { line: 1, column: 1, value: root });
///
/// let problem = document.read::<Manifest>().map(|manifest| manifest.replicas).unwrap_err();
/// assert_eq!(problem.to_string(), r#"manifest.yaml#0:1:11: replicas: invalid type: string "two", expected u32"#);
/// ```
#[derive(Debug, Clone)]
pub struct Document(Arc<Inner>);

#[derive(Debug, PartialEq)]
struct Inner {
    key: DocumentKey,
    root: Node,
}

/// Identifies a document within a partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    /// The source that contains the document.
    pub source: SourceName,
    /// The file or table of the document within the source.
    pub path: Arc<str>,
    /// Index of the document within the file, from 0.
    pub index: u32,
}

impl Document {
    /// Makes document number `index` of `path` in `source`.
    pub fn new(source: &str, path: &str, index: u32, root: Node) -> Self {
        let key = DocumentKey {
            source: SourceName(source.into()),
            path: path.into(),
            index,
        };
        Self(Arc::new(Inner { key, root }))
    }

    /// The key of the document within its partition.
    pub fn key(&self) -> &DocumentKey {
        &self.0.key
    }

    /// The name of the document for operators, such as `manifest.yaml#0`.
    pub fn name(&self) -> String {
        self.0.key.to_string()
    }

    /// The outermost value of the document.
    pub fn root(&self) -> &Node {
        &self.0.root
    }

    /// Deserializes the whole document as a `T`.
    ///
    /// # Errors
    /// The first value that does not fit, with line, column and field path.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.read_at(self.root())
    }

    /// Deserializes a part of the document as a `T`.
    ///
    /// # Errors
    /// As [`Document::read`]; the field path starts at `node`.
    pub fn read_at<T: DeserializeOwned>(&self, node: &Node) -> Result<T, Problem> {
        reader::read(node).map_err(|wrong| {
            let (line, column) = wrong.at.unwrap_or((node.line, node.column));
            Problem::new(&wrong.message)
                .field(wrong.path())
                .at(self.name(), line, column)
        })
    }

    /// The provenance of assets that are made from the whole document.
    pub fn provenance(&self) -> Provenance {
        self.provenance_at(self.root().line, self.root().column)
    }

    /// The provenance of assets that are made from one position of the document.
    pub fn provenance_at(&self, line: u32, column: u32) -> Provenance {
        Provenance {
            document: self.name(),
            line,
            column,
            ..Provenance::default()
        }
    }

    /// Makes a problem of the document, at the position of its outermost value.
    pub fn problem(&self, message: impl std::fmt::Display) -> Problem {
        Problem::new(message).origin(&self.provenance())
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl std::fmt::Display for DocumentKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.path, self.index)
    }
}

/// Finds out why canonical JSON does not deserialize as a `T`, with the field path, which serde_json does not report.
pub(crate) fn misfit<T: DeserializeOwned>(json: &str) -> Option<Problem> {
    let value = match serde_json::from_str::<serde_json::Value>(json) {
        Ok(value) => value,
        Err(error) => return Some(Problem::new(error)),
    };
    let wrong = reader::read::<T>(&Node::from(value)).err()?;
    Some(Problem::new(&wrong.message).field(wrong.path()))
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

#[cfg(test)]
mod tests;
