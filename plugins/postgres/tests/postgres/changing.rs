//! What has changed since a revision, and hints.

use std::collections::BTreeMap;

use futures::StreamExt;
use plugin_sdk::{Document, Update, conformance, document::DocumentKey};
use proptest::{prelude::*, test_runner::TestRunner};

use super::*;

/// Counts the changes of the table `services`.
const COUNTED: &str = "create table changes (n bigint); insert into changes values (0);
    create function count_change() returns trigger language plpgsql as
        $$ begin update changes set n = n + 1; notify changed; return null; end $$;
    create trigger counted after insert or update or delete or truncate on services
        for each statement execute function count_change()";

#[tokio::test]
async fn r43_source_keeps_the_laws_of_sources() {
    testing_postgres::needs_postgresql!();
    for token in [false, true] {
        let (database, mut source) = services();
        database.run(COUNTED);
        if token {
            source = source.change_token("select n from changes");
        }
        let statements = [
            "update services set replicas = 4 where name = 'eu-web'",
            "insert into services values ('asia-web', 1); delete from services where name = 'us-web'",
            "update services set name = 'eu' where name = 'eu-web'",
            "truncate services",
            "insert into services values ('eu-web', 3), ('us-web', 5)",
            "alter table services add column owner text default 'team'",
        ];
        let changes = statements.map(|sql| {
            let database = &database;
            // The last one changes no row, so that the token has to be changed by hand.
            move || drop(database.run(&format!("{sql}; update changes set n = n + 1")))
        });
        conformance::source(&source, changes).await.unwrap();
    }
}

#[tokio::test]
async fn r43_unchanged_rows_are_the_same_documents() {
    testing_postgres::needs_postgresql!();
    let (database, source) = services();
    let before = source.read().await.unwrap();
    assert_eq!(
        source.read_since(&before.revision).await.unwrap(),
        Update::Same
    );
    database.run("update services set replicas = 4 where name = 'us-web'; insert into services values ('a', 1)");
    let Update::Delta(delta) = source.read_since(&before.revision).await.unwrap() else {
        panic!("the source knows this revision");
    };
    let put: Vec<String> = delta.put.iter().map(|document| document.name()).collect();
    assert_eq!(
        (put, delta.gone),
        (vec!["services/a".into(), "services/us-web".into()], vec![])
    );
    let now = source.read().await.unwrap();
    let find = |reading: &Reading| {
        let mut all = reading.documents.iter();
        all.find(|document| document.name() == "services/eu-web")
            .cloned()
            .unwrap()
    };
    assert!(shares(&find(&before), &find(&now)));
}

#[tokio::test]
async fn r43_rows_are_not_read_while_the_token_is_the_same() {
    testing_postgres::needs_postgresql!();
    let (database, source) = services();
    database.run("create table version (v text); insert into version values ('one')");
    let source = source.change_token("select v from version;");
    let one = source.read().await.unwrap();
    assert!(one.revision.0.starts_with("one/"), "{}", one.revision.0);
    // Reading the rows would fail now.
    database.run("alter table services rename to away");
    assert_eq!(
        source.read_since(&one.revision).await.unwrap(),
        Update::Same
    );
    let restarted = of(&database)
        .query(all_services())
        .change_token("select v from version;");
    assert_eq!(
        restarted.read_since(&one.revision).await.unwrap(),
        Update::Same
    );
    let other_query = Query::new("services", ["name"], "select name from services");
    let other = of(&database)
        .query(other_query)
        .change_token("select v from version;");
    assert!(other.read_since(&one.revision).await.is_err());
    database.run("update version set v = 'two'");
    assert!(source.read_since(&one.revision).await.is_err());
    database.run("alter table away rename to services");
    let update = source.read_since(&one.revision).await.unwrap();
    assert!(matches!(update, Update::Delta(delta) if delta.put.is_empty()));
}

#[tokio::test]
async fn notifications_and_lost_connections_are_hints() {
    testing_postgres::needs_postgresql!();
    let server: Own = Server::start();
    let database = server.database();
    let source = of(&database).listen("changed");
    let mut hints = source.changes();
    // One when it listens, one for the notification, one when it listens again.
    hints.next().await.unwrap();
    database.run("notify changed");
    hints.next().await.unwrap();
    server.stop();
    server.resume();
    hints.next().await.unwrap();
    drop(hints);
    let listens = "select count(*) from pg_stat_activity where query like 'LISTEN%'";
    while database.run(listens) != "0\n" {
        tokio::task::yield_now().await;
    }
}

/// One step of a table's history.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Remove(u8),
    Swap(u8, u8),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u8, 0..3_u8).prop_map(|(name, replicas)| Step::Put(name, replicas)),
        3 => (0..6_u8).prop_map(Step::Remove),
        2 => (0..6_u8, 0..6_u8).prop_map(|(one, other)| Step::Swap(one, other)),
        1 => Just(Step::Clear),
    ]
}

fn sql(step: &Step) -> String {
    match step {
        Step::Put(name, replicas) => format!(
            "insert into services values ('s{name}', {replicas}) on conflict (name) do update set replicas = {replicas}"
        ),
        Step::Remove(name) => format!("delete from services where name = 's{name}'"),
        Step::Swap(one, other) => format!(
            "update services a set replicas = b.replicas from services b
             where (a.name, b.name) in (('s{one}', 's{other}'), ('s{other}', 's{one}'))"
        ),
        Step::Clear => "truncate services".into(),
    }
}

/// The documents of a reading, by key.
fn keyed(reading: Reading) -> BTreeMap<DocumentKey, Document> {
    let documents = reading.documents.into_iter();
    documents.map(|it| (it.key().clone(), it)).collect()
}

/// Follows a history of the table by what has changed, and compares with whole readings by other sources.
async fn follow(database: &Database, steps: &[(Step, bool)]) {
    let rows = "insert into services values ('s0', 3), ('s1', 5)";
    database.run(&format!("truncate services; {rows}"));
    let list = Query::new("list", ["name"], "select name, replicas from services");
    let source = || {
        of(database)
            .query(all_services())
            .query(list.clone().as_one_document())
    };
    let followed = source();
    let first = followed.read().await.unwrap();
    let (mut revision, mut documents) = (first.revision.clone(), keyed(first));
    for (step, read) in steps {
        database.run(&sql(step));
        if *read {
            let update = followed.read_since(&revision).await.unwrap();
            (revision, documents) = update.applied_to(&revision, &documents);
            let whole = source().read().await.unwrap();
            assert_eq!(revision, whole.revision);
            assert_eq!(documents, keyed(whole));
        }
    }
}

#[test]
fn r43_delta_of_a_table_equals_a_whole_reading() {
    testing_postgres::needs_postgresql!();
    let (database, _) = services();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = ProptestConfig {
        cases: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let steps = proptest::collection::vec((step(), any::<bool>()), 1..8);
    let law = TestRunner::new(config).run(&steps, |steps| {
        runtime.block_on(follow(&database, &steps));
        Ok(())
    });
    law.unwrap();
}
