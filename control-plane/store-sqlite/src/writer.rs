//! The one thread that writes: whatever waits is committed together and shares one write to the medium.
//!
//! A group is acknowledged once it is durable in SQLite's log and recorded outside of it (see `acked`), both at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, mpsc},
};

use futures::channel::oneshot;
use plane_store::{Batch, BatchId, Cause, CommitError, Version, Watchers, limit};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{
    acked::{self, Record, Recorder, State},
    database::{self, Damage},
    directory::Identity,
    error::{Failure, commit_error},
    redo,
};

/// How many commits may share one write to the medium, and how many bytes.
const GROUP: usize = 1024;
const GROUP_BYTES: usize = 4 * limit::BATCH;

/// A batch, and where its answer goes.
pub(crate) struct Job {
    pub(crate) batch: Batch,
    pub(crate) answer: oneshot::Sender<Result<Version, CommitError>>,
}

/// Set for good once writing to the medium failed.
pub(crate) type Poison = Arc<OnceLock<Cause>>;

pub(crate) struct Writer {
    connection: Connection,
    poison: Poison,
    watchers: Arc<Mutex<Watchers>>,
    recorder: Recorder,
    files: Identity,
    state: State,
    remembered: BTreeMap<BatchId, Version>,
    by_version: BTreeMap<Version, BatchId>,
}

impl Writer {
    pub(crate) fn new(
        (connection, recorder, files): (Connection, Recorder, Identity),
        poison: Poison,
        watchers: Arc<Mutex<Watchers>>,
    ) -> Result<Self, Damage> {
        let mut writer = Self {
            connection,
            poison,
            watchers,
            recorder,
            files,
            state: State::default(),
            remembered: BTreeMap::new(),
            by_version: BTreeMap::new(),
        };
        writer.recall()?;
        Ok(writer)
    }

    /// Works until every sender of `jobs` is gone.
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

    /// Keeps the log short. A failure poisons the store: what a sync that failed left behind is not known, and a second
    /// one that succeeds does not say.
    fn checkpoint(&mut self) {
        if self.poison.get().is_some() {
            return;
        }
        if let Err(error) = database::checkpoint(&self.connection) {
            self.failed(commit_error(error.into()));
        }
    }

    /// Leaves the whole database in one file. After a failure nothing is written any more.
    fn close(&self) {
        if self.poison.get().is_some() {
            return;
        }
        if let Err(error) = database::fold(&self.connection) {
            tracing::error!(
                %error,
                "the store's log was not copied into its database; it is, or is refused, when the store is opened next"
            );
        }
    }

    /// Commits one batch here and now, before the thread starts.
    pub(crate) fn commit_alone(&mut self, batch: Batch) -> Result<Version, CommitError> {
        let (answer, mut answered) = oneshot::channel();
        self.commit(vec![Job { batch, answer }]);
        let answered = answered.try_recv().ok().flatten();
        answered.unwrap_or_else(|| Err(CommitError::unknown("no answer")))
    }

    /// Commits a group and answers each of its jobs. A refused batch refuses itself only; a failure is everybody's.
    fn commit(&mut self, group: Vec<Job>) {
        if let Some(cause) = self.poison.get() {
            let source = Cause::clone(cause);
            return refuse(group, &CommitError::Poisoned { source });
        }
        // Another process may have begun a new store at the same place: nothing more is acknowledged here.
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
                    // Whoever does not wait for the answer any more does not need it.
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
        let Self {
            connection,
            recorder,
            state,
            remembered,
            by_version,
            ..
        } = self;
        let before = *state;
        let mut redo = Some(Vec::new());
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
            redo = redo.filter(|redo| redo.len() + job.batch.bytes() <= acked::REDO / 2);
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
            redo: redo.filter(|redo| redo.len() <= acked::REDO),
        };
        finish(transaction, recorder, record)?;
        while by_version.len() as u64 > limit::REMEMBERED_BATCHES
            && let Some((_, oldest)) = by_version.pop_first()
        {
            remembered.remove(&oldest);
        }
        Ok(results)
    }

    /// After a failure: goes on from what is on the medium, or never again.
    fn failed(&mut self, error: CommitError) -> CommitError {
        let error = match error {
            CommitError::Unavailable { .. } => match self.recall().and_then(|()| self.retract()) {
                Ok(()) => error,
                Err(cause) => CommitError::poisoned(cause),
            },
            error => error,
        };
        if let CommitError::Poisoned { source } = &error {
            tracing::error!(error = %source, "writing to the store's medium failed: it stays closed");
            // Only this thread sets it.
            let _ = self.poison.set(Cause::clone(source));
        }
        error
    }

    /// What was refused must not be completed at the next opening: records the state without it.
    fn retract(&mut self) -> Result<(), Damage> {
        let written = self.recorder.write(Record::durable(self.state));
        written.map_err(Damage::Acked)
    }

    /// Reads from the medium which batches were committed.
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

/// Makes a group durable in the log and recorded outside of it, side by side if the record carries the group's writes:
/// then it does not matter which of the two a power cut leaves.
fn finish(
    transaction: Transaction<'_>,
    recorder: &Recorder,
    record: Record,
) -> Result<(), Failure> {
    if record.before == record.after {
        return Ok(transaction.commit()?);
    }
    if record.redo.is_none() {
        let after = record.after;
        transaction.commit()?;
        return Ok(recorder.write(Record::durable(after))?);
    }
    recorder.begin(record);
    let committed = transaction.commit();
    let recorded = recorder.end();
    committed?;
    Ok(recorded?)
}

#[cfg(test)]
mod tests;
