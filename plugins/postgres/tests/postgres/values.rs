//! What rows become.

use serde_json::json as value;

use super::*;

#[tokio::test]
async fn rows_are_documents_known_by_their_key() {
    testing_postgres::needs_postgresql!();
    let (_database, source) = services();
    let reading = source.read().await.unwrap();
    let expected = [
        (
            "services/eu-web".to_owned(),
            json(value!({"name": "eu-web", "replicas": 3})),
        ),
        (
            "services/us-web".to_owned(),
            json(value!({"name": "us-web", "replicas": 5})),
        ),
    ];
    assert_eq!(named(&reading), expected);
}

#[tokio::test]
async fn keys_have_several_columns_and_lists_their_order() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let rows = "(values (2, 'b'), (10, 'a'), (2, 'B')) as t (n, s)";
    let rows = format!("select * from {rows} -- all of them");
    let each = Query::new("each", ["n", "s"], &*rows);
    let list = Query::new("list", ["s", "n"], &*rows).as_one_document();
    let none = Query::new("none", ["s"], "select 'x' as s where false;").as_one_document();
    let source = of(&database).query(each).query(list).query(none);
    let named = named(&source.read().await.unwrap());
    let names: Vec<&str> = named.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["each/10/a", "each/2/B", "each/2/b", "list", "none"]);
    // By their bytes, not by a language.
    let sorted = value!([{"n": 2, "s": "B"}, {"n": 10, "s": "a"}, {"n": 2, "s": "b"}]);
    assert_eq!(named[3].1, json(sorted));
    assert_eq!(named[4].1, json(value!([])));
}

#[tokio::test]
async fn r45_values_of_every_supported_type_are_exact() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    database.run(
        r#"create type size as enum ('small', 'large');
        create domain port as int check (value > 0);
        create domain ports as port[];
        create table t (k uuid, i2 smallint, i8 bigint, n numeric, n2 numeric(10, 2), big numeric, f4 real, f8 double precision,
            b bool, s varchar(9), c char(3), nothing text, j json, jb jsonb, jn jsonb, ts timestamptz, d date, raw bytea,
            e size, p port, ps ports, texts text[], grid int[], js jsonb[], raws bytea[], times timestamptz[], empty text[]);
        insert into t values ('6ECD8C99-4036-403D-BF84-CF8400F67836', -7, 9223372036854775807, 18446744073709551615, 1.50,
            123456789012345678901234567890.5, 0.1, 1e-300, true, 'é"\', 'a', null, '{"b" : [1.0, null]}',
            '{"b": 9007199254740993, "a": 0.1}', 'null', '2024-02-29 12:00:00+02', '2024-02-29', '\x00ff', 'large', 80,
            '{80,443}', '{a,null,"b c"}', '{{1,2},{3,4}}', array['1'::jsonb, '{"x": "y"}'], array['\x01'::bytea],
            array['2024-01-01 00:00:00.000001+00'::timestamptz], '{}')"#,
    );
    let source = of(&database).query(Query::new("t", ["k"], "select * from t"));
    let named = named(&source.read().await.unwrap());
    let expected = value!({
        "k": "6ecd8c99-4036-403d-bf84-cf8400f67836", "i2": -7, "i8": 9_223_372_036_854_775_807_i64,
        "n": 18_446_744_073_709_551_615_u64, "n2": 1.5, "big": "123456789012345678901234567890.5", "f4": 0.1,
        "f8": 1e-300, "b": true, "s": "é\"\\", "c": "a  ", "nothing": null, "j": {"b": [1.0, null]},
        "jb": {"b": 9_007_199_254_740_993_i64, "a": 0.1}, "jn": null, "ts": "2024-02-29T10:00:00Z", "d": "2024-02-29",
        "raw": "AP8=", "e": "large", "p": 80, "ps": [80, 443], "texts": ["a", null, "b c"], "grid": [[1, 2], [3, 4]],
        "js": [1, {"x": "y"}], "raws": ["AQ=="], "times": ["2024-01-01T00:00:00.000001Z"], "empty": [],
    });
    let (name, root) = &named[0];
    assert_eq!(name, "t/6ecd8c99-4036-403d-bf84-cf8400f67836");
    for (column, value) in expected.as_object().unwrap() {
        let path = column.parse().unwrap();
        assert_eq!(root.at(&path), Some(&json(value.clone())), "{column}");
    }
}

#[tokio::test]
async fn r44_all_queries_see_one_snapshot() {
    testing_postgres::needs_postgresql!();
    let (database, _) = services();
    // The first query lasts until another transaction has committed a change, which the second must not see.
    database.run(
        "create extension if not exists dblink;
         create function changed() returns text language sql volatile as $$
             select dblink_exec('host=' || split_part(current_setting('unix_socket_directories'), ',', 1)
                 || ' user=tester dbname=' || current_database(), 'update services set replicas = replicas + 1') $$",
    );
    let first = Query::new(
        "first",
        ["name"],
        "select name, changed() from services where name = 'eu-web'",
    );
    let source = of(&database).query(first).query(all_services());
    let reading = source.read().await.unwrap();
    let seen = named(&reading).remove(1);
    assert_eq!(seen.1, json(value!({"name": "eu-web", "replicas": 3})));
    assert_eq!(
        database.run("select replicas from services where name = 'eu-web'"),
        "4\n"
    );
}
