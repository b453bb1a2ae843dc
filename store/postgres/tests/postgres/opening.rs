//! Opening: tables are created once, and a database that cannot be used is refused with what to do.

use control_plane_store::{Batch, KeyRange, Store};
use control_plane_store_postgres::{Error, Options, PostgresStore};
use futures::future::join_all;
use testing_postgres::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_open_an_empty_database_at_once_share_one_store() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let url = database.url();
    let stores = join_all((0..6).map(|_| PostgresStore::connect(&url))).await;
    for (n, store) in stores.iter().enumerate() {
        let store = store.as_ref().unwrap();
        store
            .commit(Batch::new().put(format!("{n}"), "1"))
            .await
            .unwrap();
    }
    let page = stores[0].as_ref().unwrap().scan(KeyRange::all(), 10).await;
    assert_eq!(page.unwrap().rows.len(), 6);
    assert_eq!(
        database.run("select count(*) from control_plane.about"),
        "1\n"
    );
}

#[tokio::test]
async fn databases_that_cannot_be_used_are_refused() {
    testing_postgres::needs_postgresql!();
    let server = Server::shared();
    let database = server.database();
    let said = async |options: Options| {
        let error = options.connect().await.unwrap_err();
        (error.to_string(), error)
    };
    let (message, error) = said(Options::new("postgres://u@localhost/x?host=/nowhere")).await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(
        message.contains("/nowhere") && message.contains("check the server"),
        "{message}"
    );

    database.run("create schema taken; create table taken.rows (n int)");
    let (message, error) = said(Options::new(database.url()).schema("taken")).await;
    assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    assert!(message.contains("schema `taken`"), "{message}");
    assert_eq!(
        database.run("select count(*) from pg_tables where schemaname = 'taken'"),
        "1\n",
        "nothing is added to the tables of another program"
    );

    drop(PostgresStore::connect(&database.url()).await.unwrap());
    database.run("update control_plane.about set format = 99");
    let (message, error) = said(Options::new(database.url())).await;
    assert!(
        matches!(error, Error::Format { found: 99, .. }),
        "{error:?}"
    );
    assert!(
        message.contains("use the version that wrote it"),
        "{message}"
    );

    database.run("create role guest login");
    let (message, error) = said(Options::new(database.url_of("guest")).schema("guests")).await;
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    assert!(message.contains("make the role its owner"), "{message}");
    database.run("create schema guests authorization guest");
    let options = Options::new(database.url_of("guest")).schema("guests");
    let store = options.connect().await.unwrap();
    store.commit(Batch::new().put("a", "1")).await.unwrap();
    database.run("drop schema guests cascade");
}

#[tokio::test]
async fn rows_are_readable_with_ordinary_tools() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    let batch = Batch::new().put("head/shop", r#"{"incarnation":42}"#);
    store
        .commit(batch.put("pack/1", vec![0_u8, 255]))
        .await
        .unwrap();
    let shown = database.run("select key, value from control_plane.shown order by key");
    assert_eq!(shown, "head/shop|{\"incarnation\":42}\npack/1|\\000\\377\n");
}

#[tokio::test]
async fn keys_and_values_may_have_any_bytes() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    let keys = ["\0", "a\0b", "a\0c", "\u{10ffff}"];
    let batch = keys
        .iter()
        .fold(Batch::new(), |batch, key| batch.put(*key, *key));
    store.commit(batch).await.unwrap();
    let page = store
        .scan(KeyRange::all().after(&"a\0b".into()), 10)
        .await
        .unwrap();
    let found: Vec<_> = page.rows.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(found, keys[2..]);
}
