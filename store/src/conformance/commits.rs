//! Conformance cases about commits.

use bytes::Bytes;
use futures::future::join_all;

use super::Factory;
use crate::{Batch, CommitError, KeyRange, Store, Version, Versioned, limit};

async fn read(store: &dyn Store, key: &str) -> Option<Versioned> {
    store.get(&[key.into()]).await.unwrap().pop().unwrap()
}

async fn value(store: &dyn Store, key: &str) -> Option<Bytes> {
    read(store, key).await.map(|row| row.value)
}

pub(super) async fn versions_rise(store: &dyn Store) {
    let first = store.commit(Batch::new().put("a", "1")).await.unwrap();
    let second = store.commit(Batch::new().put("b", "1")).await.unwrap();
    let third = store.commit(Batch::new()).await.unwrap();
    assert!(Version(0) < first && first < second && second < third);
    assert_eq!(read(store, "a").await.unwrap().version, first);
    assert_eq!(read(store, "b").await.unwrap().version, second);
    let again = store.commit(Batch::new().put("a", "1")).await.unwrap();
    assert_eq!(read(store, "a").await.unwrap().version, again);
}

pub(super) async fn versions_are_above_the_requested_version<F: Factory>(factory: &F) {
    let store = factory.create().await;
    let asked = Version(1_000_000);
    store.commit(Batch::new().put("a", "1")).await.unwrap();
    let batch = Batch::new().put("b", "1").above(asked);
    let raised = store.commit(batch.clone()).await.unwrap();
    assert!(raised > asked);
    assert_eq!(read(&store, "b").await.unwrap().version, raised);
    assert_eq!(store.commit(batch).await.unwrap(), raised, "the same batch");
    let next = store.commit(Batch::new().above(Version(7))).await.unwrap();
    assert!(
        next > raised,
        "a bound below the current version has no effect"
    );
    let store = factory.reopen(store).await;
    assert_eq!(value(&store, "a").await.unwrap(), "1");
    assert!(store.commit(Batch::new().put("c", "1")).await.unwrap() > next);
}

pub(super) async fn all_or_nothing(store: &dyn Store) {
    let refused = Batch::new()
        .put("a", "1")
        .delete_range(KeyRange::all())
        .expect_absent("x")
        .expect_at("y", Version(1));
    store.commit(Batch::new().put("b", "1")).await.unwrap();
    let error = store.commit(refused).await.unwrap_err();
    assert!(matches!(error, CommitError::Conflict { key, found: None } if key.as_str() == "y"));
    assert_eq!(value(store, "a").await, None);
    assert_eq!(value(store, "b").await.unwrap(), "1");
    let all = Batch::new().put("a", "1").delete("b").put("c", "1");
    let version = store.commit(all).await.unwrap();
    assert_eq!(read(store, "a").await.unwrap().version, version);
    assert_eq!(read(store, "b").await, None);
    assert_eq!(read(store, "c").await.unwrap().version, version);
}

pub(super) async fn expectations(store: &dyn Store) {
    let first = store.commit(Batch::new().put("a", "1")).await.unwrap();
    let absent = store
        .commit(Batch::new().expect_absent("a").put("a", "2"))
        .await;
    let found_first =
        |error| matches!(error, CommitError::Conflict { found, .. } if found == Some(first));
    assert!(found_first(absent.unwrap_err()));
    let other = Batch::new().expect_at("a", Version(first.0 + 1));
    assert!(found_first(store.commit(other).await.unwrap_err()));

    let second = Batch::new().expect_at("a", first).put("a", "2");
    let second = store.commit(second).await.unwrap();
    let late = Batch::new().expect_at("a", first).put("a", "3");
    assert!(store.commit(late).await.is_err());
    assert_eq!(value(store, "a").await.unwrap(), "2");

    let gone = Batch::new().expect_at("a", second).delete("a");
    store.commit(gone).await.unwrap();
    let reborn = Batch::new().expect_absent("a").put("a", "4");
    assert!(
        store.commit(reborn).await.unwrap() > second,
        "a version is never used twice"
    );
}

pub(super) async fn writes_take_effect_in_order(store: &dyn Store) {
    let batch = Batch::new()
        .put("a", "1")
        .put("a", "2")
        .put("b", "1")
        .delete("b")
        .put("c", "1")
        .delete_range(KeyRange::prefix("c"))
        .put("c", "2")
        .delete("absent");
    store.commit(batch).await.unwrap();
    assert_eq!(value(store, "a").await.unwrap(), "2");
    assert_eq!(value(store, "b").await, None);
    assert_eq!(value(store, "c").await.unwrap(), "2");
}

pub(super) async fn ranges_are_deleted(store: &dyn Store) {
    let keys = ["a", "b", "b/1", "b/2", "b0", "c"];
    let all = keys
        .iter()
        .fold(Batch::new(), |batch, key| batch.put(*key, "1"));
    store.commit(all).await.unwrap();
    let delete = |range| store.commit(Batch::new().delete_range(range));
    delete(KeyRange::between("c", "b")).await.unwrap();
    delete(KeyRange::prefix("b/")).await.unwrap();
    delete(KeyRange::between("b0", "c")).await.unwrap();
    let page = store.scan(KeyRange::all(), 100).await.unwrap();
    let left: Vec<_> = page.rows.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(left, ["a", "b", "c"]);
    delete(KeyRange::from_key("b")).await.unwrap();
    assert_eq!(value(store, "c").await, None);
    assert_eq!(value(store, "a").await.unwrap(), "1");
}

pub(super) async fn a_resubmitted_batch_is_committed_once<F: Factory>(factory: &F) {
    let store = factory.create().await;
    let batch = Batch::new().expect_absent("a").put("a", "1").delete("b");
    let first = store.commit(batch.clone()).await.unwrap();
    store.commit(Batch::new().put("b", "later")).await.unwrap();
    assert_eq!(store.commit(batch.clone()).await.unwrap(), first);
    assert_eq!(value(&store, "b").await.unwrap(), "later");

    let store = factory.reopen(store).await;
    assert_eq!(
        store.commit(batch).await.unwrap(),
        first,
        "the medium remembers the id"
    );
    assert_eq!(value(&store, "b").await.unwrap(), "later");

    let refused = Batch::new().expect_absent("a").put("c", "1");
    store.commit(refused.clone()).await.unwrap_err();
    store.commit(Batch::new().delete("a")).await.unwrap();
    store.commit(refused).await.unwrap();
    assert_eq!(
        value(&store, "c").await.unwrap(),
        "1",
        "a refused batch is not remembered"
    );
}

pub(super) async fn limits_are_exact(store: &dyn Store) {
    let large = Bytes::from(vec![b'x'; limit::VALUE]);
    store
        .commit(Batch::new().put("a", large.clone()))
        .await
        .unwrap();
    assert_eq!(value(store, "a").await.unwrap(), large);
    let larger = Batch::new().put("b", vec![b'x'; limit::VALUE + 1]);
    let full = (0..4).fold(Batch::new(), |batch, n| {
        batch.put(format!("{n}"), large.clone())
    });
    let long = Batch::new().put("k".repeat(limit::KEY + 1), "1");
    for batch in [larger, full, long] {
        let error = store.commit(batch).await.unwrap_err();
        assert!(matches!(error, CommitError::TooLarge { .. }), "{error:?}");
    }
    let key = "k".repeat(limit::KEY);
    store
        .commit(Batch::new().put(key.as_str(), ""))
        .await
        .unwrap();
    assert_eq!(
        value(store, &key).await.unwrap(),
        "",
        "an empty value is a value"
    );
}

pub(super) async fn concurrent_commits_are_serial(store: &dyn Store) {
    let start = store.commit(Batch::new().put("n", "0")).await.unwrap();
    let claim = |n: usize| {
        let batch = Batch::new().expect_at("n", start).put("n", n.to_string());
        store.commit(batch.put(format!("winner/{n}"), "1"))
    };
    let claims = join_all((0..64).map(claim)).await;
    assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1);
    let winners = store.scan(KeyRange::prefix("winner/"), 100).await.unwrap();
    assert_eq!(winners.rows.len(), 1);

    let puts = join_all((0..64).map(|n| store.commit(Batch::new().put(format!("p/{n:02}"), "1"))));
    let mut versions: Vec<_> = puts.await.into_iter().map(Result::unwrap).collect();
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), 64, "every commit has a version of its own");
}

pub(super) async fn acknowledged_commits_survive_a_reopening<F: Factory>(factory: &F) {
    let mut store = factory.create().await;
    let mut last = Version(0);
    for n in 0..5 {
        for m in 0..20 {
            let batch = Batch::new().put(format!("{n}/{m:02}"), format!("{n}-{m}"));
            let version = store.commit(batch).await.unwrap();
            assert!(version > last, "versions rise over reopening");
            last = version;
        }
        store = factory.reopen(store).await;
        let page = store
            .scan(KeyRange::prefix(&format!("{n}/")), 100)
            .await
            .unwrap();
        let values = page.rows.iter().map(|(_, row)| row.value.clone());
        assert!(values.eq((0..20).map(|m| format!("{n}-{m}"))));
        assert_eq!(page.rows[19].1.version, last);
    }
}
