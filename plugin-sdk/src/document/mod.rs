//! Documents: what a source of truth holds, as a tree of values that know their line and column.

mod located;
mod reader;

use std::sync::Arc;

use prodspec_model::{Provenance, SourceName};
use serde::de::DeserializeOwned;

pub use located::Located;

use crate::problem::Problem;

/// One value of a document and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Line, from 1; 0 when unknown.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
    /// What stands there.
    pub value: Value,
}

/// What can stand in a document: the values of JSON, integers exact, floats finite.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A negative integer, or one that fits.
    Int(i64),
    /// An integer above `i64::MAX`.
    Uint(u64),
    /// A finite number.
    Float(f64),
    /// Text.
    String(Box<str>),
    /// A list.
    Sequence(Vec<Node>),
    /// Named values in the order written; no name stands twice.
    Map(Vec<(Name, Node)>),
}

/// A key of a map and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Line, from 1; 0 when unknown.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
    /// The key.
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

/// The name of a document within a partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    /// The source that holds it.
    pub source: SourceName,
    /// The file or table within the source.
    pub path: Arc<str>,
    /// Which document of the file, from 0.
    pub index: u32,
}

impl Document {
    /// Document number `index` of `path` in `source`.
    pub fn new(source: &str, path: &str, index: u32, root: Node) -> Self {
        let key = DocumentKey {
            source: SourceName(source.into()),
            path: path.into(),
            index,
        };
        Self(Arc::new(Inner { key, root }))
    }

    /// Its name within the partition.
    pub fn key(&self) -> &DocumentKey {
        &self.0.key
    }

    /// Its name for people, such as `manifest.yaml#0`.
    pub fn name(&self) -> String {
        self.0.key.to_string()
    }

    /// Its outermost value.
    pub fn root(&self) -> &Node {
        &self.0.root
    }

    /// Reads the whole document as a `T`.
    ///
    /// # Errors
    /// Names line, column and field path of what does not fit.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.read_at(self.root())
    }

    /// Reads a part of the document as a `T`.
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

    /// Where assets made from the whole document come from.
    pub fn provenance(&self) -> Provenance {
        self.provenance_at(self.root().line, self.root().column)
    }

    /// Where assets made from one place of the document come from.
    pub fn provenance_at(&self, line: u32, column: u32) -> Provenance {
        Provenance {
            document: self.name(),
            line,
            column,
            ..Provenance::default()
        }
    }

    /// Something is wrong with the document.
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

/// Why canonical JSON does not read as a `T`, with the field path, which serde_json does not know.
pub(crate) fn misfit<T: DeserializeOwned>(json: &str) -> Option<Problem> {
    let value = match serde_json::from_str::<serde_json::Value>(json) {
        Ok(value) => value,
        Err(error) => return Some(Problem::new(error)),
    };
    let wrong = reader::read::<T>(&Node::from(value)).err()?;
    Some(Problem::new(&wrong.message).field(wrong.path()))
}

/// A tree without positions.
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
