use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::{FutureExt, executor::block_on};
use prodspec_model::{Asset, AssetId, IncarnationId, TypeName};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    Batch, CommitError, KeyRange, MemoryStore, Versioned,
    memory::{Fault, Point},
};

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn partition() -> PartitionId {
    "shakespeare".parse().unwrap()
}

fn open(store: &MemoryStore) -> Incarnations<MemoryStore> {
    Incarnations::new(Arc::new(store.clone()), partition())
}

fn asset(at: u32, n: u32, bytes: usize) -> Asset {
    Asset::builder(AssetId::new(&format!("job/{at:04}")).unwrap())
        .payload_value(
            TypeName::new("test.v1.Job").unwrap(),
            &json!({"n": n, "pad": "x".repeat(bytes)}),
        )
        .unwrap()
        .build()
        .unwrap()
}

/// The successor of `before` with the assets `put`, sealed one minute later.
fn next(before: Option<&Incarnation>, put: Vec<Asset>) -> Incarnation {
    let parent = before.map(Incarnation::no);
    let no = parent.unwrap_or_default().next();
    let base = before.map(|before| before.snapshot().clone());
    let snapshot = base.unwrap_or_default().edit(no, put, &[]);
    let header = Header {
        id: IncarnationId::new(partition(), no),
        digest: snapshot.digest(),
        parent,
        sealed_at: START + Duration::from_secs(60 * u64::from(no.0)),
        sources: BTreeMap::new(),
        assets: snapshot.len() as u64,
    };
    Incarnation::new(header, snapshot)
}

/// Seals `count` incarnations. Each changes one of 200 assets.
fn history(store: &MemoryStore, count: u32) -> Vec<Incarnation> {
    let incarnations = open(store);
    let mut head = None;
    let mut all = vec![next(None, (0..200).map(|at| asset(at, 0, 50)).collect())];
    for n in 1..count {
        all.push(next(all.last(), vec![asset(n * 7 % 200, n, 50)]));
    }
    for one in &all {
        head = Some(block_on(incarnations.seal(one, head.as_ref(), Batch::new())).unwrap());
    }
    all
}

fn same(read: &Incarnation, sealed: &Incarnation) -> bool {
    read.header() == sealed.header()
        && read.snapshot().digest() == sealed.snapshot().digest()
        && read.snapshot().iter().eq(sealed.snapshot().iter())
}

fn rows(store: &MemoryStore) -> Vec<(crate::Key, Versioned)> {
    let page = block_on(store.scan(KeyRange::all(), usize::MAX)).unwrap();
    assert!(page.rest.is_none());
    page.rows
}

fn count(store: &MemoryStore, prefix: &str) -> usize {
    let rows = rows(store);
    rows.iter()
        .filter(|(key, _)| key.as_str().starts_with(prefix))
        .count()
}

#[test]
fn r5_every_incarnation_is_read_back_after_a_crash() {
    let store = MemoryStore::new();
    let all = history(&store, 150);
    let store = store.crash();
    let incarnations = open(&store);
    for sealed in &all {
        let read = block_on(incarnations.load(sealed.no())).unwrap();
        assert!(same(&read, sealed), "{}", sealed.id());
    }
    let latest = block_on(incarnations.latest()).unwrap().unwrap();
    assert!(same(&latest, &all[149]));
    let after = block_on(incarnations.head()).unwrap().unwrap();
    let one_more = next(Some(&latest), vec![asset(3, 9, 9)]);
    block_on(incarnations.seal(&one_more, Some(&after), Batch::new())).unwrap();
    assert!(same(
        &block_on(incarnations.latest()).unwrap().unwrap(),
        &one_more
    ));
}

/// Cuts the power at each point of sealing `new` after `old`; there must be at least `points` points. One of the two
/// must be completely in force afterwards.
fn crash_everywhere(old: &Incarnation, new: &Incarnation, points: usize) {
    for crash_at in 0.. {
        let store = MemoryStore::new();
        let head = block_on(open(&store).seal(old, None, Batch::new())).unwrap();
        let reached = Arc::new(AtomicUsize::new(0));
        let reopened = Arc::new(Mutex::new(None));
        let (on, seen, kept) = (store.clone(), reached.clone(), reopened.clone());
        store.set_pause(move |_: Point| {
            if seen.fetch_add(1, Ordering::Relaxed) == crash_at {
                *kept.lock().unwrap() = Some(on.crash());
            }
            futures::future::ready(()).boxed()
        });
        let sealed = block_on(open(&store).seal(new, Some(&head), Batch::new()));
        let Some(store) = reopened.lock().unwrap().take() else {
            assert!(sealed.is_ok() && crash_at >= points);
            return;
        };
        let incarnations = open(&store);
        let latest = block_on(incarnations.latest()).unwrap().unwrap();
        assert!(
            same(&latest, old) && sealed.is_err() || same(&latest, new),
            "crash at {crash_at}"
        );
        if same(&latest, old) {
            let other = next(Some(&latest), vec![asset(5, 5, 5)]);
            let head = block_on(incarnations.head()).unwrap();
            block_on(incarnations.seal(&other, head.as_ref(), Batch::new())).unwrap();
            let read = block_on(open(&store).latest()).unwrap().unwrap();
            assert!(same(&read, &other));
            assert_eq!(
                count(&store, "chunk/shakespeare/0000000002"),
                1,
                "pieces of the crashed seal are left"
            );
        }
    }
}

#[test]
fn r5_a_crash_leaves_the_old_incarnation_in_force_or_the_new_one() {
    let first = next(None, (0..50).map(|at| asset(at, 0, 50)).collect());
    crash_everywhere(&first, &next(Some(&first), vec![asset(1, 1, 1)]), 5);
}

#[test]
fn r5_a_crash_between_pieces_of_a_large_pack_leaves_the_old_incarnation_in_force() {
    let first = next(None, (0..50).map(|at| asset(at, 0, 50)).collect());
    let large = (0..60).map(|at| asset(at, 1, 140_000)).collect();
    crash_everywhere(&first, &next(Some(&first), large), 12);
}

#[test]
fn r5_flipped_and_torn_bytes_are_detected() {
    let store = MemoryStore::new();
    let all = history(&store, 3);
    for (key, row) in rows(&store) {
        let put =
            |bytes: Vec<u8>| block_on(store.commit(Batch::new().put(key.clone(), bytes))).unwrap();
        let step = (row.value.len() / 200).max(1);
        for at in (0..row.value.len()).step_by(step) {
            let mut flipped = row.value.to_vec();
            flipped[at] ^= 1 << (at % 7);
            for damaged in [flipped, row.value[..at].to_vec()] {
                put(damaged);
                let read = block_on(open(&store).latest());
                // The same record in different JSON spelling is not damage.
                let fine = matches!(&read, Ok(Some(read)) if same(read, &all[2]));
                assert!(read.is_err() || fine, "{key} at {at}");
            }
        }
        put(row.value.to_vec());
        block_on(store.commit(Batch::new().delete(key.clone()))).unwrap();
        let read = block_on(open(&store).latest());
        let needless = !key.as_str().starts_with("head")
            && matches!(&read, Ok(Some(read)) if same(read, &all[2]));
        let no_head = key.as_str().starts_with("head") && matches!(read, Ok(None));
        assert!(read.is_err() || needless || no_head, "{key}");
        put(row.value.to_vec());
    }
    let pack = "chunk/shakespeare/0000000001/00000";
    block_on(store.commit(Batch::new().put(pack, "torn"))).unwrap();
    let error = block_on(open(&store).latest()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pack 1 of shakespeare is damaged; restore it from a backup, or remove it"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn r5_retention_keeps_the_latest_pinned_young_and_newest_incarnations(
        sealed in 1..100u32,
        count in 0..20usize,
        minutes in 0..40u64,
        pinned in prop::collection::btree_set(1..100u32, 0..5),
    ) {
        let store = MemoryStore::new();
        let all = history(&store, sealed);
        let incarnations = open(&store);
        let pinned: BTreeSet<IncarnationNo> = pinned.into_iter().map(IncarnationNo).collect();
        let keep = Keep { after: IncarnationNo(u32::MAX), count, age: Duration::from_secs(60 * minutes), pinned: pinned.clone() };
        let now = all.last().unwrap().header().sealed_at;
        let removed = block_on(incarnations.retain(&keep, now, &Batch::new())).unwrap();
        let kept = |no: IncarnationNo| {
            no.0 == sealed || u64::from(sealed - no.0) <= minutes || ((sealed - no.0) as usize) < count || pinned.contains(&no)
        };
        let store = store.crash();
        for one in &all {
            let read = block_on(open(&store).load(one.no()));
            if kept(one.no()) {
                prop_assert!(same(&read.unwrap(), one));
            } else {
                prop_assert!(matches!(read, Err(Error::Unknown(_))));
            }
        }
        prop_assert_eq!(removed.incarnations.len(), all.iter().filter(|one| !kept(one.no())).count());
        let reached: BTreeSet<_> = all.iter().filter(|one| kept(one.no())).flat_map(|one| one.snapshot().root().packs().collect::<Vec<_>>()).collect();
        prop_assert_eq!(super::tests::count(&store, "pack/"), reached.len());
        prop_assert_eq!(super::tests::count(&store, "chunk/"), reached.len());
    }
}

#[test]
fn r5_removal_deletes_pieces_left_by_a_crash() {
    let store = MemoryStore::new();
    history(&store, 2);
    let left = "chunk/shakespeare/0000000003/00000";
    block_on(
        store.commit(
            Batch::new()
                .put(left, "left")
                .put("chunk/shakespeare-b/0000000003/00000", "theirs"),
        ),
    )
    .unwrap();
    let keep = Keep {
        after: IncarnationNo(u32::MAX),
        count: 9,
        age: Duration::ZERO,
        pinned: BTreeSet::new(),
    };
    block_on(open(&store).retain(&keep, START, &Batch::new())).unwrap();
    assert_eq!(count(&store, left), 0);
    assert_eq!(count(&store, "chunk/shakespeare-b/"), 1);
}

#[test]
fn r5_incarnations_sealed_after_the_pins_were_read_are_kept() {
    let store = MemoryStore::new();
    history(&store, 5);
    let keep = Keep {
        after: IncarnationNo(2),
        count: 1,
        age: Duration::ZERO,
        pinned: BTreeSet::new(),
    };
    let later = START + Duration::from_secs(3600);
    let removed = block_on(open(&store).retain(&keep, later, &Batch::new())).unwrap();
    assert_eq!(removed.incarnations, [1, 2].map(IncarnationNo));
}

#[test]
fn r5_removal_refuses_a_list_older_than_the_head() {
    let store = MemoryStore::new();
    let all = history(&store, 5);
    let keep = Keep {
        after: IncarnationNo(u32::MAX),
        count: 1,
        age: Duration::ZERO,
        pinned: BTreeSet::new(),
    };
    let reads = AtomicUsize::new(0);
    store.set_faults(move |op| {
        let second =
            matches!(op, crate::memory::Op::Read) && reads.fetch_add(1, Ordering::Relaxed) == 1;
        second.then_some(Fault::Stale(2))
    });
    let refused = block_on(open(&store).retain(&keep, START, &Batch::new()));
    assert!(matches!(refused, Err(Error::Younger { .. })));
    store.heal();
    assert!(same(
        &block_on(open(&store).latest()).unwrap().unwrap(),
        &all[4]
    ));
}

#[test]
fn a_store_older_than_a_known_incarnation_is_refused() {
    let store = MemoryStore::new();
    history(&store, 2);
    let incarnations = open(&store);
    incarnations.know(IncarnationNo(7));
    let known = IncarnationNo(7);
    let found = Some(IncarnationNo(2));
    let refused = block_on(incarnations.latest());
    assert!(
        matches!(refused, Err(Error::Younger { known: k, found: f }) if k == known && f == found)
    );
    let empty = open(&MemoryStore::new());
    empty.know(IncarnationNo(1));
    assert!(matches!(
        block_on(empty.head()),
        Err(Error::Younger { found: None, .. })
    ));
}

/// A store that delays its first answer: it returns what it read before other calls went on.
struct Late {
    store: MemoryStore,
    reads: AtomicUsize,
}

#[async_trait::async_trait]
impl Store for Late {
    async fn get(&self, keys: &[crate::Key]) -> Result<Vec<Option<Versioned>>, crate::Error> {
        let read = self.store.get(keys).await;
        if self.reads.fetch_add(1, Ordering::Relaxed) == 0 {
            futures::pending!();
        }
        read
    }

    async fn scan(&self, range: KeyRange, limit: usize) -> Result<crate::Page, crate::Error> {
        self.store.scan(range, limit).await
    }

    async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
        self.store.commit(batch).await
    }

    fn watch(&self, topic: Topic) -> futures::stream::BoxStream<'static, ()> {
        self.store.watch(topic)
    }
}

#[test]
fn s7_a_seal_during_a_head_read_is_not_reported_as_data_loss() {
    let store = MemoryStore::new();
    let first = history(&store, 1).remove(0);
    let head = block_on(open(&store).head()).unwrap();
    let late = Late {
        store,
        reads: AtomicUsize::new(0),
    };
    let incarnations = Incarnations::new(Arc::new(late), partition());
    let mut reading = Box::pin(incarnations.latest());
    assert!((&mut reading).now_or_never().is_none());
    let second = next(Some(&first), vec![asset(0, 1, 50)]);
    block_on(incarnations.seal(&second, head.as_ref(), Batch::new())).unwrap();
    assert!(same(&block_on(reading).unwrap().unwrap(), &first));
    assert!(same(
        &block_on(incarnations.latest()).unwrap().unwrap(),
        &second
    ));
}

#[test]
fn of_two_concurrent_seals_one_is_refused() {
    let store = MemoryStore::new();
    let first = history(&store, 1).remove(0);
    let (one, other) = (open(&store), open(&store));
    let head = block_on(one.head()).unwrap();
    let mine = next(Some(&first), vec![asset(1, 1, 1)]);
    let theirs = next(Some(&first), vec![asset(2, 1, 1)]);
    block_on(one.seal(&mine, head.as_ref(), Batch::new())).unwrap();
    let refused = block_on(other.seal(&theirs, head.as_ref(), Batch::new()));
    assert!(matches!(
        refused,
        Err(Error::Store(crate::Error::Commit(
            CommitError::Conflict { .. }
        )))
    ));
    assert!(same(&block_on(other.latest()).unwrap().unwrap(), &mine));
}

#[test]
fn pieces_touched_by_another_writer_are_never_put_in_force() {
    let store = MemoryStore::new();
    let first = history(&store, 1).remove(0);
    let incarnations = open(&store);
    let head = block_on(incarnations.head()).unwrap();
    let large = next(
        Some(&first),
        (0..20).map(|at| asset(at, 1, 140_000)).collect(),
    );
    let (other, writes) = (store.clone(), AtomicUsize::new(0));
    store.set_pause(move |point| {
        let third = point == Point::BeforeWrite && writes.fetch_add(1, Ordering::Relaxed) == 2;
        let other = other.clone();
        async move {
            if third {
                let batch = Batch::new()
                    .put("sealing/shakespeare", r#"{"after":1}"#)
                    .put("chunk/shakespeare/0000000002/00000", "theirs");
                other.commit(batch).await.unwrap();
            }
        }
        .boxed()
    });
    let refused = block_on(incarnations.seal(&large, head.as_ref(), Batch::new()));
    assert!(matches!(
        refused,
        Err(Error::Store(crate::Error::Commit(
            CommitError::Conflict { .. }
        )))
    ));
    assert!(same(
        &block_on(incarnations.latest()).unwrap().unwrap(),
        &first
    ));
}

#[test]
fn a_seal_of_unknown_outcome_is_submitted_again() {
    let store = MemoryStore::new();
    let first = history(&store, 1).remove(0);
    let head = block_on(open(&store).head()).unwrap();
    let second = next(Some(&first), vec![asset(1, 1, 1)]);
    store.inject(Fault::UnknownLost);
    store.inject(Fault::UnknownApplied);
    block_on(open(&store).seal(&second, head.as_ref(), Batch::new())).unwrap();
    assert!(same(
        &block_on(open(&store).latest()).unwrap().unwrap(),
        &second
    ));
}

#[test]
fn an_incarnation_not_built_from_the_head_is_refused() {
    let store = MemoryStore::new();
    let all = history(&store, 2);
    let incarnations = open(&store);
    let head = block_on(incarnations.head()).unwrap();
    let refused = |incarnation: &Incarnation, head: Option<&Head>| {
        let sealed = block_on(incarnations.seal(incarnation, head, Batch::new()));
        matches!(sealed, Err(Error::Misfit(_)))
    };
    assert!(refused(
        &next(Some(&all[0]), vec![asset(1, 1, 1)]),
        head.as_ref()
    ));
    let good = next(Some(&all[1]), vec![asset(1, 1, 1)]);
    assert!(refused(&good, None));
    let header = Header {
        assets: 7,
        ..good.header().clone()
    };
    assert!(refused(
        &Incarnation::new(header, good.snapshot().clone()),
        head.as_ref()
    ));
    let foreign = next(
        Some(&next(None, vec![asset(1, 8, 8)])),
        vec![asset(2, 2, 2)],
    );
    let foreign = next(Some(&foreign), vec![asset(3, 3, 3)]);
    assert!(refused(&foreign, head.as_ref()));
    assert!(!refused(&good, head.as_ref()));
}

#[test]
fn the_fence_of_the_caller_guards_every_commit() {
    let store = MemoryStore::new();
    let first = history(&store, 1).remove(0);
    let head = block_on(open(&store).head()).unwrap();
    let token = block_on(store.commit(Batch::new().put("owner/shakespeare", "me"))).unwrap();
    block_on(store.commit(Batch::new().put("owner/shakespeare", "other"))).unwrap();
    let before = rows(&store);
    for bytes in [5, 140_000] {
        let new = next(
            Some(&first),
            (0..20).map(|at| asset(at, 1, bytes)).collect(),
        );
        let with = Batch::new().expect_at("owner/shakespeare", token);
        assert!(block_on(open(&store).seal(&new, head.as_ref(), with.clone())).is_err());
        let keep = Keep {
            after: IncarnationNo(u32::MAX),
            count: 1,
            age: Duration::ZERO,
            pinned: BTreeSet::new(),
        };
        assert!(block_on(open(&store).retain(&keep, START, &with)).is_err());
    }
    assert_eq!(rows(&store), before);
}

#[test]
fn loading_the_next_incarnation_reads_only_its_own_pack() {
    let store = MemoryStore::new();
    let all = history(&store, 40);
    let incarnations = open(&store);
    block_on(incarnations.load(all[38].no())).unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = reads.clone();
    store.set_pause(move |point| {
        counted.fetch_add(usize::from(point == Point::BeforeRead), Ordering::Relaxed);
        futures::future::ready(()).boxed()
    });
    block_on(incarnations.load(all[39].no())).unwrap();
    assert_eq!(
        reads.load(Ordering::Relaxed),
        3,
        "the row of the incarnation, the row of its pack, the pack"
    );
}

#[test]
fn headers_are_listed_and_found_by_time() {
    let store = MemoryStore::new();
    let all = history(&store, 12);
    let incarnations = open(&store);
    let headers = block_on(incarnations.headers(IncarnationNo(3), 4)).unwrap();
    assert!(headers.iter().eq(all[2..6].iter().map(Incarnation::header)));
    assert_eq!(
        block_on(incarnations.headers(IncarnationNo(0), 99))
            .unwrap()
            .len(),
        12
    );
    let at = |seconds| block_on(incarnations.as_of(START + Duration::from_secs(seconds))).unwrap();
    assert_eq!(at(59), None);
    assert_eq!(at(60).as_ref(), Some(all[0].header()));
    assert_eq!(at(179).as_ref(), Some(all[1].header()));
    assert_eq!(at(9_999).as_ref(), Some(all[11].header()));
}
