//! R108: values of expressions are read from a server that tells the truth, and each way to lie is an error with its reason.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod server;

use std::{sync::Arc, time::Duration};

use plugin_sdk::{
    BoxError, Expression, MetricQuery, MetricReading, MetricSource, Problem, Replicas, Windows,
};
use plugins_prometheus::{Prometheus, Server};

use server::{Lying, answer, json};

const BUSY: &str = "max by (cluster) (rate(busy_seconds_total[$window]))";

/// Two windows of 30 s, the last of which ends at 14:01:30. The servers here answer at 14:02:00.
fn windows() -> Windows {
    let now = "2026-11-24T14:01:50Z".parse().unwrap();
    Windows::closed(Duration::from_secs(30), Duration::from_secs(15), now).many(2)
}

fn query() -> MetricQuery {
    MetricQuery {
        expression: Expression::new(BUSY).by("cluster"),
        windows: windows(),
    }
}

/// An answer with these series.
fn matrix(rows: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{rows}]}}}}"#)
}

/// The series of a cluster, with a value at the end of the last window.
fn row(cluster: &str, value: &str) -> String {
    let end = windows().last.as_second();
    format!(r#"{{"metric":{{"cluster":"{cluster}"}},"values":[[{end},"{value}"]]}}"#)
}

fn at(server: &Lying) -> Prometheus {
    Prometheus::new(Server::at(&server.address).unwrap()).unwrap()
}

async fn read(answer: Vec<u8>) -> Result<MetricReading, String> {
    let server = Lying::start(vec![("/api/v1/query_range?", answer)]).await;
    let read = at(&server).read(query()).await;
    read.map_err(|error| error.to_string().replace(&server.address, "SERVER"))
}

async fn refused(answer: Vec<u8>) -> String {
    read(answer).await.unwrap_err()
}

#[tokio::test]
async fn r108_one_request_reads_all_series_and_windows() {
    let both = [row("eu", "0.25"), row("us", "1e3")].join(",");
    let server = Lying::start(vec![("/api/v1/query_range?", json(&matrix(&both)))]).await;
    let reading = at(&server).read(query()).await.unwrap();
    let [eu, us] = &reading.series[..] else {
        panic!("{reading:?}")
    };
    let end = windows().last;
    assert_eq!(
        (eu.labels["cluster"].as_str(), eu.samples[0]),
        ("eu", (end, 0.25))
    );
    assert_eq!(us.samples, [(end, 1000.0)]);
    assert_eq!(reading.as_of, end, "the server answers after the end");
    let [request] = &server.asked()[..] else {
        panic!("{:?}", server.asked())
    };
    let path = request.split(' ').nth(1).unwrap();
    let sent: Vec<(String, String)> =
        form_urlencoded::parse(path.split_once('?').unwrap().1.as_bytes())
            .into_owned()
            .collect();
    let (first, last) = (windows().first().as_second(), end.as_second());
    let expected = [
        (
            "query",
            "(max by (cluster) (rate(busy_seconds_total[30s]))\n) and on() \
             (max(timestamp(busy_seconds_total)) > time() - 60)"
                .to_owned(),
        ),
        ("start", first.to_string()),
        ("end", last.to_string()),
        ("step", "30".to_owned()),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(sent, expected);
    assert_eq!(last - first, 30);
}

#[tokio::test]
async fn r108_answer_that_is_partial_or_about_something_else_is_refused() {
    let good = matrix(&row("eu", "1"));
    let warns = good.replace(
        r#"{"status""#,
        r#"{"warnings":["store eu-1 unavailable"],"status""#,
    );
    assert_eq!(
        refused(json(&warns)).await,
        "SERVER warns \"store eu-1 unavailable\""
    );
    let remark = good.replace(r#"{"status""#, r#"{"infos":["is it a counter?"],"status""#);
    assert_eq!(
        read(json(&remark)).await.unwrap().infos,
        ["is it a counter?"]
    );
    let twice = matrix(&[row("eu", "1"), row("eu", "2")].join(","));
    assert!(
        refused(json(&twice))
            .await
            .contains("two series {\"cluster\": \"eu\"}")
    );
    let vector = good.replace("matrix", "vector");
    assert!(refused(json(&vector)).await.contains("resultType vector"));
    let end = windows().last.as_second();
    for other in [
        "1764000000",
        &format!("{}", end + 30),
        &format!("{}", end - 60),
        &format!("{end}.5"),
    ] {
        let other = good.replace(&end.to_string(), other);
        let why = refused(json(&other)).await;
        assert!(why.contains("which is outside of the query"), "{why}");
    }
    assert!(
        refused(json(&matrix(&row("eu", "fast"))))
            .await
            .contains("the value fast")
    );
}

#[tokio::test]
async fn r108_answer_that_is_none_or_not_whole_is_refused() {
    let good = matrix(&row("eu", "1"));
    for body in [
        "",
        "{}",
        "[]",
        r#"{"status":"success","data":{"resultType":"matrix"}}"#,
    ] {
        assert!(
            refused(json(body))
                .await
                .contains("which is not this API's"),
            "{body}"
        );
    }
    let whole = json(&good);
    let cut = whole[..whole.len() - 9].to_vec();
    assert!(refused(cut).await.contains("or not whole"));
    let html = answer("200 OK", &["Content-Type: text/html"], &good);
    assert!(refused(html).await.contains("answers with `text/html`"));
    let elsewhere = answer("302 Found", &["Location: /login"], "");
    assert!(refused(elsewhere).await.contains("redirects to `/login`"));
    let wrong = answer("422 Unprocessable Entity", &[], "query timed out");
    assert_eq!(refused(wrong).await, "SERVER answers 422: query timed out");
    let endless = answer(
        "200 OK",
        &["Content-Type: application/json"],
        &" ".repeat((64 << 20) + 1),
    );
    assert!(refused(endless).await.contains("more than 64 MiB"));
}

#[tokio::test]
async fn r108_numbers_that_are_none_and_windows_without_values_are_left_to_the_reader() {
    let all = ["NaN", "+Inf", "-Inf"]
        .map(|value| row(value, value))
        .join(",");
    let reading = read(json(&matrix(&all))).await.unwrap();
    assert_eq!(reading.series.len(), 3);
    let values = reading.series.iter().map(|it| it.samples[0].1);
    assert!(values.into_iter().all(|value| !value.is_finite()));
    assert_eq!(read(json(&matrix(""))).await.unwrap().series, []);
}

#[tokio::test]
async fn r108_server_that_is_behind_says_so_by_its_date() {
    let early = json(&matrix(&row("eu", "1")));
    let early = String::from_utf8(early)
        .unwrap()
        .replace("14:02:00", "14:01:20");
    let reading = read(early.into_bytes()).await.unwrap();
    assert_eq!(reading.as_of, "2026-11-24T14:01:20Z".parse().unwrap());
}

/// The expression that is sent for `text`.
async fn sent(text: &str) -> String {
    let server = Lying::start(vec![("/", json(&matrix("")))]).await;
    let expression = Expression::new(text);
    let read = MetricQuery {
        expression,
        ..query()
    };
    at(&server).read(read).await.unwrap();
    let request = server.asked().pop().unwrap();
    let parameters = request.split([' ', '?']).nth(2).unwrap().to_owned();
    let mut parameters = form_urlencoded::parse(parameters.as_bytes());
    parameters.next().unwrap().1.into_owned()
}

#[tokio::test]
async fn r108_values_count_while_a_metric_in_them_is_fresh() {
    let fresh = |of: &str| format!("max(timestamp({of})) > time() - 60");
    for (text, guard) in [
        ("up", fresh("up")),
        ("a / (b offset 1d)", fresh("a")),
        ("a or vector(0)", fresh("a")),
        (
            "rate(b[5m]) / a",
            format!("{} or {}", fresh("a"), fresh("b")),
        ),
        ("max_over_time(a[1h:1m])", fresh("a")),
        ("a # by machine", fresh("a")),
        (
            r#"m{code=~"5..", path!~"/a\\.b", q="\"x\""}"#,
            fresh(r#"m{code=~"5..",path!~"/a\\.b",q="\"x\""}"#),
        ),
    ] {
        assert_eq!(sent(text).await, format!("({text}\n) and on() ({guard})"));
    }
    // They are about no metric of the present.
    assert_eq!(sent("vector(1)").await, "vector(1)");
    assert_eq!(sent("m offset 1d").await, "m offset 1d");
    let scalar = format!("vector(scalar(a)\n) and on() ({})", fresh("a"));
    assert_eq!(sent("scalar(a)").await, scalar);
}

#[tokio::test]
async fn r108_more_windows_than_the_limit_are_refused_before_the_server_is_asked() {
    let server = Lying::start(vec![]).await;
    let windows = windows().many(1_001);
    let error = at(&server).read(MetricQuery { windows, ..query() }).await;
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "1001 windows in one query: the limit is 1000");
    assert!(server.asked().is_empty());
}

fn accepts(text: &str) -> Result<(), Problem> {
    let prometheus = Prometheus::new(Server::at("http://a").unwrap()).unwrap();
    prometheus.accepts(&Expression::new(text).by("cluster"))
}

#[test]
fn expressions_that_keep_the_label_are_accepted() {
    for good in [
        "up",
        BUSY,
        "sum by (cluster, job) (rate(m[5m]))",
        "histogram_quantile(0.95, sum by (cluster, le) (rate(l_bucket[$window])))",
        "sum without (job) (m)",
        "topk(3, m)",
        "sum by (cluster) (a) / sum by (cluster) (b)",
        "sum by (cluster) (a) / on(cluster) group_left(team) b",
        "100 * (1 - m)",
        "sum by (cluster) (a) or sum by (cluster) (b)",
        "a unless on(job) b",
        r#"label_replace(sum by (region) (m), "cluster", "$1", "region", "(.*)")"#,
        "max_over_time(max by (cluster) (m)[10m:1m])",
        "-m",
    ] {
        assert_eq!(accepts(good), Ok(()), "{good}");
    }
}

#[test]
fn expressions_that_lose_the_label_or_are_none_are_refused_with_the_reason() {
    for lost in [
        "sum(m)",
        "sum by (job) (m)",
        "sum without (cluster) (m)",
        "sum by (cluster) (sum(m))",
        "histogram_quantile(0.95, sum by (le) (rate(l_bucket[$window])))",
        "sum by (cluster) (a) / on() group_left() sum(b) or sum(a)",
        "a / on(job) b",
        "a / ignoring(cluster) b",
        "vector(1)",
    ] {
        let why = accepts(lost).unwrap_err().message;
        assert!(why.contains("loses the label `cluster`"), "{lost}: {why}");
    }
    for wrong in [
        "",
        "sum(",
        "rate(m)",
        "m[5m]",
        "sum by (cluster) m m",
        "\"text\"",
        "2",
    ] {
        let why = accepts(wrong).unwrap_err().message;
        assert!(!why.contains("loses"), "{wrong}: {why}");
    }
    let range = accepts("m[5m]").unwrap_err().message;
    assert!(
        range.starts_with("`m[5m]` is a matrix: write an expression"),
        "{range}"
    );
    let long = format!("{} > 0", "a".repeat(5_000));
    assert!(accepts(&long).unwrap_err().message.contains("5004 bytes"));
}

#[tokio::test]
async fn r108_of_two_replicas_the_fresher_and_fuller_answer_counts() {
    let some = json(&matrix(&row("eu", "1")));
    let fuller = matrix(&[row("eu", "2"), row("us", "2")].join(","));
    let more = json(&fuller);
    let late = String::from_utf8(more.clone()).unwrap();
    let late = late.replace("14:02:00", "14:01:00");
    let warns = json(&fuller.replace("\"data\"", "\"warnings\":[\"a store is down\"],\"data\""));
    let value = async |one: Vec<u8>, two: Vec<u8>| -> Result<f64, BoxError> {
        let one = Lying::start(vec![("/", one)]).await;
        let two = Lying::start(vec![("/", two)]).await;
        let both = Replicas::of([Arc::new(at(&one)), Arc::new(at(&two))]);
        Ok(both.read(query()).await?.series[0].samples[0].1)
    };
    assert_eq!(
        value(some.clone(), more.clone()).await.unwrap(),
        2.0,
        "it has more series"
    );
    assert_eq!(
        value(late.into_bytes(), some.clone()).await.unwrap(),
        1.0,
        "it is fresher"
    );
    assert_eq!(
        value(some, vec![]).await.unwrap(),
        1.0,
        "the other one is down"
    );
    let both = value(vec![], warns).await.unwrap_err().to_string();
    assert!(
        both.contains("not whole") && both.ends_with("warns \"a store is down\""),
        "{both}"
    );
    let none: Replicas<Arc<Prometheus>> = Replicas::of([]);
    let none = none.read(query()).await.unwrap_err().to_string();
    assert_eq!(none, "there is no replica: give it at least one");
}
