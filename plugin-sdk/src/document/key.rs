//! The identity of documents: what makes two readings of a source talk about the same document.

use std::{fmt, sync::Arc};

use prodspec_model::SourceName;

/// Identifies a document within a partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    /// The source that contains the document.
    pub source: SourceName,
    /// The name of the document, unique in its source.
    pub name: DocumentName,
}

/// The name of a document within its source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocumentName {
    /// The place of the document, for formats that give documents no name.
    Place {
        /// The file or table of the document within the source.
        path: Arc<str>,
        /// Index of the document within the file, from 0.
        index: u32,
    },
    /// A name of its own, which its content gives, such as `Deployment/prod/web`.
    Own(Arc<str>),
}

impl DocumentKey {
    /// The key of document number `index` of `path` in `source`.
    pub fn at(source: &str, path: impl Into<Arc<str>>, index: u32) -> Self {
        let path = path.into();
        Self {
            source: SourceName(source.into()),
            name: DocumentName::Place { path, index },
        }
    }

    /// The keys that a document of `source` shown as `name` can have, as in
    /// [`Provenance::document`](prodspec_model::Provenance::document).
    pub fn of_name(source: &str, name: &str) -> impl Iterator<Item = Self> {
        let source = SourceName(source.into());
        let own = DocumentName::Own(name.into());
        let place = name.rsplit_once('#').and_then(|(path, index)| {
            let (path, index) = (path.into(), index.parse().ok()?);
            Some(DocumentName::Place { path, index })
        });
        let names = place.into_iter().chain([own]);
        names.map(move |name| Self {
            source: source.clone(),
            name,
        })
    }
}

impl fmt::Display for DocumentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl fmt::Display for DocumentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place { path, index } => write!(f, "{path}#{index}"),
            Self::Own(name) => f.write_str(name),
        }
    }
}
