//! The handle of a running regeneration.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use plugin_sdk::{AssetTypes, BoxError, FieldPath, Proposal, Reading, document::DocumentKey};
use prodspec_model::{AssetId, Revision, SourceName};
use tokio::sync::{mpsc, oneshot, watch};

use super::trial::{self, Trial, TrialError};
use crate::{
    overrides::{self, InForce, SealOverride},
    seal::Sealer,
    status::Status,
    trace::{EntryField, Trace},
};

/// A question about the memo, and where the answer goes.
pub(super) enum Question {
    /// Where does the asset come from?
    Trace(AssetId, oneshot::Sender<Option<Trace>>),
    /// Which value has a field of the entry that the asset was made from?
    Field(AssetId, FieldPath, oneshot::Sender<Option<EntryField>>),
    /// What would the sources make if one of them had other content?
    Trial(Box<trial::Question>),
}

/// Handle of a running regeneration: asks for runs and reads the status. Regeneration ends when the last handle is
/// dropped.
#[derive(Clone)]
pub struct Handle {
    pub(super) ask: mpsc::Sender<()>,
    pub(super) questions: mpsc::Sender<Question>,
    pub(super) status: watch::Receiver<Status>,
    pub(super) seals: Arc<dyn Sealer>,
    pub(super) types: Arc<AssetTypes>,
}

impl Handle {
    /// The present status of generation.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// A receiver that follows the status of generation.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Asks for a run at once, without waiting for quiet. Does not wait for the run.
    pub fn regenerate(&self) {
        // A full channel already contains a request.
        let _ = self.ask.try_send(());
    }

    /// Asks for a run, waits until a run that started after this call has ended, and returns the status. Returns at
    /// once if regeneration has ended.
    pub async fn next_run(&self) -> Status {
        let begun = self.begun();
        self.regenerate();
        let mut status = self.status.clone();
        match status.wait_for(|status| status.runs > begun).await {
            Ok(reached) => reached.clone(),
            Err(_) => self.status(),
        }
    }

    /// The number of runs that have begun since the start of regeneration. Every later one reads what is durable now.
    /// `u64::MAX` if regeneration has ended.
    pub fn begun(&self) -> u64 {
        if self.status.has_changed().is_err() {
            return u64::MAX;
        }
        let now = self.status.borrow();
        now.runs + u64::from(now.running)
    }

    /// Waits until the result of a run after the first `begun` ones is in force, and returns the status. A greater number
    /// than [`begun`](Self::begun) tells counts as that one. Asks for the run if it has not begun. `None`: regeneration has
    /// ended.
    pub async fn in_force_after(&self, begun: u64) -> Option<Status> {
        let begun = begun.min(self.begun());
        if begun == self.begun() {
            self.regenerate();
        }
        let mut status = self.status.clone();
        let reached = status.wait_for(|status| status.good > begun).await;
        reached.ok().map(|status| status.clone())
    }

    /// The declared asset types and addon types, with their JSON Schemas ([`AssetTypes::schemas`]).
    pub fn types(&self) -> &AssetTypes {
        &self.types
    }

    /// Finds where an asset comes from: its generators, and the field of a document with the line of today, as of the last
    /// good run. `None`: no generator made the asset then, there was no good run in this process yet, or regeneration has
    /// ended.
    pub async fn trace(&self, asset: &AssetId) -> Option<Trace> {
        let (answer, answered) = oneshot::channel();
        let question = Question::Trace(asset.clone(), answer);
        self.questions.send(question).await.ok()?;
        answered.await.ok().flatten()
    }

    /// Finds a field of the entry that an asset was made from, as of the last good run. `None`: no generator made the asset
    /// then, or it was made from no entry of a document; or regeneration has ended.
    pub async fn field(&self, asset: &AssetId, field: &FieldPath) -> Option<EntryField> {
        let (answer, answered) = oneshot::channel();
        let question = Question::Field(asset.clone(), field.clone(), answer);
        self.questions.send(question).await.ok()?;
        answered.await.ok().flatten()
    }

    /// Finds out what the sources would make now if the source named `source` had the content `reading`. Costs what a run
    /// for this change would cost. Nothing is sealed, and external validators are not asked.
    ///
    /// # Errors
    /// All problems that generators, validators and guards find, or why the trial could not be made: a source or the store
    /// failed, a generator did not end, or regeneration has ended.
    pub async fn try_reading(
        &self,
        source: SourceName,
        reading: Reading,
    ) -> Result<Trial, TrialError> {
        self.try_out(source, reading, None).await
    }

    /// As [`try_reading`](Self::try_reading), with the content after a change. If the proposal says which documents it
    /// changes, only these are looked at.
    ///
    /// # Errors
    /// As for [`try_reading`](Self::try_reading).
    pub async fn try_proposal(
        &self,
        source: SourceName,
        proposal: &Proposal,
    ) -> Result<Trial, TrialError> {
        let changed = proposal.changed.clone();
        let since = changed.map(|changed| (proposal.before.clone(), changed));
        self.try_out(source, proposal.reading.clone(), since).await
    }

    async fn try_out(
        &self,
        source: SourceName,
        reading: Reading,
        since: Option<(Revision, Vec<DocumentKey>)>,
    ) -> Result<Trial, TrialError> {
        let (answer, answered) = oneshot::channel();
        let question = trial::Question {
            source,
            reading,
            since,
            answer,
        };
        // If regeneration has ended, `answered` says so too.
        let _ = self
            .questions
            .send(Question::Trial(Box::new(question)))
            .await;
        let ended = "generation has ended in this process; ask the process that owns the partition";
        answered
            .await
            .unwrap_or_else(|_| Err(TrialError::failed(ended.to_owned())))
    }

    /// Lets one change or content that a guard or an external validator refused pass, once: records the override, then
    /// asks for a run. An override in force for the same refusal is replaced; together they let one seal pass.
    ///
    /// # Errors
    /// If the last run was not refused by this guard for this digest, with the refusals that an override would fit; if
    /// the override would have expired; or if it cannot be recorded, for instance because another process now owns the
    /// partition.
    pub async fn override_guard(&self, word: SealOverride) -> Result<(), overrides::Error> {
        let parent = {
            let status = self.status.borrow();
            overrides::check(&word, &status.refusals)?;
            status.incarnation.as_ref().map(|header| header.id.no)
        };
        let recorded = self.seals.allow(word, parent).await;
        recorded.map_err(overrides::Error::NotRecorded)?;
        self.regenerate();
        Ok(())
    }

    /// Reads the overrides that are in force at `now`.
    ///
    /// # Errors
    /// If the overrides cannot be read from their store.
    pub async fn overrides(&self, now: Timestamp) -> Result<InForce, BoxError> {
        self.seals.overrides(now).await
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}
