//! R50: the settings of sessions, and a server that has no room for more of them.

use std::time::Duration;

use control_plane_store::{Batch, CommitError, KeyRange, Store};
use control_plane_store_postgres::{Error, Options, PostgresStore};
use futures::future::join_all;
use testing_postgres::Server;

/// Records the settings under which commits are made, in a table of their own.
const RECORD: &str = "create table control_plane.seen (isolation text, durable text); \
    create function control_plane.see() returns trigger language plpgsql as $$ begin \
    insert into control_plane.seen values (current_setting('transaction_isolation'), \
    current_setting('synchronous_commit')); return new; end $$; \
    create trigger see before insert on control_plane.rows for each row \
    execute function control_plane.see()";

#[tokio::test]
async fn r50_commits_are_serializable_and_durable_whatever_the_configuration_says() {
    testing_postgres::needs_postgresql!();
    let server = Server::start();
    let database = server.database();
    let of_the_database = "do $$ begin execute format('alter database %I set synchronous_commit = off', \
         current_database()); end $$";
    database.run(of_the_database);
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    database.run(RECORD);
    store.commit(Batch::new().put("a", "1")).await.unwrap();
    let seen = || database.run("select distinct * from control_plane.seen");
    assert_eq!(seen(), "serializable|on\n");

    let strict = server.database();
    let store = PostgresStore::connect(&strict.url()).await.unwrap();
    strict.run(RECORD);
    store.commit(Batch::new().put("a", "1")).await.unwrap();
    server.configure("synchronous_commit", "off");
    for n in 0..20 {
        store
            .commit(Batch::new().put(format!("{n}"), "1"))
            .await
            .unwrap();
    }
    let seen = strict.run("select distinct * from control_plane.seen");
    assert_eq!(seen, "serializable|on\n", "after a reload");
}

#[tokio::test]
async fn r50_commits_wait_for_standbys_where_the_server_asks_for_it() {
    testing_postgres::needs_postgresql!();
    let server = Server::start();
    server.configure("synchronous_commit", "remote_apply");
    let database = server.database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    database.run(RECORD);
    store.commit(Batch::new().put("a", "1")).await.unwrap();
    let seen = database.run("select distinct durable from control_plane.seen");
    assert_eq!(seen, "remote_apply\n");
}

#[tokio::test]
async fn r50_server_that_does_not_sync_is_refused() {
    testing_postgres::needs_postgresql!();
    let server = Server::start();
    let database = server.database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    server.configure("fsync", "off");
    let refused = PostgresStore::connect(&database.url()).await;
    let Err(error) = refused else {
        panic!("opened");
    };
    assert!(matches!(error, Error::Volatile { .. }), "{error:?}");
    assert!(error.to_string().contains("fsync = on"), "{error}");
    // Sessions that are opened later are refused too.
    server.stop();
    server.resume();
    let refused = loop {
        let refused = store.commit(Batch::new().put("a", "1")).await;
        if !matches!(refused, Err(CommitError::Unknown { .. })) {
            break refused;
        }
    };
    assert!(
        matches!(refused, Err(CommitError::Unavailable { .. })),
        "{refused:?}"
    );
    server.configure("fsync", "on");
    store.commit(Batch::new().put("a", "1")).await.unwrap();
}

/// Room for the connection that listens, one for commits and one for reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r50_call_waits_for_a_session_while_the_server_has_no_room() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let role = format!("narrow_{}", database.url().len());
    database.run(&format!("create role {role} login connection limit 3"));
    database.run(&format!("create schema narrow authorization {role}"));
    let open = || Options::new(database.url_of(&role)).schema("narrow");
    let store = open().connections(8).connect().await.unwrap();
    store.scan(KeyRange::all(), 1).await.unwrap();
    let commits = (0..40).map(|n| store.commit(Batch::new().put(format!("{n}"), "1")));
    for committed in join_all(commits).await {
        committed.unwrap();
    }
    let reads = (0..40).map(|_| store.scan(KeyRange::all(), 100));
    for page in join_all(reads).await {
        assert_eq!(page.unwrap().rows.len(), 40);
    }
    let short = open().timeout(Duration::from_millis(200)).connect().await;
    let Err(error) = short else {
        panic!("opened");
    };
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert!(source.unwrap().contains("too many connections"), "{error}");
    // A process that starts waits until another one has ended.
    let (other, ()) = futures::future::join(open().connect(), async { drop(store) }).await;
    other.unwrap();
}
