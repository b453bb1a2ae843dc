//! The source against a real server, which the tests start.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

mod changing;
mod refusing;
mod values;

use std::sync::Arc;

use plugin_sdk::{Problems, Reading, SourceOfTruth, document::Node};
use plugins_postgres::{Postgres, Query};
use testing_postgres::{Database, Server};

/// A database with a table of services, and a source that reads it.
fn services() -> (Database, Postgres) {
    let database = Server::shared().database();
    database.run(
        "create table services (name text primary key, replicas int not null);
         insert into services values ('eu-web', 3), ('us-web', 5)",
    );
    let source = of(&database).query(all_services());
    (database, source)
}

fn all_services() -> Query {
    Query::new("services", ["name"], "select * from services")
}

/// A source without queries.
fn of(database: &Database) -> Postgres {
    Postgres::new("intent", &database.url())
}

/// The documents of a reading by name.
fn named(reading: &Reading) -> Vec<(String, Node)> {
    let documents = reading.documents.iter();
    let named = documents.map(|document| (document.name(), document.root().clone()));
    let mut named: Vec<_> = named.collect();
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    named
}

fn json(value: serde_json::Value) -> Node {
    Node::from(value)
}

/// The text of all problems of a reading that fails.
async fn problems(source: &Postgres) -> String {
    let problems: Problems = source.read().await.unwrap_err();
    problems.to_string()
}

/// Whether a document of both readings is one and the same in memory.
fn shares(one: &plugin_sdk::Document, other: &plugin_sdk::Document) -> bool {
    std::ptr::eq(one.root(), other.root())
}

/// Keeps a server of the test's own.
type Own = Arc<Server>;
