//! What is refused, and what the problems say.

use std::time::Duration;

use plugins_postgres::Limits;

use super::*;

/// A source with one query named `q`, whose key is `k`.
fn one(database: &Database, sql: &str) -> Postgres {
    of(database).query(Query::new("q", ["k"], sql))
}

#[tokio::test]
async fn all_problems_of_all_queries_are_reported_with_their_place() {
    testing_postgres::needs_postgresql!();
    let (database, source) = services();
    let source = source
        .query(Query::new(
            "wrong",
            ["name"],
            "select name,\n  nmae from services",
        ))
        .query(Query::new(
            "types",
            ["name"],
            "select name, interval '1 day' as every, now()::timestamp as at from services",
        ))
        .query(Query::new(
            "divides",
            ["name"],
            "select name, 1 / (replicas - 3) from services",
        ));
    let found = problems(&source).await;
    let place = format!("{}/test", database.directory().display());
    assert!(found.contains(&place), "{found}");
    for expected in [
        "query `wrong` at ",
        ":2:3: the server refuses it: column \"nmae\" does not exist",
        "every: values of the type `interval` cannot be read; cast it to text",
        "at: values of the type `timestamp` cannot be read; say which zone",
        "query `divides` at ",
        "division by zero",
        "(says source intent)",
    ] {
        assert!(found.contains(expected), "{expected} in {found}");
    }
}

#[tokio::test]
async fn keys_that_are_missing_null_or_shared_are_refused_by_name() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let cases = [
        (
            "select 1 as n",
            "k: is the key, but the query gives no such column",
        ),
        ("select 1.5 as k", "k: a key must be a text or an integer"),
        ("select null::text as k", "query `q` at"),
        (
            "select ''::text as k",
            "k: a row has no value, or an empty one",
        ),
        ("select 'a' as k, 1 as n union all select 'a', 2", "q/a at"),
        (
            "select 'a' as k, 1 as n union all select 'a', 2",
            "2 rows have this name",
        ),
        (
            "select 'a' as k, 1 as x, 2 as x",
            "x: there are two columns of this name",
        ),
    ];
    for (sql, expected) in cases {
        for source in [
            one(&database, sql),
            of(&database).query(Query::new("q", ["k"], sql).as_one_document()),
        ] {
            let found = problems(&source).await;
            assert!(found.contains(expected), "{expected} in {found}");
        }
    }
    let none: [&str; 0] = [];
    let unnamed = of(&database).query(Query::new("q", none, "select 1 as n"));
    assert!(problems(&unnamed).await.contains("has no key column"));
    let clash =
        one(&database, "select 'a/b' as k").query(Query::new("q/a", ["k"], "select 'b' as k"));
    assert!(problems(&clash).await.contains("q/a/b at"));
}

#[tokio::test]
async fn r45_values_that_json_cannot_hold_are_refused_with_row_and_column() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let cases = [
        ("'NaN'::float8", "NaN is no finite number"),
        ("'Infinity'::numeric", "Infinity is no finite number"),
        ("array['1', 'NaN']::float4[]", "NaN is no finite number"),
        ("'infinity'::timestamptz", "infinity is no point in time"),
        ("'123456789012345678901'::jsonb", "does not fit"),
        ("'{\"a\": 1, \"a\": 2}'::json", "the key `a` appears twice"),
        ("repeat('[', 70)::text || repeat(']', 70)", ""),
        (
            "(repeat('[', 70) || repeat(']', 70))::jsonb",
            "nested deeper than 64 levels",
        ),
    ];
    for (value, expected) in cases {
        let read = one(&database, &format!("select 'row' as k, {value} as v"))
            .read()
            .await;
        match (read, expected) {
            (Ok(_), "") => {}
            (Err(found), expected) => {
                let found = found.to_string();
                let named = found.starts_with("q/row at ") && found.contains(": v: the value ");
                assert!(named && found.contains(expected), "{expected} in {found}");
            }
            (Ok(_), expected) => panic!("{value} was read: {expected}"),
        }
    }
}

#[tokio::test]
async fn queries_that_write_or_have_parameters_are_refused() {
    testing_postgres::needs_postgresql!();
    let (database, _) = services();
    database.run(
        "create function writes() returns int language sql as $$ insert into services values ('x', 1) returning 1 $$",
    );
    for sql in [
        "select 'a' as k, writes()",
        "insert into services values ('y', 1) returning name as k",
        "select 'a' as k where $1",
        "select 'a' as k; drop table services",
        "",
    ] {
        let found = problems(&one(&database, sql)).await;
        assert!(found.contains("query `q` at "), "{sql}: {found}");
    }
    assert_eq!(database.run("select count(*) from services"), "2\n");
}

#[tokio::test]
async fn limits_and_deadline_are_kept() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let many = "select n as k from generate_series(1, 1000000) n";
    let few = Limits {
        rows: 10,
        ..Limits::default()
    };
    let found = problems(&one(&database, many).limits(few)).await;
    assert!(found.contains("gives more than 10 rows"), "{found}");
    let exactly = one(&database, "select n as k from generate_series(1, 10) n").limits(few);
    assert_eq!(exactly.read().await.unwrap().documents.len(), 10);
    let short = Limits {
        bytes: 100,
        ..Limits::default()
    };
    let found = problems(&one(&database, "select 'a' as k, repeat('x', 100)").limits(short)).await;
    assert!(found.contains("gives more than 100 bytes"), "{found}");

    let slow = one(&database, "select 'a' as k, pg_sleep(1000)::text")
        .deadline(Duration::from_millis(300));
    let found = problems(&slow).await;
    assert!(found.contains("raise the deadline"), "{found}");
    let sleeping = "select count(*) from pg_stat_activity where query like '%pg_sleep(1000)%' and pid <> pg_backend_pid()";
    while database.run(sleeping) != "0\n" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn dropped_readings_end_on_the_server_too() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let slow =
        one(&database, "select 'a' as k, pg_sleep(1000)::text").deadline(Duration::from_secs(600));
    let sleeping = "select count(*) from pg_stat_activity where query like '%pg_sleep(1000)%' and state = 'active'
                    and pid <> pg_backend_pid()";
    let reading = tokio::spawn({
        let slow = slow.clone();
        async move { slow.read().await }
    });
    while database.run(sleeping) != "1\n" {
        tokio::task::yield_now().await;
    }
    reading.abort();
    while database.run(sleeping) != "0\n" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn lost_servers_are_connected_to_by_the_next_reading() {
    testing_postgres::needs_postgresql!();
    let server: Own = Server::start();
    let database = server.database();
    let source = one(&database, "select 'a' as k");
    let before = source.read().await.unwrap();
    server.stop();
    let found = problems(&source).await;
    assert!(
        found.contains("cannot connect as `tester`")
            && found.contains("the next reading tries again"),
        "{found}"
    );
    server.resume();
    assert_eq!(source.read().await.unwrap(), before);
}

#[tokio::test]
async fn passwords_are_used_and_never_shown() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    database.run("drop role if exists locked; create role locked login password 'right-secret'");
    let source = Postgres::new("intent", &database.url_of("locked")).query(Query::new(
        "q",
        ["k"],
        "select 'a' as k",
    ));
    source
        .clone()
        .password("right-secret")
        .read()
        .await
        .unwrap();
    let wrong = source.password("wrong-secret");
    let found = format!("{} {wrong:?}", problems(&wrong).await);
    assert!(found.contains("password authentication failed"), "{found}");
    assert!(
        found.contains("locked") && !found.contains("secret"),
        "{found}"
    );
}

#[tokio::test]
async fn wrong_settings_are_problems_of_each_reading() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let twice = one(&database, "select 'a' as k").query(Query::new("q", ["k"], "select 'b' as k"));
    assert!(
        problems(&twice)
            .await
            .contains("two queries have the name `q`")
    );
    assert!(problems(&of(&database)).await.contains("has no query"));
    assert!(
        problems(&Postgres::new("intent", "no url"))
            .await
            .contains("the URL of the database cannot be used")
    );
    for (token, expected) in [
        ("select 1, 2", "gives 2 columns"),
        ("select 1 where false", "gives no row"),
        (
            "select n from generate_series(1, 3) n",
            "gives no row or several",
        ),
        ("select nothing", ":1:8: the server refuses it"),
    ] {
        let found = problems(&one(&database, "select 'a' as k").change_token(token)).await;
        assert!(
            found.contains(expected) && found.contains("change token"),
            "{found}"
        );
    }
}
