//! R50: hints arrive from every process, and all watchers are woken when notifications may have been missed.

use control_plane_store::{Batch, Store};
use control_plane_store_postgres::{Options, PostgresStore};
use futures::{FutureExt, StreamExt};
use testing_postgres::Server;

use crate::rival::Rival;

#[tokio::test]
async fn r50_watchers_are_woken_after_every_reconnect() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    let topics = ["a", "head/shop", "é"];
    let mut watched: Vec<_> = topics.map(|topic| store.watch(topic.into())).into();
    assert!(
        watched
            .iter_mut()
            .all(|hints| hints.next().now_or_never().is_none())
    );
    let mut rival = Rival::of(&database).await;
    for turn in 0..3 {
        rival.end("query like 'LISTEN%'").await;
        rival.listening().await;
        // What is announced from now on arrives after the hint that wakes all.
        let topic = format!("turn/{turn}");
        let mut last = store.watch(topic.as_str().into());
        store.commit(Batch::new().announce(topic)).await.unwrap();
        assert_eq!(last.next().await, Some(()));
        let woken = watched.iter_mut().map(|hints| hints.next().now_or_never());
        assert!(woken.flatten().flatten().count() == topics.len(), "{turn}");
    }
}

#[tokio::test]
async fn r50_watchers_are_woken_after_a_restart_of_the_server() {
    testing_postgres::needs_postgresql!();
    let server = Server::start();
    let store = PostgresStore::connect(&server.database().url())
        .await
        .unwrap();
    let mut watched = store.watch("a".into());
    server.stop();
    server.resume();
    assert_eq!(watched.next().await, Some(()));
    drop(store);
    assert_eq!(watched.next().await, None, "the stream ends with the store");
}

#[tokio::test]
async fn hints_reach_other_processes_of_the_same_schema_only() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let of = |schema: &str| Options::new(database.url()).schema(schema).connect();
    let (one, two) = (of("shop").await.unwrap(), of("shop").await.unwrap());
    let other = of("other").await.unwrap();
    let mut here = two.watch("head".into());
    let mut elsewhere = other.watch("head".into());
    one.commit(Batch::new().announce("head")).await.unwrap();
    assert_eq!(here.next().await, Some(()));
    // A topic that no notification can name wakes all watchers.
    let long = "x".repeat(10_000);
    one.commit(Batch::new().announce(long)).await.unwrap();
    assert_eq!(here.next().await, Some(()));
    // Notifications arrive in order: this one would be behind those that `elsewhere` must not get.
    let mut last = other.watch("last".into());
    other.commit(Batch::new().announce("last")).await.unwrap();
    assert_eq!(last.next().await, Some(()));
    assert!(elsewhere.next().now_or_never().is_none());
}

#[tokio::test]
async fn refused_batch_announces_nothing() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    let mut watched = store.watch("a".into());
    let refused = Batch::new().expect_at("k", control_plane_store::Version(1));
    store.commit(refused.announce("a")).await.unwrap_err();
    let mut last = store.watch("last".into());
    store.commit(Batch::new().announce("last")).await.unwrap();
    assert_eq!(last.next().await, Some(()));
    assert!(watched.next().now_or_never().is_none());
}
