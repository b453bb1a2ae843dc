//! The desk: makes one edit at a time, for as long as this process owns the partition.
//!
//! An edit of a file or a repository is recorded before it is made, with the revisions before and after it, and is marked
//! when it is made. A process that dies in between leaves a record without the mark; the same edit, asked for again,
//! finds out from the source whether it was made. A change of a table is one commit with its record.

mod error;
mod making;
mod overwritten;
mod records;
mod request;
mod reserving;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use control_plane_runtime::{Runtime, timeout_at};
use control_plane_store::{
    Batch, CommitError, Store, Version, owner,
    records::{ChangeRecord, HeldField, Ledger},
};
use jiff::Timestamp;
use plugin_sdk::{
    ChangeId, Document, EditError, FencingToken, FieldEdit, Holder, Problem, Problems, Proposal,
    Reading, SourceChange, document::DocumentName, with_causes,
};
use prodspec_gen::{Pipeline, Trial, TrialError, pipeline::Editable};
use prodspec_model::{AssetId, IncarnationNo, PartitionId, Revision, SourceName, snapshot::Change};
use tokio::sync::{Mutex, MutexGuard, watch};

use self::records::{Books, Entry, Wanted};
pub use self::{error::EditRefused, request::SourceEdit};

/// Number of times that an edit is tried while its source changes.
const ATTEMPTS: u32 = 16;
/// Time for finding out what an edit changes alone that was made before.
const OWN: Duration = Duration::from_secs(10);
/// Number of times that a batch is submitted whose outcome is not known.
const SUBMISSIONS: u32 = 5;

/// Makes the edits of one partition under one ownership.
pub(crate) struct Desk<R> {
    runtime: R,
    partition: PartitionId,
    store: Arc<dyn Store>,
    pipeline: Pipeline,
    pub(crate) token: FencingToken,
    generation: prodspec_gen::Handle,
    /// The records in the store. `None`: they have to be read. Held for the whole of an edit.
    books: Mutex<Option<Books>>,
    /// The ledger as it was written last.
    published: watch::Sender<Arc<Ledger>>,
}

/// A change that was made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) id: ChangeId,
    pub(crate) revision: Revision,
    /// The change of the source as a unified diff.
    pub(crate) diff: String,
    /// The assets that the next incarnation changes because of it.
    pub(crate) changes: Arc<[Change]>,
    /// The ids of these assets, also if the edit was made before.
    pub(crate) assets: Vec<AssetId>,
    /// The changes that are the edit's alone: from what the sources made before it, which may not be sealed yet. Empty:
    /// this is not known.
    pub(crate) own: Vec<Change>,
    /// The newest incarnation when it was made. `None`: this is not known.
    pub(crate) sealed: Option<IncarnationNo>,
    /// The number of runs of generation that had begun when it was durable.
    pub(crate) begun: u64,
}

/// How an attempt to make a change has ended.
enum Attempted {
    Made(Made),
    /// The source has changed since the proposal.
    Moved,
}

impl<R: Runtime> Desk<R> {
    pub(crate) fn new(
        runtime: R,
        store: Arc<dyn Store>,
        pipeline: Pipeline,
        token: FencingToken,
        generation: prodspec_gen::Handle,
    ) -> Self {
        Self {
            runtime,
            partition: pipeline.partition().clone(),
            store,
            pipeline,
            token,
            generation,
            books: Mutex::new(None),
            published: watch::Sender::new(Arc::default()),
        }
    }

    /// The ledger, as it is in the store.
    pub(crate) async fn ledger(&self) -> Result<Arc<Ledger>, EditRefused> {
        let mut books = self.books.lock().await;
        self.open(&mut books).await?;
        Ok(self.published.borrow().clone())
    }

    /// Reads the books if that is necessary.
    async fn open<'b>(&self, books: &'b mut Option<Books>) -> Result<&'b mut Books, EditRefused> {
        if books.is_none() {
            let read = Books::load(&*self.store, &self.partition).await?;
            self.published.send_replace(Arc::new(read.ledger.clone()));
            *books = Some(read);
        }
        Ok(books.get_or_insert_with(|| unreachable!("they were just read")))
    }

    /// Commits an entry of the books with `batch`, under the token of the owner. If the commit fails, or is given up, the
    /// books are read again the next time.
    async fn write(
        &self,
        books: &mut Option<Books>,
        batch: Batch,
        entry: Entry,
    ) -> Result<(), CommitError> {
        let taken = books.take();
        let rewrites = taken.as_ref().map(|books| books.rewrites().clone());
        let rewrites = rewrites.unwrap_or_default();
        let batch = entry.write(&rewrites, &self.partition, batch);
        let batch = batch.map_err(CommitError::unavailable)?;
        let batch = batch.expect_at(owner::key(&self.partition), Version(self.token.0));
        let mut submissions = 1;
        loop {
            match self.store.commit(batch.clone()).await {
                Ok(_) => break,
                Err(CommitError::Unknown { .. }) if submissions < SUBMISSIONS => submissions += 1,
                Err(error) => return Err(error),
            }
        }
        if let Some(mut taken) = taken {
            let changed = entry.has_fields();
            taken.apply(entry);
            if changed {
                self.published.send_replace(Arc::new(taken.ledger.clone()));
            }
            *books = Some(taken);
        }
        Ok(())
    }

    /// Gives up all fields of a holder.
    pub(crate) async fn release(&self, holder: &Holder) -> Result<Vec<HeldField>, EditRefused> {
        let mut guard = self.books.lock().await;
        let books = self.open(&mut guard).await?;
        let held: Vec<HeldField> = books.ledger.of_holder(holder).cloned().collect();
        let entry = Entry::of_fields(held.iter().map(|field| (field.name(), None)));
        match self.write(&mut guard, Batch::new(), entry).await {
            Ok(()) => Ok(held),
            Err(error) => Err(EditRefused::Store(error.into())),
        }
    }

    fn now(&self) -> Timestamp {
        self.runtime.now().wall
    }

    fn editable(&self, edit: &SourceEdit) -> Result<(SourceName, &Editable), EditRefused> {
        let pipeline = &self.pipeline;
        let name = edit.source();
        match pipeline.editable(&name) {
            Some(editable) => Ok((name, editable)),
            None if pipeline.sources().iter().any(|it| it.name() == name) => {
                Err(EditRefused::NotEditable(edit.source.clone()))
            }
            None => Err(EditRefused::UnknownSource(edit.source.clone())),
        }
    }

    /// Whether a change with this id was recorded.
    pub(crate) async fn knows(&self, id: &ChangeId) -> Result<bool, EditRefused> {
        let mut guard = self.books.lock().await;
        Ok(self.open(&mut guard).await?.change(id).is_some())
    }

    /// The change that an edit asks for now.
    fn change(&self, edit: &SourceEdit) -> SourceChange {
        let (who, why) = (edit.by.who.clone(), edit.by.why.clone());
        SourceChange::new(edit.id.clone(), edit.fields.clone(), who, why, self.now())
    }

    /// Finds out what an edit would do.
    pub(crate) async fn attempt(
        &self,
        edit: &SourceEdit,
    ) -> Result<(Proposal, Trial), EditRefused> {
        edit.check()?;
        let (source, editable) = self.editable(edit)?;
        let change = self.change(edit);
        let mut guard = self.books.lock().await;
        let books = self.open(&mut guard).await?;
        let wanted = Wanted {
            source: &source,
            change: &change,
            holder: edit.holder.as_ref(),
            assets: &[],
        };
        let (proposal, trial) = self
            .tried(books, editable, &wanted, edit.blast_radius)
            .await?;
        edit.check_turndown(&trial.candidate.changes)?;
        Ok((proposal, trial))
    }

    /// Tries a change: ledger, expected values, pipeline and guards, blast radius.
    async fn tried(
        &self,
        books: &Books,
        editable: &Editable,
        wanted: &Wanted<'_>,
        allowed: usize,
    ) -> Result<(Proposal, Trial), EditRefused> {
        let Wanted {
            source,
            change,
            holder,
            ..
        } = *wanted;
        if let Some(held) = books.ledger.conflict(source, &change.edits, holder) {
            return Err(EditRefused::Held(Box::new(held.clone())));
        }
        let proposal = self.pipeline.propose(&self.runtime, editable, change);
        let proposal = proposal.await.map_err(|error| refused(change, error))?;
        check_names(holder, &proposal.reading, change)?;
        let trial = self
            .generation
            .try_proposal(source.clone(), &proposal)
            .await;
        let trial = match trial {
            Ok(trial) => trial,
            Err(TrialError::Refused(problems)) => {
                return Err(self.whose(editable, wanted, &proposal, problems).await);
            }
            Err(error) => return Err(EditRefused::Failed(error.into_problems())),
        };
        match trial.candidate.changes.len() {
            assets if assets > allowed => Err(EditRefused::BlastRadius { assets, allowed }),
            _ => Ok((proposal, trial)),
        }
    }

    /// Makes an edit once.
    pub(crate) async fn edit(&self, edit: &SourceEdit) -> Result<Made, EditRefused> {
        edit.check()?;
        let (source, editable) = self.editable(edit)?;
        let mut guard = self.books.lock().await;
        let recorded = self.open(&mut guard).await?.change(&edit.id).cloned();
        if let Some(record) = &recorded {
            let same = record.source == source
                && record.change.edits == edit.fields
                && record.holder == edit.holder;
            if !same {
                return Err(EditRefused::IdUsed(edit.id.clone()));
            }
            if record.made.is_some() || self.was_made(editable, record).await? {
                return self.made_before(&mut guard, editable, record).await;
            }
        }
        let change = recorded.map_or_else(|| self.change(edit), |record| record.change);
        let wanted = Wanted {
            source: &source,
            change: &change,
            holder: edit.holder.as_ref(),
            assets: &[],
        };
        for _ in 0..ATTEMPTS {
            let made = self.make(&mut guard, editable, &wanted, edit);
            let made = match made.await {
                Err(error) => return Err(self.not_made(guard, &wanted, error).await),
                Ok(made) => made,
            };
            if let Attempted::Made(made) = made {
                tracing::info!(
                    partition = %self.partition, source = %source.0, id = %made.id, who = change.who,
                    why = change.why, revision = %made.revision.0, "edited a source"
                );
                self.generation.regenerate();
                return Ok(made);
            }
        }
        Err(EditRefused::KeepsChanging(ATTEMPTS))
    }

    /// Forgets the record of an earlier attempt, if there is one, because the source has other values now. Fields that the
    /// earlier attempt was to hold are compared with the source: those that have other values are held no more.
    async fn not_made(
        &self,
        mut guard: MutexGuard<'_, Option<Books>>,
        wanted: &Wanted<'_>,
        error: EditRefused,
    ) -> EditRefused {
        let known = match self.open(&mut guard).await {
            Ok(books) => books.change(&wanted.change.id).is_some(),
            Err(_) => false,
        };
        if !known || !matches!(error, EditRefused::Refused(_)) {
            return error;
        }
        let entry = Entry::without(&wanted.change.id);
        if let Err(error) = self.write(&mut guard, Batch::new(), entry).await {
            not_recorded(wanted, &error);
        }
        drop(guard);
        if let Err(error) = self.compare(wanted.source).await {
            not_recorded(wanted, &error);
        }
        error
    }

    /// Whether a change that was recorded, but not marked, was made: the source has the revision after it, or all its fields
    /// have their new values.
    async fn was_made(
        &self,
        editable: &Editable,
        record: &ChangeRecord,
    ) -> Result<bool, EditRefused> {
        let reading = self.read(editable).await;
        let reading = reading.map_err(|problems| unknown(&record.change, problems))?;
        let edits = &record.change.edits;
        let has_all = || edits.iter().all(|edit| has(&reading, edit));
        Ok(reading.revision == record.after || (!edits.is_empty() && has_all()))
    }

    async fn read(&self, editable: &Editable) -> Result<Reading, Problems> {
        let (pipeline, runtime) = (&self.pipeline, &self.runtime);
        pipeline.read_replacement(runtime, editable.source()).await
    }

    /// The answer for an edit that was made already. Marks it, if it is not.
    async fn made_before(
        &self,
        guard: &mut Option<Books>,
        editable: &Editable,
        record: &ChangeRecord,
    ) -> Result<Made, EditRefused> {
        let revision = record.after.clone();
        let begun = self.generation.begun();
        if record.made.is_none() {
            let wanted = Wanted {
                source: &record.source,
                change: &record.change,
                holder: record.holder.as_ref(),
                assets: &record.assets,
            };
            self.mark(guard, &wanted, (&record.before, &revision)).await;
            self.generation.regenerate();
        }
        let sealed = self.newest_sealed();
        // It is not worth more time than that: without it, a watch may start again for its own change.
        let until = self.runtime.now().mono + OWN;
        let own = timeout_at(
            &self.runtime,
            until,
            self.own_changes_before(editable, record),
        );
        let own = own.await.unwrap_or_default();
        Ok(Made {
            id: record.change.id.clone(),
            revision,
            diff: String::new(),
            changes: Arc::default(),
            assets: record.assets.clone(),
            own,
            sealed,
            begun,
        })
    }

    fn newest_sealed(&self) -> Option<IncarnationNo> {
        let newest = self.generation.status().incarnation;
        newest.map(|header| header.id.no)
    }
}

/// Several items of a list have the name by which a path finds one.
pub(crate) struct Ambiguous;

/// The value of an edited field in a reading.
///
/// # Errors
/// When its path may name several fields.
pub(crate) fn value(
    reading: &Reading,
    edit: &FieldEdit,
) -> Result<Option<serde_json::Value>, Ambiguous> {
    let mut documents = reading.documents.iter();
    let Some(document) = documents.find(|it| it.name() == *edit.document) else {
        return Ok(None);
    };
    match document.root().at(&edit.path) {
        None if document.root().is_ambiguous(&edit.path) => Err(Ambiguous),
        found => Ok(found.map(plugin_sdk::document::Node::to_json)),
    }
}

/// Whether a field has the value that an edit gives it.
fn has(reading: &Reading, edit: &FieldEdit) -> bool {
    value(reading, edit).is_ok_and(|now| now == edit.to)
}

/// # Errors
/// When a program would hold a field of a document that is named by its place among several of its file.
fn check_names(
    holder: Option<&Holder>,
    reading: &Reading,
    change: &SourceChange,
) -> Result<(), EditRefused> {
    if holder.is_none() {
        return Ok(());
    }
    let edited = |document: &&Document| {
        let placed = matches!(document.key().name, DocumentName::Place { .. });
        let name = document.name();
        placed && change.edits.iter().any(|edit| *edit.document == *name)
    };
    let files = change.edits.iter().map(|edit| file_of(&edit.document));
    let files: BTreeSet<&str> = files.collect();
    let of_these = |document: &&Document| files.contains(document.file().0);
    let mut counts: BTreeMap<&str, (usize, Option<String>)> = BTreeMap::new();
    for document in reading.documents.iter().filter(of_these) {
        let (count, placed) = counts.entry(document.file().0).or_default();
        *count += 1;
        if placed.is_none() && edited(&document) {
            *placed = Some(document.name());
        }
    }
    let mut among_others = counts.into_values().filter(|(count, _)| *count > 1);
    match among_others.find_map(|(_, placed)| placed) {
        Some(placed) => Err(EditRefused::ByPlace(placed)),
        None => Ok(()),
    }
}

/// The file of a document that is named by its place.
fn file_of(document: &str) -> &str {
    document.rsplit_once('#').map_or(document, |(file, _)| file)
}

fn unknown(change: &SourceChange, problems: Problems) -> EditRefused {
    let id = change.id.clone();
    EditRefused::Unknown { id, problems }
}

fn refused(change: &SourceChange, error: EditError) -> EditRefused {
    match error {
        EditError::Refused(problems) => EditRefused::Refused(problems),
        EditError::Failed(problems) => EditRefused::Failed(problems),
        EditError::Unknown(problems) => unknown(change, problems),
        error => EditRefused::Failed(Problem::new(error).into()),
    }
}

fn not_recorded(wanted: &Wanted<'_>, error: &dyn std::error::Error) {
    tracing::warn!(
        source = %wanted.source.0, id = %wanted.change.id, error = %with_causes(error),
        "cannot record how an edit has ended; the same edit asked for again finds out"
    );
}
