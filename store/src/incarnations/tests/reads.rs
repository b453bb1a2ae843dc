//! Reads: a store that has lost data is refused (S7), and only what is needed is loaded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, executor::block_on};
use prodspec_model::{Digest, Incarnation, IncarnationNo, canonical, tolerant::newer};
use serde_json::json;

use super::{START, asset, history, next, open, partition, same};
use crate::{
    Batch, CommitError, KeyRange, MemoryStore, Store, Topic, Version, Versioned,
    incarnations::{Error, Incarnations},
    memory::Point,
};

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

/// R50: only what the store had acknowledged is lost; another process's seals may be missing in an older state.
#[test]
fn r50_advice_to_restore_a_backup_is_for_acknowledged_incarnations_only() {
    let store = MemoryStore::new();
    let reader = store.other();
    let (writes, reads) = (open(&store), open(&reader));
    let first = next(None, vec![asset(0, 0, 10)]);
    let second = next(Some(&first), vec![asset(0, 1, 10)]);
    let head = block_on(writes.seal(&first, None, Batch::new())).unwrap();
    block_on(writes.seal(&second, Some(&head), Batch::new())).unwrap();
    block_on(reads.head()).unwrap();
    reader.inject(crate::memory::Fault::Stale(1));
    let older = block_on(reads.head()).unwrap_err();
    assert!(matches!(older, Error::Younger { .. }), "{older:?}");
    assert!(!older.to_string().contains("backup"), "{older}");
    block_on(reads.head()).unwrap();

    let lost = Batch::new().delete_range(KeyRange::prefix("head/"));
    block_on(reader.commit(lost)).unwrap();
    let lost = block_on(writes.head()).unwrap_err();
    assert!(matches!(lost, Error::Lost { found: None, .. }), "{lost:?}");
    assert!(
        lost.to_string().contains("restore a newer backup"),
        "{lost}"
    );
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

#[test]
fn incarnation_with_fields_of_a_newer_version_is_read() {
    let store = MemoryStore::new();
    let all = history(&store, 2);
    let key = crate::Key::from("incarnation/shakespeare/0000000002");
    let row = block_on(store.get(std::slice::from_ref(&key))).unwrap();
    let sealed: serde_json::Value =
        serde_json::from_slice(&row[0].as_ref().unwrap().value).unwrap();
    for (at, mut newer) in newer(&sealed, &["/header/sources"]) {
        let summed = canonical::to_bytes(&(&newer["header"], &newer["root"])).unwrap();
        newer["sum"] = json!(Digest::of(&summed));
        let put = Batch::new().put(key.clone(), newer.to_string());
        block_on(store.commit(put)).unwrap();
        let read = block_on(open(&store).load(all[1].no()));
        assert!(same(&read.unwrap(), &all[1]), "a field more in `{at}`");
        // A field that was changed after the seal is damage, also if only a newer version knows it.
        if at.starts_with("/header") {
            newer["header"]["from_a_newer_version"] = json!("another");
            let put = Batch::new().put(key.clone(), newer.to_string());
            block_on(store.commit(put)).unwrap();
            block_on(open(&store).load(all[1].no())).unwrap_err();
        }
    }
}
