//! Makes the kernel's records durable: one batch is in flight, and entries that arrive meanwhile fill the next one.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use control_plane_runtime::{Outage, Runtime, catch_panic_in};
use control_plane_store::{
    Error, Store, Write,
    journal::{Journal, Outcome, Ticket},
    owner,
    record::Rewrites,
};
use futures::{FutureExt, StreamExt, channel::mpsc::UnboundedReceiver};
use plugin_sdk::{FencingToken, with_causes};
use prodspec_model::{AssetId, PartitionId};

use super::{decisions::History, records};
use crate::{
    kernel::{Event, Record},
    shell::{
        input::{Input, Reply, Retiring},
        owned_sender::OwnedSender,
    },
};

/// The wait before a batch is submitted again.
const RESUBMIT: Duration = Duration::from_millis(200);
/// Maximum number of batches written before one more page of decisions is read for the requests that wait for that.
const PATIENCE: u32 = 16;

/// One entry for the journal writer: a write, or a request that waits for the writes before it.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all entries are of the large kind"
)]
pub(crate) enum Entry {
    /// A record from the kernel.
    Kernel(Record),
    /// A write of the strategist, in one step with the pins that it moves.
    Write(Write),
    /// Delete the decisions of an asset that is gone.
    Forget(AssetId),
    /// Answered once everything handed over before it is durable.
    Answer(Reply),
    /// Answered once everything before it is durable, with the incarnations that no kept decision refers to.
    Retire(Retiring),
}

/// The replies that wait for one ticket of the journal.
struct Waiting {
    ticket: Ticket,
    /// Total number of the kernel's records that are durable with this ticket.
    kernel_records: u64,
    answers: Vec<Reply>,
    retiring: Vec<Retiring>,
}

/// Writes the journal of one ownership of a partition.
pub(crate) struct JournalWriter<R> {
    runtime: R,
    store: Arc<dyn Store>,
    partition: PartitionId,
    events: OwnedSender,
    entries: UnboundedReceiver<Vec<Entry>>,
    journal: Journal,
    rewrites: Rewrites,
    history: History,
    /// Requests that wait until it is known which incarnations decisions refer to.
    retiring: Vec<Retiring>,
    /// Number of batches written since the last page of decisions was read.
    written: u32,
    /// Outages of the writes, and of the reads of decisions.
    outage: Outage,
    reads: Outage,
}

impl<R: Runtime> JournalWriter<R> {
    pub(crate) fn new(
        runtime: R,
        store: Arc<dyn Store>,
        partition: PartitionId,
        token: FencingToken,
        rewrites: Rewrites,
        events: OwnedSender,
        entries: UnboundedReceiver<Vec<Entry>>,
    ) -> Self {
        let journal = Journal::new(owner::key(&partition), token);
        let history = History::new(&partition);
        Self {
            runtime,
            store,
            partition,
            events,
            entries,
            journal,
            rewrites,
            history,
            retiring: Vec::new(),
            written: 0,
            outage: Outage::default(),
            reads: Outage::default(),
        }
    }

    /// Writes until the enforcer ends or the journal stops.
    pub(crate) async fn run(self) {
        let events = self.events.clone();
        // Without a journal writer no push would start any more: the enforcer has to end with the reason.
        if let Err(panic) = catch_panic_in(self.write()).await {
            let why = format!("the task that writes to it panicked: {panic}");
            let _ = events.send(Input::Stopped(why));
        }
    }

    async fn write(mut self) {
        let mut kernel_records = 0;
        let mut waiting: Vec<Waiting> = Vec::new();
        while let Some(steps) = self.next_steps().await {
            if let Err(error) = self.read_history(&steps).await {
                return self.stop(with_causes(&error));
            }
            // The entries of one step of the kernel become durable together.
            for mut entries in steps {
                let (answers, retiring) = take_answers(&mut entries);
                let of_kernel = |entry: &&Entry| matches!(entry, Entry::Kernel(_));
                kernel_records += entries.iter().filter(of_kernel).count() as u64;
                let writes = match self.writes(entries) {
                    Ok(writes) => writes,
                    Err(error) => return self.stop(with_causes(&error)),
                };
                waiting.push(Waiting {
                    ticket: self.journal.record(writes),
                    kernel_records,
                    answers,
                    retiring,
                });
            }
            while !self.journal.is_idle() {
                let Some(batch) = self.journal.next_batch() else {
                    break;
                };
                let result = self.store.commit(batch).await;
                match self.journal.committed(result) {
                    Outcome::Durable(upto) => {
                        self.outage.over(self.runtime.now().mono, "the journal");
                        self.durable(&mut waiting, upto);
                    }
                    Outcome::Resubmit(error) => {
                        if self.outage.failed(self.runtime.now().mono) {
                            tracing::warn!(%error, "failed to write a batch to the store; submitting it again until it is written");
                        }
                        self.runtime.sleep(RESUBMIT).await;
                    }
                    Outcome::LostOwnership => {
                        let _ = self.events.send(Input::Lost);
                        return;
                    }
                    Outcome::Stopped(error) => return self.stop(with_causes(&error)),
                    _ => {
                        return self.stop(
                            "the journal gave an answer that this version does not know".into(),
                        );
                    }
                }
            }
            // Steps without writes are durable at once.
            if let Some(ticket) = waiting.last().map(|last| last.ticket) {
                self.durable(&mut waiting, ticket);
            }
        }
    }

    /// The steps to write next; `None` when the enforcer has ended. While there is none, reads decisions for the
    /// requests in `retiring`.
    async fn next_steps(&mut self) -> Option<Vec<Vec<Entry>>> {
        let first = loop {
            if self.retiring.is_empty() {
                break self.entries.next().await?;
            }
            if self.written < PATIENCE
                && let Some(first) = self.entries.next().now_or_never()
            {
                self.written += 1;
                break first?;
            }
            self.written = 0;
            self.retire().await;
        };
        let mut steps = vec![first];
        while let Ok(more) = self.entries.try_recv() {
            steps.push(more);
        }
        Some(steps)
    }

    /// Reads one more page of decisions; when all are read, answers which incarnations may be removed. To be called
    /// while everything written is durable.
    async fn retire(&mut self) {
        let read = self.history.read_on(&*self.store).await;
        match read {
            Err(error @ Error::Unavailable { .. }) => return self.cannot_read(&error).await,
            Ok(ref assets) => {
                self.reads
                    .over(self.runtime.now().mono, "reading decisions");
                let _ = self.events.send(Input::Decided(assets.clone()));
                if !self.history.is_counted() {
                    return;
                }
            }
            Err(ref error) => {
                tracing::warn!(%error, "cannot determine which incarnations are referenced; keeping all");
            }
        }
        for Retiring { mut old, reply } in std::mem::take(&mut self.retiring) {
            let retained = match read {
                Ok(_) => self.history.referenced(&old),
                Err(_) => old.clone(),
            };
            old.retain(|no| !retained.contains(no));
            let _ = self.events.send(Input::Retained(retained));
            // The caller may have gone: then nothing is removed.
            let _ = reply.send(old);
        }
    }

    /// Answers the requests whose ticket is `upto` or older, and tells the kernel how many records are durable.
    fn durable(&mut self, waiting: &mut Vec<Waiting>, upto: Ticket) {
        let (done, rest) = std::mem::take(waiting)
            .into_iter()
            .partition(|entry| entry.ticket <= upto);
        *waiting = rest;
        let done: Vec<Waiting> = done;
        let Some(last) = done.last() else { return };
        let durable = Event::Durable(last.kernel_records);
        // The callers may have gone, and the enforcer may have stopped.
        let _ = self.events.send(Input::Kernel(durable));
        for entry in done {
            self.retiring.extend(entry.retiring);
            for answer in entry.answers {
                let _ = answer.send(Ok(()));
            }
        }
    }

    fn stop(&self, why: String) {
        let _ = self.events.send(Input::Stopped(why));
    }

    /// The writes of one step of the kernel. All decisions about an asset are one write.
    fn writes(&mut self, entries: Vec<Entry>) -> Result<Vec<Write>, Error> {
        let mut writes = Vec::with_capacity(entries.len());
        let mut decided = BTreeSet::new();
        for entry in entries {
            match entry {
                Entry::Write(write) => writes.push(write),
                Entry::Answer(_) | Entry::Retire(_) => {}
                Entry::Kernel(Record::Decision(asset, decision)) => {
                    if self.history.add(&asset, decision) {
                        decided.insert(asset);
                    }
                }
                Entry::Kernel(Record::Renamed(from, to)) => {
                    if self.history.rename(&from, &to) {
                        decided.extend([from, to]);
                    }
                }
                Entry::Kernel(Record::Gone(asset)) | Entry::Forget(asset) => {
                    self.history.forget(&asset);
                    decided.insert(asset);
                }
                Entry::Kernel(record) => {
                    writes.extend(records::write(&self.partition, &self.rewrites, record)?);
                }
            }
        }
        for asset in decided {
            writes.push(self.history.write(&asset)?);
        }
        Ok(writes)
    }

    /// Waits before decisions are read again that cannot be read now.
    async fn cannot_read(&mut self, error: &Error) {
        if self.reads.failed(self.runtime.now().mono) {
            tracing::warn!(%error, "decisions cannot be read; trying again until they can");
        }
        self.runtime.sleep(RESUBMIT).await;
    }

    /// Reads the decisions of the assets that `steps` add decisions to: all decisions of an asset are one record.
    async fn read_history(&mut self, steps: &[Vec<Entry>]) -> Result<(), Error> {
        self.history.make_room(!self.retiring.is_empty());
        let decided = steps.iter().flatten().flat_map(decided_on);
        let missing = self.history.missing(decided);
        if missing.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = missing
            .iter()
            .map(|asset| self.history.key(asset))
            .collect();
        let rows = loop {
            match self.store.get(&keys).await {
                Err(error @ Error::Unavailable { .. }) => self.cannot_read(&error).await,
                rows => break rows?,
            }
        };
        self.reads
            .over(self.runtime.now().mono, "reading decisions");
        for (asset, row) in missing.into_iter().zip(rows) {
            self.history.take(asset, row);
        }
        Ok(())
    }
}

/// The assets whose decisions an entry changes.
fn decided_on(entry: &Entry) -> impl Iterator<Item = &AssetId> {
    let (one, other) = match entry {
        Entry::Kernel(Record::Decision(asset, _) | Record::Gone(asset)) | Entry::Forget(asset) => {
            (Some(asset), None)
        }
        Entry::Kernel(Record::Renamed(from, to)) => (Some(from), Some(to)),
        _ => (None, None),
    };
    one.into_iter().chain(other)
}

/// Takes the requests for an answer out of `entries`.
fn take_answers(entries: &mut Vec<Entry>) -> (Vec<Reply>, Vec<Retiring>) {
    let (mut answers, mut retiring) = (Vec::new(), Vec::new());
    for entry in std::mem::take(entries) {
        match entry {
            Entry::Answer(answer) => answers.push(answer),
            Entry::Retire(asked) => retiring.push(asked),
            Entry::Kernel(_) | Entry::Write(_) | Entry::Forget(_) => entries.push(entry),
        }
    }
    (answers, retiring)
}
