//! Edits of sources by programs: tried with the whole pipeline, compared, made once, and recorded.

use std::{collections::BTreeSet, sync::Arc};

use annealing_enforcer::Plan;
use control_plane_runtime::Runtime;
use control_plane_store::records::HeldField;
use plugin_sdk::{ChangeId, Holder, Reading};
use prodspec_model::Revision;
use serde::{Deserialize, Serialize};

use crate::{
    desk::{Desk, SourceEdit},
    dry_run::DryRunChange,
    handle::{Error, Handle},
};

/// An edit of a source that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Edited {
    /// The id of the change: the same edit under this id is this edit.
    pub id: ChangeId,
    /// The revision of the source after the edit.
    pub revision: Revision,
    /// The change of the source as a unified diff. Empty if there was nothing to change, or if the edit was made before.
    pub diff: String,
    /// The assets that the next incarnation changes because of it.
    pub changes: Vec<DryRunChange>,
}

/// What an edit of a source would do.
#[derive(Debug)]
#[non_exhaustive]
pub struct EditDryRun {
    /// The change of the source as a unified diff. Empty if there is nothing to change.
    pub diff: String,
    /// The assets that the next incarnation would change.
    pub changes: Vec<DryRunChange>,
    /// What enforcement and rollouts would do then.
    pub plan: Plan,
}

impl<R: Runtime> Handle<R> {
    /// Makes an edit of a source, then starts generation. All of it is made, or nothing.
    ///
    /// In this order: no other program holds a field of it, each field has its expected value, the pipeline with its guards
    /// accepts the result, and the edit changes no more assets than it may. The source must still be the same then; if it
    /// has changed meanwhile, all of this is done again. The same edit under the same id, also after a crash, is one edit.
    ///
    /// # Errors
    /// [`EditRefused`](crate::EditRefused) with the first of these that does not hold: nothing was changed. [`EditRefused::Unknown`](crate::EditRefused::Unknown) if the edit
    /// may have been made: make it again under the same id. If this process does not own the partition.
    pub async fn edit(&self, edit: &SourceEdit) -> Result<Edited, Error> {
        let made = self.desk().await?.edit(edit).await?;
        Ok(Edited {
            id: made.id,
            revision: made.revision,
            diff: made.diff,
            changes: made.changes.iter().map(DryRunChange::of).collect(),
        })
    }

    /// Finds out what an edit of a source would do. Changes nothing.
    ///
    /// # Errors
    /// As for [`Handle::edit`].
    pub async fn dry_run_edit(&self, edit: &SourceEdit) -> Result<EditDryRun, Error> {
        let (proposal, trial) = self.desk().await?.attempt(edit).await?;
        let sources = [(edit.source(), proposal.reading.revision.clone())].into();
        let incarnation = self.hypothetical(&trial.candidate, sources);
        Ok(EditDryRun {
            diff: proposal.diff,
            changes: trial
                .candidate
                .changes
                .iter()
                .map(DryRunChange::of)
                .collect(),
            plan: self.planned(incarnation).await?,
        })
    }

    /// Reads a source as it is now, for a program that wants to know values before it edits them.
    ///
    /// # Errors
    /// [`Error::UnknownSource`] if no source has this name, or [`Error::Refused`] if it cannot be read.
    pub async fn read_source(&self, source: &str) -> Result<Reading, Error> {
        let (pipeline, runtime) = (&self.shared.pipeline, &self.shared.runtime);
        let mut sources = pipeline.sources().iter();
        let found = sources.find(|it| *it.name().0 == *source);
        let found = found.ok_or_else(|| Error::UnknownSource(source.into()))?;
        let reading = pipeline.read(runtime, found).await;
        reading.map_err(Error::Refused)
    }

    /// The fields that programs hold: no other program may set them. A field that was set by hand since is marked, and is
    /// not held any more.
    ///
    /// # Errors
    /// If this process does not own the partition, or the store cannot be read.
    pub async fn held_fields(&self) -> Result<Vec<HeldField>, Error> {
        let ledger = self.desk().await?.ledger().await?;
        Ok(ledger.fields().cloned().collect())
    }

    /// Gives up all fields of a holder, so that other programs may set them. Returns those that it held.
    ///
    /// # Errors
    /// If this process does not own the partition, or the store fails.
    pub async fn release_fields(&self, holder: &Holder) -> Result<Vec<HeldField>, Error> {
        Ok(self.desk().await?.release(holder).await?)
    }

    /// Waits until a field of `holder` was set by hand, or by a program that does not ask the ledger, and returns all such
    /// fields. `known` are those that the caller knows already.
    ///
    /// # Errors
    /// If this process does not own the partition, or loses it.
    pub async fn overwritten_fields(
        &self,
        holder: &Holder,
        known: &BTreeSet<String>,
    ) -> Result<Vec<HeldField>, Error> {
        let desk = self.desk().await?;
        desk.ledger().await?;
        match desk.overwritten(holder, known).await {
            Some(fields) => Ok(fields),
            None => Err(self.not_owner().await?),
        }
    }

    pub(crate) async fn desk(&self) -> Result<Arc<Desk<R>>, Error> {
        let desk = self.shared.desk.borrow().clone();
        match desk {
            Some(desk) => Ok(desk),
            None => Err(self.not_owner().await?),
        }
    }
}
