//! Whole control planes that share a store in PostgreSQL, each with connections of its own, as processes have them.

use std::time::Duration;

use control_plane::prelude::*;
use control_plane_store_postgres::PostgresStore;
use testing_postgres::{Database, Server};

use crate::world::{LONG, Production, Running, Text, id, plane};

async fn process(
    database: &Database,
    name: &str,
    text: &Text,
    production: &Production,
) -> ControlPlane {
    plane(production)
        .store(PostgresStore::connect(&database.url()).await.unwrap())
        .source(text.clone())
        .validators(validators::standard())
        .process_id(name.into())
        .lease_term(Duration::from_secs(3))
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r50_second_process_takes_over_from_one_that_died_and_enforces_the_newest_intent() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let (text, production) = (
        Text::new("services: {eu: {size: 1}}"),
        Production::default(),
    );
    let first = Running::start(process(&database, "one", &text, &production).await);
    first.handle.settle(LONG).await.unwrap();
    let second = Running::start(process(&database, "two", &text, &production).await);
    let owner = second.handle.status().await.unwrap().owner;
    assert_eq!(owner, Some("one".into()));
    text.edit("services: {eu: {size: 2}}");
    first.handle.settle(LONG).await.unwrap();

    // The first process dies: it gives nothing up.
    first.task.abort();
    assert!(first.task.await.unwrap_err().is_cancelled());
    text.edit("services: {eu: {size: 2}, us: {size: 3}}");
    let settled = second.handle.settle(LONG).await.unwrap();
    assert_eq!(settled.to_string(), "world@3");
    let owner = second.handle.status().await.unwrap().owner;
    assert_eq!(owner, Some("two".into()));
    assert_eq!(production.size("us"), Some(3));
    assert_eq!(production.state().pushes, ["eu", "eu", "us"].map(id));
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r50_server_that_restarts_is_survived_and_what_was_edited_meanwhile_is_enforced() {
    testing_postgres::needs_postgresql!();
    let server = Server::start();
    let database = server.database();
    let (text, production) = (
        Text::new("services: {eu: {size: 1}}"),
        Production::default(),
    );
    let running = Running::start(process(&database, "one", &text, &production).await);
    running.handle.settle(LONG).await.unwrap();
    server.stop();
    text.edit("services: {eu: {size: 2}}");
    server.resume();
    // The run that met no server has failed, and is repeated with the next change.
    let sealed = loop {
        match running.handle.settle(LONG).await {
            Ok(settled) => break settled,
            Err(_) => text.edit("services: {eu: {size: 3}}"),
        }
    };
    assert!(sealed.no > IncarnationNo(1));
    assert!(production.size("eu") > Some(1));
    running.stop().await;
}
