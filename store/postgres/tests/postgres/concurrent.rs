//! R50: commits at the same time, of one process or several.

use control_plane_store::{Batch, CommitError, KeyRange, Store, Version};
use control_plane_store_postgres::PostgresStore;
use testing_postgres::{Database, Server};

use crate::{proxy::Proxy, rival::Rival};

async fn store(database: &Database) -> PostgresStore {
    PostgresStore::connect(&database.url()).await.unwrap()
}

/// Starts a commit.
fn begin(
    store: &PostgresStore,
    batch: Batch,
) -> tokio::task::JoinHandle<Result<Version, CommitError>> {
    let store = store.clone();
    tokio::spawn(async move { store.commit(batch).await })
}

/// Number of commits among messages, and whether all of them have the id of `batch`.
fn attempts(messages: &[(char, Vec<u8>)], batch: &Batch) -> (usize, bool) {
    let binds = messages.iter().filter(|(tag, _)| *tag == 'B');
    let contents: Vec<_> = binds.map(|(_, content)| content).collect();
    let id = batch.id.0.to_be_bytes();
    let same = |content: &&Vec<u8>| content.windows(16).any(|part| part == id);
    (contents.len(), contents.iter().all(same))
}

#[tokio::test]
async fn r50_serialization_failure_is_repeated_under_the_same_id() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let proxy = Proxy::before(&database);
    let store = PostgresStore::connect(&proxy.url()).await.unwrap();
    let first = store.commit(Batch::new().put("a", "1")).await.unwrap();
    let mut rival = Rival::of(&database).await;
    rival.hold("a").await;
    proxy.sent();

    let batch = Batch::new().put("a", "2");
    let commit = begin(&store, batch.clone());
    rival.waiting(1).await;
    rival.run("commit").await;
    let version = commit.await.unwrap().unwrap();
    assert_eq!(attempts(&proxy.sent().0, &batch), (2, true));
    assert!(version > first);
    let row = database.run("select value from control_plane.shown where key = 'a'");
    assert_eq!(row, "2\n");
}

#[tokio::test]
async fn r50_deadlock_is_repeated_under_the_same_id() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let proxy = Proxy::before(&database);
    let store = PostgresStore::connect(&proxy.url()).await.unwrap();
    let seed = Batch::new().put("a", "1").put("b", "1");
    store.commit(seed).await.unwrap();
    let mut rival = Rival::of(&database).await;
    rival.hold("b").await;
    proxy.sent();

    // The commit locks `a` and waits for `b`; the other transaction then waits for `a`. The server ends the commit,
    // because the other one looks for deadlocks after an hour only.
    let batch = Batch::new().put("a", "2").put("b", "2");
    let commit = begin(&store, batch.clone());
    rival.waiting(1).await;
    rival.write("a").await;
    rival.run("commit").await;
    commit.await.unwrap().unwrap();
    let (times, same) = attempts(&proxy.sent().0, &batch);
    assert!(times >= 2 && same, "{times}");
    let rows = database.run("select value from control_plane.shown");
    assert_eq!(rows, "2\n2\n");
}

#[tokio::test]
async fn r50_commit_that_always_loses_is_given_up_and_may_be_submitted_again() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = store(&database).await;
    database.run(
        "create function control_plane.lose() returns trigger language plpgsql as $$ begin \
         raise exception 'lost' using errcode = '40001'; end $$; \
         create trigger lose before insert on control_plane.rows for each row execute function control_plane.lose()",
    );
    let batch = Batch::new().put("a", "1");
    let lost = store.commit(batch.clone()).await;
    assert!(
        matches!(lost, Err(CommitError::Unavailable { .. })),
        "{lost:?}"
    );
    database.run("drop trigger lose on control_plane.rows");
    store.commit(batch).await.unwrap();
}

#[tokio::test]
async fn r50_second_process_fences_the_first_off_by_the_version_of_the_owner() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let (one, two) = (store(&database).await, store(&database).await);
    let first = Batch::new()
        .expect_absent("owner/shop")
        .put("owner/shop", "one");
    let first = one.commit(first).await.unwrap();
    let step = |token, n: &'static str| Batch::new().expect_at("owner/shop", token).put("step", n);
    one.commit(step(first, "1")).await.unwrap();

    let second = Batch::new()
        .expect_at("owner/shop", first)
        .put("owner/shop", "two");
    let second = two.commit(second).await.unwrap();
    let late = one.commit(step(first, "2")).await;
    assert!(
        matches!(&late, Err(CommitError::Conflict { found, .. }) if *found == Some(second)),
        "{late:?}"
    );
    two.commit(step(second, "3")).await.unwrap();
    let rows = one.get(&["step".into()]).await.unwrap();
    assert_eq!(rows[0].as_ref().unwrap().value, "3");
}

/// The commit of an owner waits in the middle. A process that takes over must not be acknowledged before that commit has
/// either become visible or failed: it would read a state that the former owner still changes.
#[tokio::test]
async fn r50_takeover_waits_for_a_commit_that_relies_on_the_owner() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let (one, two) = (store(&database).await, store(&database).await);
    let first = one
        .commit(Batch::new().put("owner/shop", "one"))
        .await
        .unwrap();
    let mut rival = Rival::of(&database).await;
    rival.hold("step").await;

    let step = Batch::new()
        .expect_at("owner/shop", first)
        .expect_absent("stopped/shop");
    let step = begin(&one, step.put("step", "last"));
    rival.waiting(1).await;
    let takeover = Batch::new()
        .expect_at("owner/shop", first)
        .put("owner/shop", "two");
    let takeover = begin(&two, takeover);
    let stop = begin(&two, Batch::new().put("stopped/shop", "1"));
    rival.waiting(3).await;
    rival.run("rollback").await;
    let step = step.await.unwrap().unwrap();
    assert!(takeover.await.unwrap().unwrap() > step);
    stop.await.unwrap().unwrap();
    let rows = two.get(&["step".into()]).await.unwrap();
    assert_eq!(rows[0].as_ref().unwrap().value, "last");
}

#[tokio::test]
async fn r50_partitions_commit_side_by_side() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = store(&database).await;
    let owners = Batch::new().put("owner/a", "1").put("owner/b", "1");
    let token = store.commit(owners).await.unwrap();
    let mut rival = Rival::of(&database).await;
    rival.hold("step/a").await;
    let held = Batch::new().expect_at("owner/a", token).put("step/a", "1");
    let held = begin(&store, held);
    rival.waiting(1).await;

    let mut newest = token;
    for n in 0..20 {
        let step = Batch::new()
            .expect_at("owner/b", token)
            .put("step/b", n.to_string());
        let version = store.commit(step).await.unwrap();
        assert!(version > newest);
        newest = version;
    }
    rival.run("rollback").await;
    held.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_batches_are_forgotten_and_the_newest_4096_are_not() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let (store, idle) = (store(&database).await, store(&database).await);
    idle.commit(Batch::new().put("idle", "1")).await.unwrap();
    // Versions below those that the store gives from now on.
    database.run(
        "insert into control_plane.batches select decode(md5(n::text), 'hex'), n + 1, now() - interval '1 hour' \
         from generate_series(1, 5000) n",
    );
    let count = "select count(*) from control_plane.batches where version <= 5001";
    assert_eq!(database.run(count), "5001\n");
    let first = Batch::new().put("first", "1").above(Version(5001));
    let version = store.commit(first.clone()).await.unwrap();
    let old = "update control_plane.batches set at = now() - interval '1 hour'";
    database.run(old);
    let commits = (0..4095).map(|_| store.commit(Batch::new()));
    let commits = futures::future::join_all(commits).await;
    assert!(commits.iter().all(Result::is_ok));
    for _ in 0..200 {
        if database.run(count) == "0\n" {
            break;
        }
    }
    assert_eq!(database.run(count), "0\n");
    assert_eq!(store.commit(first).await.unwrap(), version);
    // R50: a process whose newest commit is forgotten does not take it for lost.
    assert!(idle.get(&["idle".into()]).await.unwrap()[0].is_some());
    idle.commit(Batch::new().put("idle", "2")).await.unwrap();
}

/// A range is deleted while another commit, which relies on what the first one changes, puts a key into it.
#[tokio::test]
async fn r50_key_put_into_a_range_that_is_deleted_leaves_a_serial_order() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let (one, two) = (store(&database).await, store(&database).await);
    for turn in 0..50 {
        let seed = Batch::new().delete_range(KeyRange::prefix("r/"));
        let seed = one.commit(seed.put("gate", "open")).await.unwrap();
        let clear = Batch::new().put("gate", "shut");
        let clear = one.commit(clear.delete_range(KeyRange::prefix("r/")));
        let put = two.commit(Batch::new().expect_at("gate", seed).put("r/1", "1"));
        let (cleared, _) = futures::future::join(clear, put).await;
        cleared.unwrap();
        let left = one.scan(KeyRange::prefix("r/"), 10).await.unwrap();
        assert!(
            left.rows.is_empty(),
            "turn {turn}: put through a gate that was shut"
        );
    }
}
