//! Conformance cases about reads and hints.

use std::sync::Arc;

use futures::{StreamExt, future};

use crate::{Batch, Key, KeyRange, Store, limit};

async fn fill(store: &dyn Store, keys: impl IntoIterator<Item = String>) {
    let batch = keys.into_iter().fold(Batch::new(), |batch, key| {
        let value = key.clone();
        batch.put(key, value)
    });
    store.commit(batch).await.unwrap();
}

/// Reads all keys of `range` in pages of `limit` rows.
async fn keys(store: &dyn Store, range: KeyRange, limit: usize) -> Vec<String> {
    let (mut keys, mut rest) = (Vec::new(), Some(range));
    while let Some(range) = rest {
        let page = store.scan(range, limit).await.unwrap();
        assert!(page.rows.len() <= limit && (!page.rows.is_empty() || page.rest.is_none()));
        for (key, row) in page.rows {
            assert_eq!(row.value, key.as_str());
            keys.push(key.as_str().to_owned());
        }
        rest = page.rest;
    }
    keys
}

pub(super) async fn answers_are_in_the_order_of_the_keys(store: &dyn Store) {
    fill(store, ["a", "b"].map(String::from)).await;
    let wanted: Vec<Key> = ["b", "absent", "a", "b"].map(Key::from).into();
    let rows = store.get(&wanted).await.unwrap();
    let values: Vec<_> = rows
        .iter()
        .map(|row| row.as_ref().map(|row| &row.value[..]))
        .collect();
    assert_eq!(values, [Some(&b"b"[..]), None, Some(b"a"), Some(b"b")]);
    assert!(store.get(&[]).await.unwrap().is_empty());
}

pub(super) async fn scans_page_through(store: &dyn Store) {
    let all: Vec<String> = (0..25).map(|n| format!("k/{n:02}")).collect();
    fill(store, all.clone()).await;
    fill(store, ["j", "k", "k0", "l"].map(String::from)).await;
    for limit in [1, 2, 5, 24, 25, 26, 1000] {
        assert_eq!(keys(store, KeyRange::prefix("k/"), limit).await, all);
    }
    assert_eq!(keys(store, KeyRange::all(), 7).await.len(), 29);
    assert_eq!(
        keys(store, KeyRange::between("k/03", "k/05"), 10).await,
        all[3..5]
    );
    assert_eq!(keys(store, KeyRange::from_key("k0"), 10).await, ["k0", "l"]);
    assert!(
        keys(store, KeyRange::between("k/05", "k/03"), 10)
            .await
            .is_empty()
    );
    assert!(
        keys(store, KeyRange::prefix("nothing"), 10)
            .await
            .is_empty()
    );
}

pub(super) async fn pages_end_when_large(store: &dyn Store) {
    for n in 0..6 {
        let batch = Batch::new().put(format!("{n}"), vec![b'x'; limit::VALUE]);
        store.commit(batch).await.unwrap();
    }
    let page = store.scan(KeyRange::all(), 100).await.unwrap();
    assert_eq!(page.rows.len(), limit::PAGE / limit::VALUE);
    let rest = store.scan(page.rest.unwrap(), 100).await.unwrap();
    assert_eq!(rest.rows.len(), 2);
    assert_eq!(rest.rest, None);
}

/// Several callers each read what they have committed a moment ago, beside the others.
pub(super) async fn reads_see_what_was_acknowledged(store: &dyn Store) {
    let caller = async |name: usize| {
        let key = Key::from(name.to_string());
        for n in 0..30 {
            let batch = Batch::new().put(key.clone(), n.to_string());
            let version = store.commit(batch).await.unwrap();
            let rows = store.get(std::slice::from_ref(&key)).await.unwrap();
            assert_eq!(rows[0].as_ref().unwrap().version, version);
            let page = store
                .scan(KeyRange::from_key(key.clone()), 1)
                .await
                .unwrap();
            assert_eq!(page.rows[0].1.version, version);
        }
    };
    future::join_all((0..4).map(caller)).await;
}

/// Two keys always change together, while other calls read both of them.
pub(super) async fn reads_are_snapshots(store: Arc<dyn Store>) {
    let pair = |n: usize| Batch::new().put("x", n.to_string()).put("y", n.to_string());
    store.commit(pair(0)).await.unwrap();
    let writes = async {
        for n in 1..50 {
            store.commit(pair(n)).await.unwrap();
        }
    };
    let reads = async {
        for _ in 0..50 {
            let rows = store.get(&["x".into(), "y".into()]).await.unwrap();
            assert_eq!(rows[0], rows[1]);
            let page = store.scan(KeyRange::all(), 10).await.unwrap();
            assert_eq!(page.rows[0].1, page.rows[1].1);
        }
    };
    future::join(writes, reads).await;
}

pub(super) async fn keys_are_ordered_by_bytes(store: &dyn Store) {
    let ordered = ["!", "A", "Z", "a", "a!", "a/", "a0", "b", "é", "ﬀ", "😀"].map(String::from);
    fill(store, ordered.clone().into_iter().rev()).await;
    assert!(ordered.is_sorted());
    assert_eq!(keys(store, KeyRange::all(), 3).await, ordered);
}

pub(super) async fn watchers_get_hints(store: &dyn Store) {
    let mut watched = store.watch("a".into());
    let mut others = store.watch("b".into());
    for n in 0..3 {
        let batch = Batch::new().put("k", n.to_string()).announce("a");
        store.commit(batch).await.unwrap();
    }
    assert_eq!(watched.next().await, Some(()));
    // There is no promise about when hints arrive, so only hints that have arrived by now can be checked.
    assert!(futures::FutureExt::now_or_never(others.next()).is_none());
}
