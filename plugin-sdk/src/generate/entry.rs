//! Entries: the parts of a document for which a per-entry generator is called.

use std::{fmt, sync::Arc};

use prodspec_model::Provenance;
use serde::de::DeserializeOwned;

use crate::{
    document::{Document, FieldPath, Step},
    problem::Problem,
};

/// One entry of a map or list in a document. A per-entry generator is called once for each.
///
/// ```
/// use plugin_sdk::{Document, generate::Entry, document::Node};
/// let manifest = serde_json::json!({ "version": 3, "clusters": { "eu": { "replicas": 2 } } });
/// let manifest = Document::new("m.yaml", "m.yaml", 0, Node::from(manifest));
/// let entry = Entry::of(&manifest, &"clusters.eu".parse()?).ok_or("there is no such entry")?;
/// assert_eq!((entry.key(), entry.path()), ("eu", "clusters.eu"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Entry<'a> {
    document: &'a Document,
    key: String,
    path: String,
    shares: &'a [Arc<str>],
}

impl<'a> Entry<'a> {
    /// The entry at a field path of a document. `None`: the document has no such field, or the path is empty.
    pub fn of(document: &'a Document, path: &FieldPath) -> Option<Self> {
        document.root().at(path)?;
        let key = match path.steps().last()? {
            Step::Key(key) => key.to_string(),
            Step::Index(nth) => nth.to_string(),
            Step::Item { is, .. } => is.to_string(),
        };
        Some(Self {
            document,
            key,
            path: path.to_string(),
            shares: &[],
        })
    }

    /// The same entry, for a generator that declares these shared fields.
    #[must_use]
    pub fn sharing(mut self, shares: &'a [Arc<str>]) -> Self {
        self.shares = shares;
        self
    }

    /// The key of the entry in its map, or its index in its list, as a text.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The field path of the entry in its document.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same entry of a list, with a path that names it by its field `by` instead of its index, as in
    /// `clusters[name="eu"]`. An entry that has no name of its own in this field keeps its path.
    ///
    /// ```
    /// # use plugin_sdk::{Document, generate::Entry, document::Node};
    /// # let manifest = serde_json::json!([{ "name": "eu" }, { "name": "us" }, { "name": "us" }]);
    /// # let manifest = Document::new("m.yaml", "m.yaml", 0, Node::from(manifest));
    /// let named = |nth: &str| Some(Entry::of(&manifest, &nth.parse().ok()?)?.by("name").path().to_owned());
    /// assert_eq!(named("[0]").as_deref(), Some(r#"[name="eu"]"#));
    /// assert_eq!(named("[1]").as_deref(), Some("[1]"), "two entries have this name");
    /// ```
    #[must_use]
    pub fn by(mut self, by: &str) -> Self {
        if let Some(path) = self.named(by) {
            self.path = path;
        }
        self
    }

    fn named(&self, by: &str) -> Option<String> {
        let path: FieldPath = self.path.parse().ok()?;
        let (list, _) = path.split_last()?;
        let root = self.document.root();
        let name = root.at(&path.key(by))?.value.as_name()?;
        let path = list.item(by, name);
        root.at(&path).map(|_| path.to_string())
    }

    /// Deserializes the entry as a `T`.
    ///
    /// # Errors
    /// As [`Document::read`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.document.read_at(&self.path)
    }

    /// Deserializes a field of the entry's document as a `T`. `None`: the document has no such field. The generator must
    /// [share](super::GeneratorInfo::shares) the field.
    ///
    /// # Errors
    /// As [`Document::read`]. Also if the generator does not declare the field.
    pub fn shared<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Problem> {
        if !self.shares.iter().any(|shared| **shared == *path) {
            let message = format!("add `.shares({path:?})` to the info of the generator");
            return Err(self.problem(message));
        }
        let parsed: Result<FieldPath, _> = path.parse();
        match parsed.is_ok_and(|path| self.document.root().at(&path).is_some()) {
            true => self.document.read_at(path).map(Some),
            false => Ok(None),
        }
    }

    /// The provenance of assets that are made from the entry.
    pub fn provenance(&self) -> Provenance {
        self.document.provenance_at(&*self.path)
    }

    /// Makes a problem of the entry, at its position.
    pub fn problem(&self, message: impl fmt::Display) -> Problem {
        self.document.problem_at(&self.path, message)
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.path, self.document.place())
    }
}
