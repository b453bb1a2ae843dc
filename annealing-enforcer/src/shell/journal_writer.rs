//! Makes the kernel's records durable: one batch is in flight, and entries that arrive meanwhile fill the next one.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use control_plane_runtime::Runtime;
use control_plane_store::{
    Store, Write,
    journal::{Journal, Outcome, Ticket},
    owner,
    record::{self, Record as _},
    records::{AssetRecord, Decisions, Floor, GroupHead, Orphaned, Taken},
};
use futures::{FutureExt, StreamExt, channel::mpsc::UnboundedReceiver};
use plugin_sdk::{FencingToken, Pin, with_causes};
use prodspec_model::{AssetId, PartitionId};

use super::{
    input::{Input, Reply, Retiring},
    owned_sender::OwnedSender,
    references::References,
    supervised,
};
use crate::kernel::{Event, Record};

/// The wait before a batch is submitted again.
const RESUBMIT: Duration = Duration::from_millis(200);
/// Maximum number of batches written before one more page of decisions is read for the requests that wait for that.
const PATIENCE: u32 = 16;
/// Number of assets whose decisions are kept in memory.
const AT_HAND: usize = 4096;

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
    pub(crate) runtime: R,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) partition: PartitionId,
    pub(crate) events: OwnedSender,
    pub(crate) entries: UnboundedReceiver<Vec<Entry>>,
    pub(crate) journal: Journal,
    pub(crate) decisions: BTreeMap<AssetId, Decisions>,
    /// Assets whose decisions cannot be read: their records are not written again.
    unreadable: BTreeSet<AssetId>,
    /// Whether it was logged that a newer version wrote some decisions.
    told_unread: bool,
    referenced: References,
    /// Requests that wait until it is known which incarnations decisions refer to.
    retiring: Vec<Retiring>,
    /// Number of batches written since the last page of decisions was read.
    written: u32,
}

impl<R: Runtime> JournalWriter<R> {
    pub(crate) fn new(
        runtime: R,
        store: Arc<dyn Store>,
        partition: PartitionId,
        token: FencingToken,
        events: OwnedSender,
        entries: UnboundedReceiver<Vec<Entry>>,
    ) -> Self {
        let journal = Journal::new(owner::key(&partition), token);
        let referenced = References::new(&partition);
        Self {
            runtime,
            store,
            partition,
            events,
            entries,
            journal,
            decisions: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            told_unread: false,
            referenced,
            retiring: Vec::new(),
            written: 0,
        }
    }

    /// Writes until the enforcer ends or the journal stops.
    pub(crate) async fn run(self) {
        let events = self.events.clone();
        // Without a journal writer no push would start any more: the enforcer has to end with the reason.
        if let Err(panic) = AssertUnwindSafe(self.write()).catch_unwind().await {
            let why = format!(
                "the task that writes to it panicked: {}",
                supervised::panic_message(&*panic)
            );
            let _ = events.send(Input::Stopped(why));
        }
    }

    async fn write(mut self) {
        let mut kernel_records = 0;
        let mut waiting: Vec<Waiting> = Vec::new();
        while let Some(steps) = self.next_steps().await {
            if let Err(error) = self.load_decisions(&steps).await {
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
                    Outcome::Durable(upto) => self.durable(&mut waiting, upto),
                    Outcome::Resubmit(error) => {
                        tracing::warn!(%error, "failed to write a batch to the store; submitting it again");
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
        let read = self.referenced.read_on(&*self.store, &self.decisions).await;
        match read {
            Err(error @ control_plane_store::Error::Unavailable { .. }) => {
                tracing::warn!(%error, "decisions cannot be read; trying again");
                return self.runtime.sleep(RESUBMIT).await;
            }
            Ok(ref assets) => {
                let _ = self.events.send(Input::Decided(assets.clone()));
                if !self.referenced.is_complete() {
                    return;
                }
            }
            Err(ref error) => {
                tracing::warn!(%error, "cannot determine which incarnations are referenced; keeping all");
            }
        }
        for Retiring { mut old, reply } in std::mem::take(&mut self.retiring) {
            let retained = match read {
                Ok(_) => self.referenced.among(&old),
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

    fn writes(&mut self, entries: Vec<Entry>) -> Result<Vec<Write>, control_plane_store::Error> {
        let mut writes = Vec::with_capacity(entries.len());
        let mut decided = BTreeSet::new();
        for entry in entries {
            let record = match entry {
                Entry::Write(write) => {
                    writes.push(write);
                    continue;
                }
                Entry::Answer(_) | Entry::Retire(_) => continue,
                Entry::Forget(asset) => Record::Gone(asset),
                Entry::Kernel(record) => record,
            };
            match record {
                Record::Asset(asset, state) => {
                    writes.push(self.put_or_delete::<AssetRecord>(&asset, state.as_ref())?)
                }
                Record::Orphan(asset, state) => {
                    writes.push(self.put_or_delete::<Orphaned>(&asset, state.as_ref())?)
                }
                Record::Pin(asset, pin) => {
                    let kept = Some(&pin).filter(|pin| **pin != Pin::Default);
                    writes.push(self.put_or_delete(&asset, kept)?)
                }
                Record::Head(policy, incarnation) => {
                    writes.push(self.put(policy.as_str(), &GroupHead { incarnation })?)
                }
                Record::Taken(incarnation) => writes.push(self.put("", &Taken { incarnation })?),
                Record::Owned(owned) => writes.push(self.put("", &owned)?),
                Record::Floor(incarnation) => writes.push(self.put("", &Floor { incarnation })?),
                Record::Pause(word) => writes.push(self.put(&word.scope.to_string(), &word)?),
                Record::Approval(word) => writes.push(self.put(&word.name(), &word)?),
                Record::Override(word) => writes.push(self.put(&word.name(), &word)?),
                Record::Decision(asset, _) if self.unreadable.contains(&asset) => {}
                Record::Decision(asset, decision) => {
                    let kept = self.decisions.entry(asset.clone()).or_default();
                    self.referenced
                        .change(&asset, kept, |kept| kept.push(decision));
                    decided.insert(asset);
                }
                Record::Gone(asset) => {
                    self.unreadable.remove(&asset);
                    let kept = self.decisions.entry(asset.clone()).or_default();
                    self.referenced
                        .change(&asset, kept, |kept| *kept = Decisions::default());
                    decided.insert(asset);
                }
            }
        }
        for asset in decided {
            let kept = self.decisions.get(&asset);
            let kept = kept.filter(|decisions| !decisions.is_empty());
            writes.push(self.put_or_delete(&asset, kept)?);
        }
        Ok(writes)
    }

    fn put<T: record::Record>(
        &self,
        name: &str,
        state: &T,
    ) -> Result<Write, control_plane_store::Error> {
        record::put(&self.partition, name, state)
    }

    fn put_or_delete<T: record::Record>(
        &self,
        asset: &AssetId,
        state: Option<&T>,
    ) -> Result<Write, control_plane_store::Error> {
        match state {
            Some(state) => record::put(&self.partition, asset.as_str(), state),
            None => Ok(record::delete::<T>(&self.partition, asset.as_str())),
        }
    }

    /// Logs once in an ownership that a newer version wrote some decisions of `asset`.
    fn tell_unread(&mut self, asset: &AssetId, known: &Decisions) {
        let unread = known.unread();
        if unread > 0 && !std::mem::replace(&mut self.told_unread, true) {
            tracing::warn!(%asset, unread, "a newer version wrote decisions that this version cannot read; keeping them unchanged");
        }
    }

    /// Reads the decisions of the assets that `steps` add decisions to: all decisions of an asset are one record.
    async fn load_decisions(
        &mut self,
        steps: &[Vec<Entry>],
    ) -> Result<(), control_plane_store::Error> {
        // Decisions in memory are newer than those that `referenced` has yet to read: these are kept.
        if self.decisions.len() > AT_HAND {
            match self.retiring.is_empty() {
                true => self.decisions.clear(),
                false => self.referenced.keep_unread(&mut self.decisions),
            }
        }
        let decided = steps.iter().flatten().filter_map(|entry| match entry {
            Entry::Kernel(Record::Decision(asset, _) | Record::Gone(asset))
            | Entry::Forget(asset) => Some(asset),
            _ => None,
        });
        let missing: BTreeSet<_> = decided
            .filter(|asset| !self.decisions.contains_key(*asset))
            .filter(|asset| !self.unreadable.contains(*asset))
            .cloned()
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let key = |asset: &AssetId| record::key(&self.partition, Decisions::KIND, asset.as_str());
        let keys: Vec<_> = missing.iter().map(key).collect();
        let rows = loop {
            match self.store.get(&keys).await {
                Err(error @ control_plane_store::Error::Unavailable { .. }) => {
                    tracing::warn!(%error, "decisions cannot be read; trying again");
                    self.runtime.sleep(RESUBMIT).await;
                }
                rows => break rows?,
            }
        };
        for ((asset, key), row) in missing.into_iter().zip(&keys).zip(rows) {
            let known = row.map(|row| record::decode::<Decisions>(key, &row));
            match known.transpose() {
                Ok(known) => {
                    let known = known.map(|stored| stored.value).unwrap_or_default();
                    self.tell_unread(&asset, &known);
                    self.decisions.insert(asset, known);
                }
                Err(error) => {
                    tracing::warn!(%asset, %error, "cannot read the decisions of the asset; leaving them unchanged and recording no new ones");
                    self.unreadable.insert(asset);
                }
            }
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use control_plane_runtime::TokioRuntime;
    use control_plane_store::{
        Batch, MemoryStore, limit,
        memory::Point,
        records::{Decision, Trigger},
    };
    use futures::channel::{mpsc, oneshot};
    use plugin_sdk::{Cause, testing};
    use prodspec_model::IncarnationNo;
    use tokio::task::JoinHandle;

    use super::*;

    /// Starts the journal writer of a new owner; returns its task and the inputs that it sends.
    async fn journal_writer(
        store: &MemoryStore,
        taken: mpsc::UnboundedReceiver<Vec<Entry>>,
    ) -> (JoinHandle<()>, mpsc::UnboundedReceiver<Input>) {
        let partition: PartitionId = "test".parse().unwrap();
        let owner = Batch::new().put(owner::key(&partition), "me");
        let token = FencingToken(store.commit(owner).await.unwrap().0);
        let (inputs, said) = mpsc::unbounded();
        let inside = OwnedSender::new(token, inputs);
        let (runtime, store) = (TokioRuntime::current(), Arc::new(store.clone()));
        let journal_writer = JournalWriter::new(runtime, store, partition, token, inside, taken);
        (tokio::spawn(journal_writer.run()), said)
    }

    /// Writes `steps`; all of them are in the queue before the journal writer starts.
    async fn written(store: &MemoryStore, steps: Vec<Vec<Entry>>) {
        let (entries, taken) = mpsc::unbounded();
        for step in steps {
            entries.unbounded_send(step).unwrap();
        }
        drop(entries);
        let (running, _said) = journal_writer(store, taken).await;
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn writes_of_one_step_are_durable_in_one_commit() {
        let store = MemoryStore::new();
        let names = [["a1", "a2", "a3"], ["b1", "b2", "b3"]];
        let large =
            |name: &str| Entry::Write(Write::Put(name.into(), vec![0; limit::BATCH / 6].into()));
        let steps = names
            .iter()
            .map(|step| step.iter().map(|name| large(name)).collect());
        written(&store, steps.collect()).await;
        for step in names {
            let rows = store.get(&step.map(Into::into)).await.unwrap();
            let versions = rows.iter().map(|row| row.as_ref().unwrap().version);
            let commits: BTreeSet<_> = versions.collect();
            assert_eq!(commits.len(), 1, "{step:?} in more than one commit");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn decisions_of_many_assets_are_read_in_one_call() {
        let (store, reads) = (MemoryStore::new(), Arc::new(AtomicU64::new(0)));
        let counted = reads.clone();
        store.set_pause(move |point| {
            let read = matches!(point, Point::BeforeRead);
            counted.fetch_add(read.into(), Ordering::Relaxed);
            Box::pin(async {})
        });
        let decided = |n: u32| vec![Entry::Kernel(Record::Decision(asset(n), decision(1)))];
        written(&store, (0..100).map(decided).collect()).await;
        assert_eq!(reads.load(Ordering::Relaxed), 1);
        let partition = "test".parse().unwrap();
        let all = record::load_all::<Decisions>(&store, &partition).await;
        assert!(
            all.unwrap()
                .iter()
                .all(|(_, kept)| kept.value.read().count() == 1)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn r5_decisions_of_a_removed_asset_are_removed_and_spare_no_incarnation() {
        let store = MemoryStore::new();
        let (entries, taken) = mpsc::unbounded();
        let (_running, _said) = journal_writer(&store, taken).await;
        decide(&entries, 1, 3);
        decide(&entries, 2, 4);
        assert_eq!(free(&entries).await, &numbers(1..=10) - &numbers([3, 4]));
        let gone = Entry::Kernel(Record::Gone(asset(1)));
        entries.unbounded_send(vec![gone]).unwrap();
        assert_eq!(free(&entries).await, &numbers(1..=10) - &numbers([4]));
        let partition = "test".parse().unwrap();
        let kept = record::load_all::<Decisions>(&store, &partition).await;
        assert_eq!(kept.unwrap().len(), 1);
    }

    fn decision(no: u32) -> Decision {
        Decision {
            at: testing::NOW,
            trigger: Trigger::Asked,
            cause: Cause::Intent,
            incarnation: IncarnationNo(no),
            token: FencingToken(1),
            change: None,
            summary: "change it".into(),
            outcome: control_plane_store::records::Outcome::Pushed,
            allowed_by: Vec::new(),
        }
    }

    fn asset(n: u32) -> AssetId {
        AssetId::new(&format!("a{n:04}")).unwrap()
    }

    fn numbers(of: impl IntoIterator<Item = u32>) -> BTreeSet<IncarnationNo> {
        of.into_iter().map(IncarnationNo).collect()
    }

    /// Sends a decision on asset `n` at incarnation `no` to the journal writer.
    fn decide(entries: &mpsc::UnboundedSender<Vec<Entry>>, n: u32, no: u32) {
        let record = Record::Decision(asset(n), decision(no));
        entries.unbounded_send(vec![Entry::Kernel(record)]).unwrap();
    }

    /// Asks which of the first ten incarnations may be removed.
    async fn free(entries: &mpsc::UnboundedSender<Vec<Entry>>) -> BTreeSet<IncarnationNo> {
        let (reply, answer) = oneshot::channel();
        let old = numbers(1..=10);
        let asked = Entry::Retire(Retiring { old, reply });
        entries.unbounded_send(vec![asked]).unwrap();
        answer.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn r5_incarnations_in_kept_decisions_are_spared_and_decisions_are_read_once() {
        let (store, reads) = (MemoryStore::new(), Arc::new(AtomicU64::new(0)));
        let partition: PartitionId = "test".parse().unwrap();
        let mut batch = Batch::new();
        for n in 0..2_500 {
            let kept = Decisions::from_iter([decision(1 + n % 4)]);
            batch = batch.write(record::put(&partition, asset(n).as_str(), &kept).unwrap());
        }
        store.commit(batch).await.unwrap();
        let counted = reads.clone();
        store.set_pause(move |point| {
            counted.fetch_add(matches!(point, Point::BeforeRead).into(), Ordering::Relaxed);
            Box::pin(async {})
        });
        let (entries, taken) = mpsc::unbounded();
        let (running, mut said) = journal_writer(&store, taken).await;

        decide(&entries, 0, 7);
        decide(&entries, 9_999, 8);
        assert_eq!(free(&entries).await, numbers([5, 6, 9, 10]));
        let of = |input: Input| match input {
            Input::Of(_, inner) => match *inner {
                Input::Retained(retained) => Some(retained),
                _ => None,
            },
            _ => None,
        };
        let mut retained = None;
        while retained.is_none() {
            retained = of(said.next().await.unwrap());
        }
        assert_eq!(retained, Some(numbers([1, 2, 3, 4, 7, 8])));
        // Newer decisions displace the older ones that refer to incarnations 3 and 8; no asset refers to those any
        // more.
        for _ in 0..Decisions::KEPT {
            decide(&entries, 9_999, 20);
        }
        for n in (2..2_500).step_by(4) {
            (0..Decisions::KEPT).for_each(|_| decide(&entries, n, 20));
        }
        let before = reads.load(Ordering::Relaxed);
        assert_eq!(free(&entries).await, numbers([3, 5, 6, 8, 9, 10]));
        let read = reads.load(Ordering::Relaxed) - before;
        assert!(
            read <= 2,
            "{read} reads: expected only those for the written assets"
        );
        drop(entries);
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn r5_removable_incarnations_are_answered_under_constant_writes() {
        const MANY: u64 = 1_000;
        let (store, written) = (MemoryStore::new(), Arc::new(AtomicU64::new(0)));
        let (entries, taken) = mpsc::unbounded();
        let (more, counted) = (entries.clone(), written.clone());
        let (running, _said) = journal_writer(&store, taken).await;
        store.set_pause(move |point| {
            if matches!(point, Point::BeforeWrite) && counted.fetch_add(1, Ordering::Relaxed) < MANY
            {
                decide(&more, 1, 20);
            }
            Box::pin(tokio::task::yield_now())
        });
        decide(&entries, 0, 7);
        let retained = numbers((1..=10).filter(|no| *no != 7));
        assert_eq!(free(&entries).await, retained);
        assert!(
            written.load(Ordering::Relaxed) < MANY,
            "the answer came only after the last write"
        );
        running.abort();
    }
}
