//! Makes a change that was tried: recorded before, marked after.

use control_plane_runtime::Runtime;
use control_plane_store::{Batch, CommitError, owner, records::ChangeRecord};
use plugin_sdk::{EditError, Problem, Problems, Proposal, SourceChange, with_causes};
use prodspec_gen::{Trial, pipeline::Editable};
use prodspec_model::{AssetId, Revision, snapshot::Change};

use super::{
    Attempted, Desk, EditRefused, Made, SourceEdit, not_recorded,
    records::{Books, Wanted},
    refused,
};

/// What a change does alone.
pub(super) enum Own {
    Known(Vec<Change>),
    /// The source has changed since the proposal.
    Moved,
    /// The source cannot be read.
    Unread(Problems),
    /// It was not asked for, or the sources make nothing without the change.
    Unknown,
}

impl<R: Runtime> Desk<R> {
    /// Marks a change as made. If the store fails, the change has no mark, and is found out again when it is asked for.
    pub(super) async fn mark(
        &self,
        guard: &mut Option<Books>,
        wanted: &Wanted<'_>,
        revisions: (&Revision, &Revision),
    ) {
        let now = self.now();
        let entry = match self.open(guard).await {
            Ok(books) => books.record(wanted, revisions, (now, Some(now))),
            Err(error) => return not_recorded(wanted, &error),
        };
        if let Err(error) = self.write(guard, Batch::new(), entry).await {
            not_recorded(wanted, &error);
        }
    }

    /// Tries a change, records it, makes it, and marks it.
    pub(super) async fn make(
        &self,
        guard: &mut Option<Books>,
        editable: &Editable,
        wanted: &Wanted<'_>,
        edit: &SourceEdit,
    ) -> Result<Attempted, EditRefused> {
        let books = self.open(guard).await?;
        let (proposal, trial) = self
            .tried(books, editable, wanted, edit.blast_radius)
            .await?;
        let changes = trial.candidate.changes.iter();
        let assets: Vec<AssetId> = changes.map(Change::id).collect();
        let wanted = &Wanted {
            assets: &assets,
            ..*wanted
        };
        let own = match wanted.holder.is_some() || edit.is_confined() {
            true => self.own_changes(editable, wanted, &proposal, &trial).await,
            false => Own::Unknown,
        };
        let own = match own {
            Own::Known(own) => Some(own),
            Own::Moved if edit.is_confined() => return Ok(Attempted::Moved),
            Own::Unread(problems) if edit.is_confined() => {
                return Err(EditRefused::Failed(problems));
            }
            _ => None,
        };
        // If it is not known what it changes alone, what others have changed meanwhile counts too.
        let changes = own.as_deref().unwrap_or(&trial.candidate.changes);
        edit.check_turndown(changes)?;
        edit.check_assets(changes)?;
        let mut made = Made {
            own: own.unwrap_or_default(),
            sealed: None,
            assets: assets.clone(),
            id: wanted.change.id.clone(),
            revision: proposal.reading.revision.clone(),
            changes: trial.candidate.changes,
            diff: proposal.diff.clone(),
            begun: 0,
        };
        let committed = match editable {
            #[cfg(feature = "files")]
            Editable::Table(table) => self.commit_row(guard, table, wanted, &proposal).await,
            _ => self.commit(guard, editable, wanted, &proposal).await,
        };
        match committed {
            Ok(()) => {
                made.sealed = self.newest_sealed();
                made.begun = self.generation.begun();
                Ok(Attempted::Made(made))
            }
            Err(EditError::Moved { .. }) => Ok(Attempted::Moved),
            Err(error) => Err(refused(wanted.change, error)),
        }
    }

    /// Why the result of a change is refused: because of the change, or because the sources are refused without it too (R36).
    pub(super) async fn whose(
        &self,
        editable: &Editable,
        wanted: &Wanted<'_>,
        proposal: &Proposal,
        problems: Problems,
    ) -> EditRefused {
        let reading = match self.read(editable).await {
            Ok(reading) if reading.revision == proposal.before => reading,
            // It has changed meanwhile, or cannot be read now: nothing is known of the change.
            Ok(_) => return EditRefused::Elsewhere(problems),
            Err(problems) => return EditRefused::Failed(problems),
        };
        let source = wanted.source.clone();
        match self.generation.try_reading(source, reading).await {
            Ok(_) => EditRefused::Refused(problems),
            Err(error) => EditRefused::Elsewhere(error.into_problems()),
        }
    }

    /// What a change alone does: the difference to what the sources make without it. It may cost a trial of its own.
    pub(super) async fn own_changes(
        &self,
        editable: &Editable,
        wanted: &Wanted<'_>,
        proposal: &Proposal,
        trial: &Trial,
    ) -> Own {
        if trial.base.as_ref() == Some(&proposal.before) {
            return Own::Known(trial.candidate.changes.to_vec());
        }
        let reading = match self.read(editable).await {
            Ok(reading) => reading,
            Err(problems) => return Own::Unread(problems),
        };
        if reading.revision != proposal.before {
            return Own::Moved;
        }
        let without = self.generation.try_reading(wanted.source.clone(), reading);
        match without.await {
            Ok(without) => {
                let before = &without.candidate.snapshot;
                Own::Known(before.diff(&trial.candidate.snapshot))
            }
            Err(_) => Own::Unknown,
        }
    }

    /// What a change alone does that was made before: the difference to what the sources make if it is taken back in a
    /// trial. Empty if one of its fields has another value now.
    pub(super) async fn own_changes_before(
        &self,
        editable: &Editable,
        record: &ChangeRecord,
    ) -> Vec<Change> {
        if record.holder.is_none() {
            return Vec::new();
        }
        let (pipeline, runtime) = (&self.pipeline, &self.runtime);
        let back = taken_back(&record.change);
        let (Ok(proposal), Ok(reading)) = (
            pipeline.propose(runtime, editable, &back).await,
            self.read(editable).await,
        ) else {
            return Vec::new();
        };
        if reading.revision != proposal.before {
            return Vec::new();
        }
        let source = &record.source;
        let without = self.generation.try_proposal(source.clone(), &proposal);
        let Ok(without) = without.await else {
            return Vec::new();
        };
        let with = self.generation.try_reading(source.clone(), reading);
        let Ok(with) = with.await else {
            return Vec::new();
        };
        let before = &without.candidate.snapshot;
        before.diff(&with.candidate.snapshot)
    }

    /// Makes a change of a table, in one commit with its record.
    #[cfg(feature = "files")]
    async fn commit_row(
        &self,
        guard: &mut Option<Books>,
        table: &prodspec_gen::Table,
        wanted: &Wanted<'_>,
        proposal: &Proposal,
    ) -> Result<(), EditError> {
        let revisions = (&proposal.before, &proposal.reading.revision);
        let now = self.now();
        let books = self.open(guard).await.map_err(unread)?;
        let entry = books.record(wanted, revisions, (now, Some(now)));
        let batch = match proposal.is_unchanged() {
            true => Batch::new(),
            false => table.write(Batch::new(), wanted.change, proposal).await?,
        };
        let written = self.write(guard, batch, entry).await;
        written.map_err(|error| self.not_written(proposal, &error))
    }

    /// Records a change, makes it, and marks it.
    async fn commit(
        &self,
        guard: &mut Option<Books>,
        editable: &Editable,
        wanted: &Wanted<'_>,
        proposal: &Proposal,
    ) -> Result<(), EditError> {
        let revisions = (&proposal.before, &proposal.reading.revision);
        let books = self.open(guard).await.map_err(unread)?;
        let entry = books.record(wanted, revisions, (self.now(), None));
        let undo = books.undoing(&entry, &wanted.change.id);
        let written = self.write(guard, Batch::new(), entry).await;
        written.map_err(|error| self.not_written(proposal, &error))?;
        let (pipeline, runtime) = (&self.pipeline, &self.runtime);
        let committed = pipeline.commit(runtime, editable, wanted.change, proposal);
        match committed.await {
            Ok(_) => self.mark(guard, wanted, revisions).await,
            // The record says where to look.
            Err(unknown @ EditError::Unknown(_)) => return Err(unknown),
            Err(error) => {
                // If the store fails, the fields are held until the edit is asked for again, or the holder releases them.
                if let Err(error) = self.write(guard, Batch::new(), undo).await {
                    not_recorded(wanted, &error);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// The error for a commit of the store that failed before the source was changed.
    fn not_written(&self, proposal: &Proposal, error: &CommitError) -> EditError {
        let message = match error {
            CommitError::Conflict { key, .. } if *key == owner::key(&self.partition) => {
                "another process owns the partition now; ask that one".to_owned()
            }
            CommitError::Conflict { .. } => {
                let now = proposal.before.clone();
                return EditError::Moved { now };
            }
            error => format!("the store failed: {}", with_causes(error)),
        };
        let problems = Problem::new(message).by("store").into();
        match error {
            CommitError::Unknown { .. } => EditError::Unknown(problems),
            _ => EditError::Failed(problems),
        }
    }
}

/// The change that undoes another one.
fn taken_back(change: &SourceChange) -> SourceChange {
    let mut back = change.clone();
    back.edits.reverse();
    for edit in &mut back.edits {
        std::mem::swap(&mut edit.was, &mut edit.to);
    }
    back
}

/// The error for books that cannot be read.
fn unread(error: EditRefused) -> EditError {
    EditError::Failed(Problem::new(with_causes(&error)).by("store").into())
}
