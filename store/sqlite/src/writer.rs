//! The writer thread: it commits all waiting batches together, with one forced write to the medium.
//!
//! The record of a group (see `acked`) is forced to the medium first. Then SQLite commits the group, without forcing its
//! log, so readers see only what survives a power cut. Some groups are forced to the medium in the log instead, together
//! with all groups before them: those that are too large for a record, and one in each lap of the records, so that the
//! records that are overwritten next are no longer needed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc},
};

use control_plane_store::{Batch, BatchId, Cause, CommitError, Version, Watchers, limit};
use futures::channel::oneshot;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{
    acked::{self, Acked, Record, State},
    damage::Damage,
    database,
    directory::Identity,
    error::{Failure, commit_error},
    redo,
};

/// Maximum number of commits, and of their bytes, that share one write to the medium.
const GROUP: usize = 1024;
const GROUP_BYTES: usize = 4 * limit::BATCH;

/// A batch to commit, and the channel of its answer.
pub(crate) struct Job {
    pub(crate) batch: Batch,
    pub(crate) answer: oneshot::Sender<Result<Version, CommitError>>,
}

/// Set permanently once writing to the medium has failed.
pub(crate) type Poison = Arc<OnceLock<Cause>>;

pub(crate) struct Writer {
    connection: Connection,
    poison: Poison,
    watchers: Arc<Mutex<Watchers>>,
    acked: Acked,
    /// Whether the connection forces the log with each commit.
    forcing: bool,
    files: Identity,
    state: State,
    remembered: BTreeMap<BatchId, Version>,
    by_version: BTreeMap<Version, BatchId>,
}

impl Writer {
    pub(crate) fn new(
        (connection, acked, files): (Connection, Acked, Identity),
        poison: Poison,
        watchers: Arc<Mutex<Watchers>>,
    ) -> Result<Self, Damage> {
        let mut writer = Self {
            connection,
            poison,
            watchers,
            acked,
            forcing: false,
            files,
            state: State::default(),
            remembered: BTreeMap::new(),
            by_version: BTreeMap::new(),
        };
        writer.recall()?;
        Ok(writer)
    }

    /// Commits jobs until all senders of `jobs` are dropped, then closes the database.
    pub(crate) fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            let mut bytes = job.batch.bytes();
            let mut group = vec![job];
            while group.len() < GROUP && bytes < GROUP_BYTES {
                let Ok(job) = jobs.try_recv() else { break };
                bytes += job.batch.bytes();
                group.push(job);
            }
            self.commit(group);
            self.checkpoint();
        }
        self.close();
    }

    /// Keeps the log short. A failure poisons the store: after a failed sync the content of the medium is uncertain,
    /// and a later sync that succeeds does not change that.
    fn checkpoint(&mut self) {
        if self.poison.get().is_some() {
            return;
        }
        if let Err(error) = database::checkpoint(&self.connection) {
            self.failed(commit_error(error.into()));
        }
    }

    /// Copies the log, so that the whole database is in one file. Does nothing after a failure.
    fn close(&self) {
        if self.poison.get().is_some() {
            return;
        }
        if let Err(error) = database::fold(&self.connection) {
            tracing::error!(
                %error,
                "failed to copy the store's log into its database; the next opening copies or refuses it"
            );
        }
    }

    /// Commits one batch on the calling thread, before the writer thread starts.
    pub(crate) fn commit_alone(&mut self, batch: Batch) -> Result<Version, CommitError> {
        let (answer, mut answered) = oneshot::channel();
        self.commit(vec![Job { batch, answer }]);
        let answered = answered.try_recv().ok().flatten();
        answered.unwrap_or_else(|| Err(CommitError::unknown("no answer")))
    }

    /// Commits a group and answers each of its jobs. An expectation that does not hold refuses only its own batch; a
    /// failure refuses the whole group.
    fn commit(&mut self, group: Vec<Job>) {
        if let Some(cause) = self.poison.get() {
            let source = Cause::clone(cause);
            return refuse(group, &CommitError::Poisoned { source });
        }
        // If the files were replaced, another process may have created a new store there: acknowledge nothing more
        // here.
        if let Err(gone) = self.files.check() {
            let error = self.failed(CommitError::poisoned(Damage::Gone(gone)));
            return refuse(group, &error);
        }
        match self.transact(&group) {
            Ok(results) => {
                for (job, result) in group.into_iter().zip(results) {
                    if result.is_ok() {
                        self.announce(&job.batch);
                    }
                    // If the caller no longer waits, the answer is dropped.
                    let _ = job.answer.send(result);
                }
            }
            Err(error) => {
                let error = self.failed(commit_error(error));
                refuse(group, &error);
            }
        }
    }

    fn transact(&mut self, group: &[Job]) -> Result<Vec<Result<Version, CommitError>>, Failure> {
        let size: usize = group.iter().map(|job| redo::size(&job.batch)).sum();
        let large = size > acked::REDO;
        let forced = large || self.acked.is_full();
        if self.forcing != forced {
            // After an error the mode is not known, and a group that has to be forced sets it again.
            self.forcing = false;
            database::force_log(&self.connection, forced)?;
            self.forcing = forced;
        }
        let Self {
            connection,
            acked,
            state,
            remembered,
            by_version,
            ..
        } = self;
        let before = *state;
        let mut redo = (!large).then(Vec::new);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut results = Vec::with_capacity(group.len());
        for job in group {
            if let Some(first) = remembered.get(&job.batch.id) {
                results.push(Ok(*first));
                continue;
            }
            if let Some(conflict) = conflict(&transaction, &job.batch)? {
                results.push(Err(conflict));
                continue;
            }
            let Batch { id, writes, .. } = &job.batch;
            let version = job.batch.version_after(state.version);
            database::apply(&transaction, *id, version, writes, state)?;
            if let Some(redo) = &mut redo {
                redo::append(redo, &job.batch, state.version);
            }
            remembered.insert(job.batch.id, state.version);
            by_version.insert(state.version, job.batch.id);
            results.push(Ok(state.version));
        }
        let record = Record {
            before,
            after: *state,
            redo,
        };
        finish(transaction, acked, &record, forced)?;
        while by_version.len() as u64 > limit::REMEMBERED_BATCHES
            && let Some((_, oldest)) = by_version.pop_first()
        {
            remembered.remove(&oldest);
        }
        Ok(results)
    }

    /// Handles a failed group: continues from the state on the medium if that is certain, otherwise poisons the store.
    fn failed(&mut self, error: CommitError) -> CommitError {
        let error = match error {
            CommitError::Unavailable { .. } => match self.recall() {
                Ok(()) => error,
                Err(cause) => CommitError::poisoned(cause),
            },
            error => error,
        };
        if let CommitError::Poisoned { source } = &error {
            tracing::error!(error = %source, "writing to the store's medium failed; the store stays closed until it is opened again");
            // No other thread sets it, so this cannot fail.
            let _ = self.poison.set(Cause::clone(source));
        }
        error
    }

    /// Reads the committed batches from the medium.
    fn recall(&mut self) -> Result<(), Damage> {
        let batches = database::batches(&self.connection)?;
        self.state = batches.last().map_or(State::default(), |(_, state)| *state);
        let versions = batches.iter().map(|(id, state)| (*id, state.version));
        self.remembered = versions.clone().collect();
        self.by_version = versions.map(|(id, version)| (version, id)).collect();
        Ok(())
    }

    fn announce(&self, batch: &Batch) {
        if batch.announce.is_empty() {
            return;
        }
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        for topic in &batch.announce {
            watchers.announce(topic, || 1);
        }
    }
}

fn refuse(group: Vec<Job>, error: &CommitError) {
    for job in group {
        let _ = job.answer.send(Err(error.clone()));
    }
}

fn conflict(transaction: &Transaction<'_>, batch: &Batch) -> rusqlite::Result<Option<CommitError>> {
    for (key, expect) in &batch.expect {
        let found = database::version_of(transaction, key)?;
        if !expect.holds(found) {
            let key = key.clone();
            return Ok(Some(CommitError::Conflict { key, found }));
        }
    }
    Ok(None)
}

/// Makes a group durable, then visible to readers. A `forced` group is forced to the medium by its commit, and recorded
/// after that. The record of any other group comes first. If SQLite then refuses the group, its record is overwritten, so
/// that the next opening does not complete the group.
fn finish(
    transaction: Transaction<'_>,
    acked: &mut Acked,
    record: &Record,
    forced: bool,
) -> Result<(), Failure> {
    if record.before == record.after {
        return Ok(transaction.commit()?);
    }
    if forced {
        transaction.commit()?;
        return Ok(acked.write(record, forced)?);
    }
    acked.write(record, forced)?;
    if let Err(error) = transaction.commit() {
        acked.retract(record.before)?;
        return Err(error.into());
    }
    Ok(())
}

#[cfg(test)]
mod cuts;
#[cfg(test)]
mod plane;
#[cfg(test)]
mod tests;
