//! A table in the store of the control plane as an editable source: one row per document.

mod head;
mod rows;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use control_plane_store::{Batch, CommitError, Store, Topic, record};
use futures::stream::BoxStream;
use plugin_sdk::{
    Document, EditError, EditableSource, FieldEdit, Problem, Problems, Proposal, Reading,
    SourceChange, SourceOfTruth, Update,
    document::{DocumentKey, DocumentName},
    with_causes,
};
use prodspec_model::{PartitionId, Revision, SourceName};
use serde_json::Value;

use self::head::Head;
use crate::edit::value;

/// A source of truth in the store of the control plane. Programs change it; a document is a JSON value with a name. Needs
/// the feature `files`.
///
/// A document is added by an edit of its empty path, and removed by one. A change of any number of documents is one commit
/// of the store, with the entries of the ledger. Reading costs what has changed.
///
/// ```
/// use std::sync::Arc;
/// use control_plane_store::MemoryStore;
/// use plugin_sdk::{ChangeId, EditableSource, FieldEdit, FieldPath, SourceChange, SourceOfTruth};
/// use prodspec_gen::Table;
/// use serde_json::json;
/// # futures::executor::block_on(async {
/// let services = Table::new("services", Arc::new(MemoryStore::new()), "shakespeare".parse()?);
/// let web = FieldEdit::add("web", FieldPath::default(), json!({ "replicas": 3 }));
/// let change = SourceChange::new(ChangeId::new("first")?, vec![web], "ada", "begin", Default::default());
/// let proposal = services.propose(&change).await?;
/// services.commit(&change, &proposal).await?;
/// assert_eq!(services.read().await?.documents[0].name(), "web");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Table {
    name: SourceName,
    partition: PartitionId,
    store: Arc<dyn Store>,
    /// The last reading, so that the next one reads only what has changed since.
    kept: Arc<Mutex<Option<Reading>>>,
}

impl Table {
    /// The table `name` of `partition` in `store`. A table that was never changed has no documents.
    pub fn new(name: &str, store: Arc<dyn Store>, partition: PartitionId) -> Self {
        Self {
            name: SourceName(name.into()),
            partition,
            store,
            kept: Arc::default(),
        }
    }

    fn topic(&self) -> Topic {
        record::key(&self.partition, head::KIND, &self.name.0)
            .as_str()
            .into()
    }

    /// Adds a change to a batch, which then makes it together with whatever else the batch has. The batch is refused if
    /// the table is not at the revision of the proposal.
    ///
    /// # Errors
    /// [`EditError::Moved`] if it is not now, [`EditError::Failed`] if the store cannot be read.
    pub async fn write(
        &self,
        batch: Batch,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Batch, EditError> {
        let changed = documents(change);
        let rows = self.rows(&changed).await.map_err(EditError::Failed)?;
        if rows.head.revision != proposal.before {
            return Err(EditError::Moved {
                now: rows.head.revision.clone(),
            });
        }
        let documents = &proposal.reading.documents;
        let there = changed.iter().filter_map(|name| {
            let at = self.position(documents, name).ok()?;
            Some(((*name).to_owned(), documents[at].root().to_json()))
        });
        let after: BTreeMap<String, Value> = there.collect();
        let batch = rows.write(self, batch, &after, proposal.reading.revision.clone());
        let batch = batch.map_err(|error| EditError::Failed(self.failed(&error)))?;
        Ok(batch.announce(self.topic()))
    }

    fn said(&self, problem: Problem) -> Problem {
        problem.by(format!("source {}", self.name.0))
    }

    fn failed(&self, error: &dyn std::error::Error) -> Problems {
        let message = format!("the store failed: {}", with_causes(error));
        self.said(Problem::new(message)).into()
    }
}

/// The names of the documents that a change is about.
fn documents(change: &SourceChange) -> BTreeSet<&str> {
    change.edits.iter().map(|edit| &*edit.document).collect()
}

#[async_trait]
impl SourceOfTruth for Table {
    fn name(&self) -> SourceName {
        self.name.clone()
    }

    async fn read(&self) -> Result<Reading, Problems> {
        self.all().await
    }

    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        self.since(known).await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.store.watch(self.topic())
    }
}

#[async_trait]
impl EditableSource for Table {
    async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError> {
        let reading = self.all().await.map_err(EditError::Failed)?;
        let edited = self.edited(&reading, change);
        edited.map_err(EditError::Refused)
    }

    async fn commit(
        &self,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError> {
        let after = proposal.reading.revision.clone();
        let head = self.head().await.map_err(EditError::Failed)?;
        if head.is_some_and(|head| head.value.revision == after) || proposal.is_unchanged() {
            return Ok(after);
        }
        let batch = self.write(Batch::new(), change, proposal).await?;
        match self.store.commit(batch).await {
            Ok(_) => Ok(after),
            Err(CommitError::Conflict { .. }) => {
                let rows = self.rows(&BTreeSet::new()).await;
                let now = rows.map_err(EditError::Failed)?.head.revision;
                Err(EditError::Moved { now })
            }
            Err(error @ CommitError::Unknown { .. }) => {
                Err(EditError::Unknown(self.failed(&error)))
            }
            Err(error) => Err(EditError::Failed(self.failed(&error))),
        }
    }
}

impl Table {
    /// The content after a change of the content `reading`.
    fn edited(&self, reading: &Reading, change: &SourceChange) -> Result<Proposal, Problems> {
        let mut documents = reading.documents.clone();
        let mut changed = Vec::new();
        let mut problems = Problems::none();
        let mut diff = String::new();
        for name in self::documents(change) {
            let about = change.edits.iter().filter(|edit| &*edit.document == name);
            let edits: Vec<&FieldEdit> = about.collect();
            let at = self.position(&documents, name);
            let before = at.ok().map(|at| documents[at].root().to_json());
            match self.row(name, before.clone(), &edits) {
                Err(problem) => problems.push(problem),
                Ok(after) if after == before => {}
                Ok(after) => {
                    diff.push_str(&shown(name, before.as_ref(), after.as_ref()));
                    let after = after.map(|row| self.document(name, row));
                    let old = at.map_or_else(|at| at..at, |at| at..at + 1);
                    documents.splice(old, after);
                    changed.push(self.key(name));
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let before = reading.revision.clone();
        let revision = match diff.is_empty() {
            true => before.clone(),
            false => head::revision_after(&before, &change.edits),
        };
        let reading = Reading::new(revision.0, documents);
        Ok(Proposal::new(before, reading, diff).changing(changed))
    }

    /// Where a document is among all, which are sorted by name; or where it would be.
    fn position(&self, documents: &[Document], name: &str) -> Result<usize, usize> {
        let key = self.key(name);
        documents.binary_search_by(|it| it.key().cmp(&key))
    }

    fn key(&self, name: &str) -> DocumentKey {
        DocumentKey {
            source: self.name.clone(),
            name: DocumentName::Own(name.into()),
        }
    }

    /// A row after its edits. `None`: there is none.
    fn row(
        &self,
        name: &str,
        before: Option<Value>,
        edits: &[&FieldEdit],
    ) -> Result<Option<Value>, Problem> {
        let refused = |message: String| self.said(Problem::new(message).at(name, 0, 0));
        if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
            let message =
                "a document's name has 1 to 200 bytes and no control characters; rename it";
            return Err(refused(message.into()));
        }
        let after = value::edited(before, edits).map_err(|misfit| refused(misfit.to_string()))?;
        match &after {
            None | Some(Value::Object(_) | Value::Array(_)) => Ok(after),
            Some(_) => Err(refused("a document must be a map or a list".into())),
        }
    }

    fn document(&self, name: &str, row: Value) -> Document {
        Document::new(&self.name.0, &self.name.0, 0, row.into()).known_as(name)
    }
}

/// The change of a row as a unified diff of its JSON.
fn shown(name: &str, before: Option<&Value>, after: Option<&Value>) -> String {
    let text =
        |value: Option<&Value>| value.map_or_else(String::new, |value| format!("{value:#}\n"));
    crate::edit::file::diff(name, &text(before), &text(after))
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name)
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}
