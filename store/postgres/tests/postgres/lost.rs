//! R50: connections and servers that are lost in the middle.

use control_plane_store::{Batch, BatchId, CommitError, Store};
use control_plane_store_postgres::{Options, PostgresStore};
use testing_postgres::{Database, Server};

use crate::{
    proxy::{Fate, Proxy},
    rival::Rival,
};

/// The versions under which the medium remembers a batch.
fn remembered(database: &Database, id: BatchId) -> String {
    let id = format!("{:032x}", id.0);
    database.run(&format!(
        "select version from control_plane.batches where id = '\\x{id}'"
    ))
}

fn is_unknown<T>(result: &Result<T, CommitError>) -> bool {
    matches!(result, Err(CommitError::Unknown { .. }))
}

#[tokio::test]
async fn r50_connection_lost_in_commit_is_unknown_and_the_batch_is_applied_once() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let proxy = Proxy::before(&database);
    let store = PostgresStore::connect(&proxy.url()).await.unwrap();
    for (fate, applied) in [(Fate::LoseAnswer, true), (Fate::LoseRequest, false)] {
        let before = store.commit(Batch::new().put("a", "before")).await.unwrap();
        let batch = Batch::new()
            .expect_at("a", before)
            .put("a", "1")
            .delete("b");
        proxy.set(fate);
        let lost = store.commit(batch.clone()).await;
        assert!(is_unknown(&lost), "{fate:?}: {lost:?}");
        let first = remembered(&database, batch.id);
        assert_eq!(!first.is_empty(), applied, "{fate:?}");

        // Another commit overwrites part of the batch if it was applied.
        store.commit(Batch::new().put("b", "later")).await.unwrap();
        let version = store.commit(batch.clone()).await.unwrap();
        assert_eq!(remembered(&database, batch.id), format!("{}\n", version.0));
        if applied {
            assert_eq!(first, format!("{}\n", version.0));
        }
        let b = store.get(&["b".into()]).await.unwrap();
        assert_eq!(b[0].is_some(), applied, "{fate:?}");
        assert_eq!(store.commit(batch).await.unwrap(), version, "{fate:?}");
    }
}

#[tokio::test]
async fn r50_session_ended_in_commit_is_unknown_and_nothing_stays_locked() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    store.commit(Batch::new().put("a", "1")).await.unwrap();
    let mut rival = Rival::of(&database).await;
    rival.hold("a").await;
    let batch = Batch::new().put("a", "2");
    let commit = tokio::spawn({
        let (store, batch) = (store.clone(), batch.clone());
        async move { store.commit(batch).await }
    });
    rival.waiting(1).await;
    rival.end("wait_event_type = 'Lock'").await;
    let lost = commit.await.unwrap();
    assert!(is_unknown(&lost), "{lost:?}");
    rival.run("rollback").await;
    let version = store.commit(batch.clone()).await.unwrap();
    assert_eq!(store.commit(batch).await.unwrap(), version);
}

/// The batch is submitted again while its first submission still runs on the server, without its client.
#[tokio::test]
async fn r50_batch_submitted_again_during_its_first_submission_is_applied_once() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    let mut rival = Rival::of(&database).await;
    rival.hold("a").await;
    let batch = Batch::new().put("a", "2");
    let submit = || {
        let (store, batch) = (store.clone(), batch.clone());
        tokio::spawn(async move { store.commit(batch).await })
    };
    let first = submit();
    rival.waiting(1).await;
    let second = submit();
    rival.waiting(2).await;
    rival.run("rollback").await;
    let version = first.await.unwrap().unwrap();
    assert_eq!(second.await.unwrap().unwrap(), version);
    assert_eq!(remembered(&database, batch.id), format!("{}\n", version.0));
}

#[tokio::test]
async fn r50_server_that_is_down_is_unavailable_and_acknowledged_commits_survive() {
    testing_postgres::needs_postgresql!();
    let server = Server::start();
    let database = server.database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    let version = store.commit(Batch::new().put("a", "1")).await.unwrap();
    server.stop();
    let batch = Batch::new().put("b", "1");
    let lost = store.commit(batch.clone()).await;
    assert!(is_unknown(&lost), "{lost:?}");
    // Until the loss of the connections is noticed, the outcome is unknown.
    let refused = loop {
        let refused = store.commit(Batch::new().put("c", "1")).await;
        if !is_unknown(&refused) {
            break refused;
        }
    };
    // What may have been written stays so, although this attempt has written nothing.
    let again = store.commit(batch.clone()).await;
    assert!(is_unknown(&again), "{again:?}");
    assert!(
        matches!(refused, Err(CommitError::Unavailable { .. })),
        "{refused:?}"
    );
    let error = store.get(&["a".into()]).await.unwrap_err();
    assert!(
        matches!(error, control_plane_store::Error::Unavailable { .. }),
        "{error:?}"
    );
    server.resume();
    let next = store.commit(batch).await.unwrap();
    assert!(next > version);
    let rows = store.get(&["a".into(), "b".into()]).await.unwrap();
    let versions: Vec<_> = rows.iter().flatten().map(|row| row.version).collect();
    assert_eq!(versions, [version, next]);
}

#[tokio::test]
async fn statement_that_takes_too_long_is_unavailable_and_changes_nothing() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    drop(PostgresStore::connect(&database.url()).await.unwrap());
    let options = Options::new(database.url()).timeout(std::time::Duration::from_secs(1));
    let store = options.connect().await.unwrap();
    let mut rival = Rival::of(&database).await;
    rival.hold("a").await;
    let batch = Batch::new().put("a", "1");
    let late = store.commit(batch.clone()).await;
    assert!(
        matches!(late, Err(CommitError::Unavailable { .. })),
        "{late:?}"
    );
    rival.run("rollback").await;
    assert_eq!(store.get(&["a".into()]).await.unwrap(), [None]);
    store.commit(batch).await.unwrap();
}

#[tokio::test]
async fn store_whose_tables_were_replaced_is_poisoned() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    store.commit(Batch::new().put("a", "1")).await.unwrap();
    database.run("drop schema control_plane cascade");
    let other = PostgresStore::connect(&database.url()).await.unwrap();
    other.commit(Batch::new().put("a", "2")).await.unwrap();
    // The sessions of the store are opened again, and find other tables.
    let mut rival = Rival::of(&database).await;
    rival.end("true").await;
    let refused = loop {
        let refused = store.commit(Batch::new().put("b", "1")).await;
        if !is_unknown(&refused) {
            break refused;
        }
    };
    assert!(
        matches!(refused, Err(CommitError::Poisoned { .. })),
        "{refused:?}"
    );
    assert!(store.get(&["a".into()]).await.unwrap_err().is_poisoned());
    let kept = other.get(&["b".into()]).await;
    assert!(kept.is_err() || kept.unwrap() == [None]);
}

#[tokio::test]
async fn store_whose_tables_are_replaced_under_its_sessions_is_poisoned() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    store.commit(Batch::new().put("a", "1")).await.unwrap();
    database.run("drop schema control_plane cascade");
    let other = PostgresStore::connect(&database.url()).await.unwrap();
    other.commit(Batch::new().put("a", "2")).await.unwrap();
    let refused = store.commit(Batch::new().put("b", "1")).await;
    assert!(
        matches!(refused, Err(CommitError::Poisoned { .. })),
        "{refused:?}"
    );
    assert_eq!(other.get(&["b".into()]).await.unwrap(), [None]);
}

/// Rows and batches of the newest commits are gone, as after a restore beside running sessions.
#[tokio::test]
async fn r50_database_that_lost_an_acknowledged_commit_is_refused() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    store.commit(Batch::new().put("n", "1")).await.unwrap();
    let version = store.commit(Batch::new().put("n", "2")).await.unwrap();
    database.run(&format!(
        "delete from control_plane.batches where version = {}",
        version.0
    ));
    let refused = store.commit(Batch::new().put("n", "late")).await;
    assert!(
        matches!(refused, Err(CommitError::Poisoned { .. })),
        "{refused:?}"
    );
    assert!(store.get(&["n".into()]).await.unwrap_err().is_poisoned());
}
