//! Tests of the journal writer: commits, the history of decisions, and the incarnations that decisions refer to.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use control_plane_runtime::TokioRuntime;
use control_plane_store::{
    Batch, MemoryStore, Store, Write, limit,
    memory::Point,
    owner,
    record::{self, Rewrites},
    records::{Decision, Decisions, Trigger},
};
use futures::{
    StreamExt,
    channel::{mpsc, oneshot},
};
use plugin_sdk::{Cause, FencingToken, testing};
use prodspec_model::{AssetId, IncarnationNo, PartitionId};
use tokio::task::JoinHandle;

use super::{Entry, JournalWriter};
use crate::{
    kernel::Record,
    shell::{
        input::{Input, Retiring},
        owned_sender::OwnedSender,
    },
};

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
    let journal_writer = JournalWriter::new(
        runtime,
        store,
        partition,
        token,
        Rewrites::default(),
        inside,
        taken,
    );
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
        if matches!(point, Point::BeforeWrite) && counted.fetch_add(1, Ordering::Relaxed) < MANY {
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
