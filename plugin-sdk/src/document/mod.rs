//! Documents: the content of a source of truth, as trees of values that know their line and column.

mod key;
mod located;
mod node;
mod path;
mod pattern;
mod reader;

use std::sync::Arc;

use prodspec_model::Provenance;
use serde::de::DeserializeOwned;

pub use key::{DocumentKey, DocumentName};
pub use located::Located;
pub use node::{Name, Node, Value};
pub use path::{FieldPath, PathError, Step};
pub use pattern::FieldPattern;

use crate::problem::Problem;

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

#[derive(Debug)]
struct Inner {
    key: DocumentKey,
    /// The file or table of the document, and its index there.
    place: (Arc<str>, u32),
    root: Node,
}

impl Document {
    /// Makes document number `index` of `path` in `source`, which is known by this place.
    pub fn new(source: &str, path: &str, index: u32, root: Node) -> Self {
        let path: Arc<str> = path.into();
        let key = DocumentKey::at(source, Arc::clone(&path), index);
        let place = (path, index);
        Self(Arc::new(Inner { key, place, root }))
    }

    /// The same document, known by a name of its own instead of its place, such as `Deployment/prod/web`. It stays the
    /// same document when it moves to another file, or when documents before it are removed.
    #[must_use]
    pub fn known_as(self, name: impl Into<Arc<str>>) -> Self {
        let key = DocumentKey {
            source: self.0.key.source.clone(),
            name: DocumentName::Own(name.into()),
        };
        let place = self.0.place.clone();
        let root = match Arc::try_unwrap(self.0) {
            Ok(inner) => inner.root,
            Err(shared) => shared.root.clone(),
        };
        Self(Arc::new(Inner { key, place, root }))
    }

    /// The key of the document within its partition.
    pub fn key(&self) -> &DocumentKey {
        &self.0.key
    }

    /// The name of the document in its source, such as `manifest.yaml#0` or `Deployment/prod/web`.
    pub fn name(&self) -> String {
        self.0.key.name.to_string()
    }

    /// The place of the document for operators: `manifest.yaml#0`, or `web.yaml#2 (Deployment/prod/web)`.
    pub fn place(&self) -> String {
        let (path, index) = &self.0.place;
        match &self.0.key.name {
            DocumentName::Own(name) => format!("{path}#{index} ({name})"),
            placed @ DocumentName::Place { .. } => placed.to_string(),
        }
    }

    /// The file or table of the document within its source, and the index of the document there.
    pub fn file(&self) -> (&str, u32) {
        (&self.0.place.0, self.0.place.1)
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
        self.read_node("", self.root())
    }

    /// Deserializes the part of the document at a field path, such as `clusters.eu`, as a `T`.
    ///
    /// # Errors
    /// As [`Document::read`]. Also if the document has no such field.
    pub fn read_at<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        let parsed: Result<FieldPath, _> = path.parse();
        match parsed.ok().and_then(|path| self.root().at(&path)) {
            Some(node) => self.read_node(path, node),
            None => Err(self.problem(format!("has no field `{path}`; add it"))),
        }
    }

    fn read_node<T: DeserializeOwned>(&self, path: &str, node: &Node) -> Result<T, Problem> {
        reader::read(node, path).map_err(|wrong| {
            let (line, column) = wrong.at.unwrap_or((node.line, node.column));
            let path = wrong.path();
            let problem = Problem::new(&wrong.message).origin(&self.provenance_at(&*path));
            problem.field(path).at(self.place(), line, column)
        })
    }

    /// The provenance of assets that are made from the whole document.
    pub fn provenance(&self) -> Provenance {
        self.provenance_at("")
    }

    /// The provenance of assets that are made from one field of the document, such as `clusters.eu`. [`Located`] values
    /// know their path.
    pub fn provenance_at(&self, path: impl Into<String>) -> Provenance {
        Provenance {
            source: self.0.key.source.0.to_string(),
            document: self.name(),
            path: path.into(),
            ..Provenance::default()
        }
    }

    /// Makes a problem of the document, at the position of its outermost value.
    pub fn problem(&self, message: impl std::fmt::Display) -> Problem {
        self.problem_at("", message)
    }

    /// Makes a problem of one field of the document. If the document has no such field, the position is that of the
    /// innermost part of the path that exists.
    pub fn problem_at(&self, path: &str, message: impl std::fmt::Display) -> Problem {
        let problem = Problem::new(message).origin(&self.provenance_at(path));
        self.locate(problem.field(path))
    }

    /// Sets the place of a problem to the present place and position of its field in this document.
    #[must_use]
    pub fn locate(&self, problem: Problem) -> Problem {
        let path = problem.origin.as_ref().map_or("", |origin| &origin.path);
        let node = self.root().innermost(&path.parse().unwrap_or_default());
        let (line, column) = (node.line, node.column);
        problem.at(self.place(), line, column)
    }
}

impl Document {
    /// Whether a document is equal to another one in its place and in all positions too. A source counts a document that
    /// is equal, but not identical, as changed, so that problems name the lines of today.
    pub fn is_identical(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.key == other.0.key
                && self.0.place == other.0.place
                && self.root().is_identical(other.root())
    }
}

/// Documents are equal if they have the same key and the same content. Places and positions are ignored.
impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        let same = |one: &Inner, two: &Inner| one.key == two.key && one.root == two.root;
        Arc::ptr_eq(&self.0, &other.0) || same(&self.0, &other.0)
    }
}

/// Finds out why canonical JSON does not deserialize as a `T`, with the field path, which serde_json does not report.
pub(crate) fn misfit<T: DeserializeOwned>(json: &str) -> Option<Problem> {
    let value = match serde_json::from_str::<serde_json::Value>(json) {
        Ok(value) => value,
        Err(error) => return Some(Problem::new(error)),
    };
    let wrong = reader::read::<T>(&Node::from(value), "").err()?;
    Some(Problem::new(&wrong.message).field(wrong.path()))
}

#[cfg(test)]
mod tests;
