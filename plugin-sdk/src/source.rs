//! Sources of truth: where a team keeps its own configuration.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use prodspec_model::{Revision, SourceName};

use crate::{
    document::{Document, DocumentKey},
    problem::Problems,
};

/// The content of a source at one revision, complete.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Reading {
    /// The revision of the source that was read.
    pub revision: Revision,
    /// All documents of the source, each with its own [`key`](Document::key).
    pub documents: Vec<Document>,
}

impl Reading {
    /// The complete content of a source at `revision`.
    pub fn new(revision: impl Into<std::sync::Arc<str>>, documents: Vec<Document>) -> Self {
        Self {
            revision: Revision(revision.into()),
            documents,
        }
    }
}

/// What a source says to a caller that already has the documents of one of its revisions.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// The source still has that revision.
    Same,
    /// The complete content of the source.
    Whole(Reading),
    /// The documents that differ from that revision.
    Delta(Delta),
}

/// The documents of a source that differ from an earlier revision of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Delta {
    /// The revision of the source that was read.
    pub revision: Revision,
    /// Documents that are new or have changed. A document that has not changed may be among them.
    pub put: Vec<Document>,
    /// Documents that are gone. One that was never there may be among them.
    pub gone: Vec<DocumentKey>,
}

impl Delta {
    /// The documents that have changed, and those that are gone, up to `revision`.
    pub fn new(
        revision: impl Into<std::sync::Arc<str>>,
        put: Vec<Document>,
        gone: Vec<DocumentKey>,
    ) -> Self {
        Self {
            revision: Revision(revision.into()),
            put,
            gone,
        }
    }
}

impl Update {
    /// Applies the update to the documents of the revision `known`. Returns the revision and the documents after it.
    pub fn applied_to(
        self,
        known: &Revision,
        documents: &BTreeMap<DocumentKey, Document>,
    ) -> (Revision, BTreeMap<DocumentKey, Document>) {
        let keyed = |all: Vec<Document>| all.into_iter().map(|it| (it.key().clone(), it));
        match self {
            Self::Same => (known.clone(), documents.clone()),
            Self::Whole(reading) => (reading.revision, keyed(reading.documents).collect()),
            Self::Delta(delta) => {
                let mut now = documents.clone();
                for key in &delta.gone {
                    now.remove(key);
                }
                now.extend(keyed(delta.put));
                (delta.revision, now)
            }
        }
    }
}

impl From<Reading> for Update {
    fn from(reading: Reading) -> Self {
        Self::Whole(reading)
    }
}

/// A place that holds configuration: files, a repository, a table.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{Document, Problems, Reading, SourceOfTruth, document::Node};
/// use prodspec_model::SourceName;
///
/// /// Configuration that is compiled into the program.
/// struct BuiltIn(serde_json::Value);
///
/// #[async_trait]
/// impl SourceOfTruth for BuiltIn {
///     fn name(&self) -> SourceName {
///         SourceName("built-in".into())
///     }
///     async fn read(&self) -> Result<Reading, Problems> {
///         let document = Document::new("built-in", "built-in", 0, Node::from(self.0.clone()));
///         Ok(Reading::new("1", vec![document]))
///     }
/// }
/// ```
#[async_trait]
pub trait SourceOfTruth: Send + Sync + 'static {
    /// Name of the source, unique in the partition. Generators ask for documents by this name.
    fn name(&self) -> SourceName;

    /// Reads all documents, at one revision.
    ///
    /// # Errors
    /// Every problem found. Nothing is sealed then, and the last good incarnation stays in force.
    async fn read(&self) -> Result<Reading, Problems>;

    /// Reads what has changed since the revision `known`, whose documents the caller has. A source that does not know
    /// this revision any more reads all documents. So does the default; a source that can tell what has changed
    /// provides its own, so that the cost of a run depends on the changes.
    ///
    /// The documents of `known`, changed by the update, are always those that [`read`](Self::read) would give.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        let _ = known;
        self.read().await.map(Update::Whole)
    }

    /// A stream of hints that the source may have changed. Hints may repeat and may be late. A source without hints,
    /// the default, is only read again from time to time.
    fn changes(&self) -> BoxStream<'static, ()> {
        futures::stream::pending().boxed()
    }
}
