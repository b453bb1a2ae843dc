//! Sources of truth: where a team keeps its own configuration.

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use prodspec_model::{Revision, SourceName};

use crate::{document::Document, problem::Problems};

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

    /// A stream of hints that the source may have changed. Hints may repeat and may be late. A source without hints,
    /// the default, is only read again from time to time.
    fn changes(&self) -> BoxStream<'static, ()> {
        futures::stream::pending().boxed()
    }
}
