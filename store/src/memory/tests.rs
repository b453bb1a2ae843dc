//! The memory store keeps the guarantees of every store, and breaks exactly those that a fault breaks.

use std::sync::Mutex;

use futures::{FutureExt, executor::block_on};

use super::*;
use crate::conformance::{self, Factory};

struct Memory;

#[async_trait]
impl Factory for Memory {
    type Store = MemoryStore;

    async fn create(&self) -> MemoryStore {
        MemoryStore::new()
    }

    async fn reopen(&self, store: MemoryStore) -> MemoryStore {
        store.crash()
    }
}

#[test]
fn conforms() {
    block_on(conformance::run(&Memory));
}

fn put(key: &str, value: &str) -> Batch {
    Batch::new().put(key, value.to_owned())
}

fn value(store: &MemoryStore, key: &str) -> Option<String> {
    let row = block_on(store.get(&[key.into()])).unwrap().pop().flatten();
    row.map(|row| String::from_utf8(row.value.to_vec()).unwrap())
}

#[test]
fn r5_a_crash_between_write_and_sync_loses_only_that_commit() {
    let store = MemoryStore::new();
    block_on(store.commit(put("a", "1"))).unwrap();
    let crashed: Arc<Mutex<Option<MemoryStore>>> = Arc::default();
    let (handle, slot) = (store.clone(), Arc::clone(&crashed));
    store.set_pause(move |point| {
        if point == Point::BeforeSync {
            slot.lock().unwrap().get_or_insert_with(|| handle.crash());
        }
        futures::future::ready(()).boxed()
    });
    let batch = put("a", "2")
        .put("b", "2")
        .delete_range(KeyRange::prefix("a"));
    let lost = block_on(store.commit(batch.clone()));
    assert!(matches!(lost, Err(CommitError::Unknown { .. })), "{lost:?}");
    let store = crashed.lock().unwrap().take().unwrap();
    store.set_pause(|_| futures::future::ready(()).boxed());
    assert_eq!(value(&store, "a").as_deref(), Some("1"));
    assert_eq!(value(&store, "b"), None);
    assert_eq!(store.counts()["commit_lost_in_crash"], 1);
    assert_eq!(
        block_on(store.commit(batch)).unwrap(),
        Version(2),
        "the lost batch is not remembered"
    );
}

#[test]
fn unsynced_commits_are_not_visible() {
    let store = MemoryStore::new();
    store.set_pause(|point| match point {
        Point::BeforeSync => futures::future::pending().boxed(),
        _ => futures::future::ready(()).boxed(),
    });
    assert!(store.commit(put("a", "1")).now_or_never().is_none());
    assert_eq!(value(&store, "a"), None);
    store.set_pause(|_| futures::future::ready(()).boxed());
    block_on(store.commit(put("b", "1"))).unwrap();
    assert_eq!(
        value(&store, "a").as_deref(),
        Some("1"),
        "synced with the next one"
    );
}

#[test]
fn stale_reads_return_earlier_states() {
    let writer = MemoryStore::new();
    let store = writer.other();
    for n in 0..8 {
        block_on(writer.commit(put("n", &n.to_string()).put(format!("k/{n}"), ""))).unwrap();
    }
    block_on(writer.commit(Batch::new().delete_range(KeyRange::prefix("k/")))).unwrap();
    for behind in 1..=5 {
        store.inject(Fault::Stale(behind));
        assert_eq!(value(&store, "n").unwrap(), (8 - behind).to_string());
        store.inject(Fault::Stale(behind));
        let page = block_on(store.scan(KeyRange::prefix("k/"), 100)).unwrap();
        assert_eq!(page.rows.len() as u64, 9 - behind);
        store.inject(Fault::Stale(behind));
        let page = block_on(store.scan(KeyRange::prefix("k/"), 2)).unwrap();
        assert_eq!(page.rows.len(), 2);
    }
    assert_eq!(value(&store, "n").unwrap(), "7");
}

#[test]
fn r50_stale_read_sees_what_was_acknowledged_to_its_handle() {
    let store = MemoryStore::new();
    let other = store.other();
    for n in 0..4 {
        block_on(other.commit(put("n", &n.to_string()))).unwrap();
    }
    block_on(store.commit(put("own", "1"))).unwrap();
    block_on(other.commit(put("n", "4"))).unwrap();
    store.inject(Fault::Stale(5));
    assert_eq!(value(&store.clone(), "n").as_deref(), Some("3"));
    store.inject(Fault::Stale(5));
    assert_eq!(value(&store, "own").as_deref(), Some("1"));
}

#[test]
fn r50_reads_left_behind_go_on_until_they_would_lack_an_acknowledged_commit() {
    let (store, key) = (MemoryStore::new(), ["n".into()]);
    let other = store.other();
    block_on(other.commit(put("n", "0"))).unwrap();
    store.inject(Fault::LeftBehind);
    for n in 1..20 {
        assert_eq!(value(&store, "n").as_deref(), Some("0"));
        block_on(other.commit(put("n", &n.to_string()))).unwrap();
    }
    assert_eq!(value(&other, "n").as_deref(), Some("19"));
    let page = block_on(store.scan(KeyRange::all(), 10)).unwrap();
    assert_eq!(page.rows[0].1.value, "0");
    block_on(store.commit(put("own", "1"))).unwrap();
    let refused = block_on(store.get(&key));
    assert!(
        matches!(refused, Err(Error::Unavailable { .. })),
        "{refused:?}"
    );
    assert_eq!(value(&store, "n").as_deref(), Some("19"));

    // It also ends when the connection does.
    store.inject(Fault::LeftBehind);
    assert_eq!(value(&store, "n").as_deref(), Some("19"));
    block_on(other.commit(put("n", "20"))).unwrap();
    store.inject(Fault::LeftBehind);
    block_on(store.get(&key)).unwrap_err();
    assert_eq!(value(&store, "n").as_deref(), Some("20"));
    assert_eq!(store.counts()["left_behind"], 3);
}

#[test]
fn poison_lasts_until_the_store_is_opened_again() {
    for kept in [true, false] {
        let store = MemoryStore::new();
        store.inject(Fault::Poison { kept });
        let poisoned = block_on(store.commit(put("a", "1")));
        assert!(matches!(poisoned, Err(CommitError::Poisoned { .. })));
        let again = block_on(store.commit(put("a", "1")));
        assert!(matches!(again, Err(CommitError::Poisoned { .. })));
        assert!(block_on(store.get(&[])).is_err());
        assert_eq!(value(&store.crash(), "a").is_some(), kept);
    }
}

#[test]
fn an_unreachable_store_refuses_until_it_is_healed() {
    let store = MemoryStore::new();
    store.set_unreachable(true);
    let refused = block_on(store.commit(put("a", "1")));
    assert!(matches!(refused, Err(CommitError::Unavailable { .. })));
    assert!(block_on(store.get(&[])).is_err());
    store.heal();
    assert_eq!(value(&store, "a"), None);
}

#[test]
fn hints_are_dropped_and_repeated() {
    let store = MemoryStore::new();
    let mut hints = store.watch("t".into());
    let announce = || block_on(store.commit(Batch::new().announce("t"))).unwrap();
    store.inject(Fault::DropHint);
    announce();
    assert_eq!(hints.next().now_or_never(), None);
    store.inject(Fault::RepeatHint);
    announce();
    assert_eq!(hints.next().now_or_never(), Some(Some(())));
    assert_eq!(hints.next().now_or_never(), Some(Some(())));
    assert_eq!(hints.next().now_or_never(), None);
    let _ = store.crash();
    assert_eq!(
        hints.next().now_or_never(),
        Some(None),
        "the stream ends with the store"
    );
}

#[test]
fn a_seed_draws_the_same_faults_and_every_kind() {
    let rates = Rates {
        unavailable: 50_000,
        unknown: 50_000,
        poison: 50_000,
        stale: 50_000,
        left_behind: 50_000,
        drop_hint: 50_000,
        repeat_hint: 50_000,
    };
    let play = |seed| {
        let mut store = MemoryStore::new();
        store.set_faults(rates.seeded(seed));
        for n in 0..2000 {
            let _hints = store.watch("t".into());
            match block_on(store.commit(put("a", &n.to_string()).announce("t"))) {
                Err(CommitError::Poisoned { .. }) => store = store.crash(),
                _ => drop(block_on(store.get(&["a".into()]))),
            }
        }
        store.counts()
    };
    let counts = play(1);
    assert_eq!(counts, play(1));
    assert_ne!(counts, play(2));
    let never: Vec<_> = counts.iter().filter(|(_, times)| **times == 0).collect();
    assert_eq!(never, [(&"unreachable", &0)]);
}
