//! Sources of truth: where a team's own configuration lives.

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt};
use prodspec_model::{Revision, SourceName};

use crate::{document::Document, problem::Problems};

/// What a source holds at one revision: all of it, or nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Which state was read.
    pub revision: Revision,
    /// Every document, each with its own [`key`](Document::key).
    pub documents: Vec<Document>,
}

/// A place where configuration lives: files, a repository, a table.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{Document, Problems, Reading, SourceOfTruth, document::Node};
/// use prodspec_model::{Revision, SourceName};
///
/// /// Configuration compiled into the program.
/// struct BuiltIn(serde_json::Value);
///
/// #[async_trait]
/// impl SourceOfTruth for BuiltIn {
///     fn name(&self) -> SourceName {
///         SourceName("built-in".into())
///     }
///     async fn read(&self) -> Result<Reading, Problems> {
///         let document = Document::new("built-in", "built-in", 0, Node::from(self.0.clone()));
///         Ok(Reading { revision: Revision("1".into()), documents: vec![document] })
///     }
/// }
/// ```
#[async_trait]
pub trait SourceOfTruth: Send + Sync + 'static {
    /// Its name, unique in the partition: generators ask for documents by it.
    fn name(&self) -> SourceName;

    /// Reads everything, at one revision.
    ///
    /// # Errors
    /// Every problem found: nothing is sealed, and the last good incarnation stays in force.
    async fn read(&self) -> Result<Reading, Problems>;

    /// Hints that something may have changed. May repeat and be late; a source without any is read again from time
    /// to time only.
    fn changes(&self) -> BoxStream<'static, ()> {
        futures::stream::pending().boxed()
    }
}
