//! Makes the kernel's records durable: one batch in flight, whatever comes meanwhile fills the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, channel::mpsc::UnboundedReceiver};
use plane_runtime::Runtime;
use plane_store::{
    Store, Write,
    journal::{Journal, Outcome, Ticket},
    owner,
    record::{self, Record as _},
    records::{AssetRecord, Decisions, Floor, GroupHead, Orphaned, PinRecord, Taken},
};
use plugin_sdk::{FencingToken, with_causes};
use prodspec_model::{AssetId, PartitionId};

use super::{
    Input, beside,
    cited::Cited,
    inside::Inside,
    retire::{Reply, Retiring},
};
use crate::kernel::{Event, Record};

/// How long to wait before a batch is submitted again.
const RESUBMIT: Duration = Duration::from_millis(200);
/// So many batches are written at most before those who wait for what decisions speak of come one page nearer to that.
const PATIENCE: u32 = 16;
/// How many assets' decisions are kept at hand.
const AT_HAND: usize = 4096;

/// Something to write.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all entries are of the large kind"
)]
pub(crate) enum Entry {
    /// A record of the kernel's.
    Kernel(Record),
    /// A write of whoever moves pins, in one step with the pins.
    Write(Write),
    /// Answered once everything handed over before it is durable.
    Answer(Reply),
    /// The same, with those of these incarnations that no kept decision speaks of.
    Retire(Retiring),
}

/// What becomes durable with one ticket of the journal.
struct Waiting {
    ticket: Ticket,
    /// How many of the kernel's records are durable then.
    kernel_records: u64,
    answers: Vec<Reply>,
    retiring: Vec<Retiring>,
}

/// The writer of one ownership of one partition.
pub(crate) struct Scribe<R> {
    pub(crate) runtime: R,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) partition: PartitionId,
    pub(crate) events: Inside,
    pub(crate) entries: UnboundedReceiver<Vec<Entry>>,
    pub(crate) journal: Journal,
    pub(crate) decisions: BTreeMap<AssetId, Decisions>,
    /// Assets whose decisions cannot be read: they are left as they are.
    unreadable: BTreeSet<AssetId>,
    /// That some are of a newer version is told.
    told_unread: bool,
    cited: Cited,
    /// Who waits until it is known which incarnations decisions speak of.
    retiring: Vec<Retiring>,
    /// How many batches were written since those last came a page nearer to that.
    written: u32,
}

impl<R: Runtime> Scribe<R> {
    pub(crate) fn new(
        runtime: R,
        store: Arc<dyn Store>,
        partition: PartitionId,
        token: FencingToken,
        events: Inside,
        entries: UnboundedReceiver<Vec<Entry>>,
    ) -> Self {
        let journal = Journal::new(owner::key(&partition), token);
        let cited = Cited::new(&partition);
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
            cited,
            retiring: Vec::new(),
            written: 0,
        }
    }

    /// Writes until the enforcer stops, or the journal does.
    pub(crate) async fn run(self) {
        let events = self.events.clone();
        // Without a writer nothing would be pushed any more, and nobody would know why.
        if let Err(panic) = AssertUnwindSafe(self.write()).catch_unwind().await {
            let why = format!("writing to it panicked: {}", beside::said(&*panic));
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
            // Each is one step of the journal: what belongs together becomes durable together.
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
                        tracing::warn!(%error, "the store did not take a batch; submitting it again");
                        self.runtime.sleep(RESUBMIT).await;
                    }
                    Outcome::LostOwnership => {
                        let _ = self.events.send(Input::Lost);
                        return;
                    }
                    Outcome::Stopped(error) => return self.stop(with_causes(&error)),
                    _ => return self.stop("the journal answered something unknown".into()),
                }
            }
            // There may have been nothing to write.
            if let Some(ticket) = waiting.last().map(|last| last.ticket) {
                self.durable(&mut waiting, ticket);
            }
        }
    }

    /// What is to be written next. Until then, reads on for those who wait for that.
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

    /// Answers which incarnations may be removed, or comes one page nearer to that. Everything written is durable.
    async fn retire(&mut self) {
        let read = self.cited.read_on(&*self.store, &self.decisions).await;
        match read {
            Err(error @ plane_store::Error::Unavailable { .. }) => {
                tracing::warn!(%error, "decisions cannot be read; trying again");
                return self.runtime.sleep(RESUBMIT).await;
            }
            Ok(()) if !self.cited.is_complete() => return,
            Ok(()) => {}
            Err(ref error) => {
                tracing::warn!(%error, "it is not known of which incarnations decisions speak");
            }
        }
        for Retiring { mut old, reply } in std::mem::take(&mut self.retiring) {
            let spared = match read {
                Ok(()) => self.cited.among(&old),
                Err(_) => old.clone(),
            };
            old.retain(|no| !spared.contains(no));
            let _ = self.events.send(Input::Spared(spared));
            // Whoever asked may have gone: then nothing is removed.
            let _ = reply.send(old);
        }
    }

    /// Tells everybody who waits for what is durable up to `upto`.
    fn durable(&mut self, waiting: &mut Vec<Waiting>, upto: Ticket) {
        let (done, rest) = std::mem::take(waiting)
            .into_iter()
            .partition(|entry| entry.ticket <= upto);
        *waiting = rest;
        let done: Vec<Waiting> = done;
        let Some(last) = done.last() else { return };
        let durable = Event::Durable(last.kernel_records);
        // Whoever asked may have gone, and the enforcer may have stopped: then nobody is told.
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

    fn writes(&mut self, entries: Vec<Entry>) -> Result<Vec<Write>, plane_store::Error> {
        let mut writes = Vec::with_capacity(entries.len());
        let mut decided = BTreeSet::new();
        for entry in entries {
            let entry = match entry {
                Entry::Write(write) => {
                    writes.push(write);
                    continue;
                }
                Entry::Answer(_) | Entry::Retire(_) => continue,
                Entry::Kernel(record) => record,
            };
            match entry {
                Record::Asset(asset, state) => {
                    writes.push(self.put_or_delete::<AssetRecord>(&asset, state.as_ref())?)
                }
                Record::Orphan(asset, state) => {
                    writes.push(self.put_or_delete::<Orphaned>(&asset, state.as_ref())?)
                }
                Record::Pin(asset, state) => {
                    writes.push(self.put_or_delete::<PinRecord>(&asset, state.as_ref())?)
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
                    self.cited.change(&asset, kept, |kept| kept.push(decision));
                    decided.insert(asset);
                }
                Record::Gone(asset) => {
                    let kept = self.decisions.entry(asset.clone()).or_default();
                    self.cited
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

    fn put<T: record::Record>(&self, name: &str, state: &T) -> Result<Write, plane_store::Error> {
        record::put(&self.partition, name, state)
    }

    fn put_or_delete<T: record::Record>(
        &self,
        asset: &AssetId,
        state: Option<&T>,
    ) -> Result<Write, plane_store::Error> {
        match state {
            Some(state) => record::put(&self.partition, asset.as_str(), state),
            None => Ok(record::delete::<T>(&self.partition, asset.as_str())),
        }
    }

    /// Once in an ownership: the same is read again and again.
    fn tell_unread(&mut self, asset: &AssetId, known: &Decisions) {
        let unread = known.unread();
        if unread > 0 && !std::mem::replace(&mut self.told_unread, true) {
            tracing::warn!(%asset, unread, "a newer version wrote decisions that this one cannot read; they are kept as they are");
        }
    }

    /// An asset's last decisions are one record: what is there already is read before it is added to.
    async fn load_decisions(&mut self, steps: &[Vec<Entry>]) -> Result<(), plane_store::Error> {
        // While others are read, these are newer.
        if self.decisions.len() > AT_HAND {
            match self.retiring.is_empty() {
                true => self.decisions.clear(),
                false => self.cited.keep_unread(&mut self.decisions),
            }
        }
        let decided = steps.iter().flatten().filter_map(|entry| match entry {
            Entry::Kernel(Record::Decision(asset, _) | Record::Gone(asset)) => Some(asset),
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
                Err(error @ plane_store::Error::Unavailable { .. }) => {
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
                    tracing::warn!(%asset, %error, "decisions cannot be read; they are left as they are, and no further ones are kept");
                    self.unreadable.insert(asset);
                }
            }
        }
        Ok(())
    }
}

/// Takes out who wants an answer.
fn take_answers(entries: &mut Vec<Entry>) -> (Vec<Reply>, Vec<Retiring>) {
    let (mut answers, mut retiring) = (Vec::new(), Vec::new());
    for entry in std::mem::take(entries) {
        match entry {
            Entry::Answer(answer) => answers.push(answer),
            Entry::Retire(asked) => retiring.push(asked),
            Entry::Kernel(_) | Entry::Write(_) => entries.push(entry),
        }
    }
    (answers, retiring)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::channel::{mpsc, oneshot};
    use plane_runtime::TokioRuntime;
    use plane_store::{
        Batch, MemoryStore, limit,
        memory::Point,
        records::{Decision, Trigger},
    };
    use plugin_sdk::{Cause, testing};
    use prodspec_model::IncarnationNo;
    use tokio::task::JoinHandle;

    use super::*;

    /// A scribe of a new owner, and what it says.
    async fn scribe(
        store: &MemoryStore,
        taken: mpsc::UnboundedReceiver<Vec<Entry>>,
    ) -> (JoinHandle<()>, mpsc::UnboundedReceiver<Input>) {
        let partition: PartitionId = "test".parse().unwrap();
        let owner = Batch::new().put(owner::key(&partition), "me");
        let token = FencingToken(store.commit(owner).await.unwrap().0);
        let (inputs, said) = mpsc::unbounded();
        let inside = Inside::new(token, inputs);
        let (runtime, store) = (TokioRuntime::current(), Arc::new(store.clone()));
        let scribe = Scribe::new(runtime, store, partition, token, inside, taken);
        (tokio::spawn(scribe.run()), said)
    }

    /// Writes `steps`, all of them handed over before the first is looked at.
    async fn written(store: &MemoryStore, steps: Vec<Vec<Entry>>) {
        let (entries, taken) = mpsc::unbounded();
        for step in steps {
            entries.unbounded_send(step).unwrap();
        }
        drop(entries);
        let (running, _said) = scribe(store, taken).await;
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_step_writes_is_durable_together_whatever_else_waits() {
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
    async fn decisions_of_many_assets_are_read_at_once() {
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
    async fn r5_decisions_about_what_is_gone_go_and_spare_no_incarnation() {
        let store = MemoryStore::new();
        let (entries, taken) = mpsc::unbounded();
        let (_running, _said) = scribe(&store, taken).await;
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
            outcome: plane_store::records::Outcome::Pushed,
            allowed_by: Vec::new(),
        }
    }

    fn asset(n: u32) -> AssetId {
        AssetId::new(&format!("a{n:04}")).unwrap()
    }

    fn numbers(of: impl IntoIterator<Item = u32>) -> BTreeSet<IncarnationNo> {
        of.into_iter().map(IncarnationNo).collect()
    }

    /// Hands over that asset `n` was decided on at incarnation `no`.
    fn decide(entries: &mpsc::UnboundedSender<Vec<Entry>>, n: u32, no: u32) {
        let record = Record::Decision(asset(n), decision(no));
        entries.unbounded_send(vec![Entry::Kernel(record)]).unwrap();
    }

    /// Which of the first ten incarnations may be removed.
    async fn free(entries: &mpsc::UnboundedSender<Vec<Entry>>) -> BTreeSet<IncarnationNo> {
        let (reply, answer) = oneshot::channel();
        let old = numbers(1..=10);
        let asked = Entry::Retire(Retiring { old, reply });
        entries.unbounded_send(vec![asked]).unwrap();
        answer.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn r5_what_kept_decisions_speak_of_is_spared_and_they_are_read_once() {
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
        let (running, mut said) = scribe(&store, taken).await;

        decide(&entries, 0, 7);
        decide(&entries, 9_999, 8);
        assert_eq!(free(&entries).await, numbers([5, 6, 9, 10]));
        let of = |input: Input| match input {
            Input::Of(_, inner) => match *inner {
                Input::Spared(spared) => Some(spared),
                _ => None,
            },
            _ => None,
        };
        let mut spared = None;
        while spared.is_none() {
            spared = of(said.next().await.unwrap());
        }
        assert_eq!(spared, Some(numbers([1, 2, 3, 4, 7, 8])));
        // Pushed out by newer ones; of the first four, each of its assets speaks of one.
        for _ in 0..Decisions::KEPT {
            decide(&entries, 9_999, 20);
        }
        for n in (2..2_500).step_by(4) {
            (0..Decisions::KEPT).for_each(|_| decide(&entries, n, 20));
        }
        let before = reads.load(Ordering::Relaxed);
        assert_eq!(free(&entries).await, numbers([3, 5, 6, 8, 9, 10]));
        let read = reads.load(Ordering::Relaxed) - before;
        assert!(read <= 2, "{read} reads for what is written, none to count");
        drop(entries);
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn r5_what_may_be_removed_is_told_though_there_is_always_more_to_write() {
        const MANY: u64 = 1_000;
        let (store, written) = (MemoryStore::new(), Arc::new(AtomicU64::new(0)));
        let (entries, taken) = mpsc::unbounded();
        let (more, counted) = (entries.clone(), written.clone());
        let (running, _said) = scribe(&store, taken).await;
        store.set_pause(move |point| {
            if matches!(point, Point::BeforeWrite) && counted.fetch_add(1, Ordering::Relaxed) < MANY
            {
                decide(&more, 1, 20);
            }
            Box::pin(tokio::task::yield_now())
        });
        decide(&entries, 0, 7);
        let spared = numbers((1..=10).filter(|no| *no != 7));
        assert_eq!(free(&entries).await, spared);
        assert!(
            written.load(Ordering::Relaxed) < MANY,
            "told in the end only"
        );
        running.abort();
    }
}
