//! R108: alerts are read from servers that tell the truth, and each way to lie is an error with its reason.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

mod server;

use plugin_sdk::{SignalSource, Signals, Silence};
use plugins_prometheus::{Alertmanager, Error, Prometheus, Server};

use server::{Lying, answer, json};

const RULES: &str = "/api/v1/rules?type=alert";

/// The answer of Prometheus with one group of these rules, evaluated a minute before the answer.
fn rules(rules: &str) -> String {
    let group = r#""name":"slo","interval":60,"lastEvaluation":"2026-11-24T14:01:00Z""#;
    format!(r#"{{"status":"success","data":{{"groups":[{{{group},"rules":[{rules}]}}]}}}}"#)
}

/// A rule with an alert that fires for the cluster eu, and one that is pending.
fn firing(health: &str) -> String {
    let alert = |state: &str, cluster: &str| {
        let labels = format!(r#"{{"alertname":"Slow","cluster":"{cluster}"}}"#);
        format!(r#"{{"labels":{labels},"state":"{state}","activeAt":"2026-11-24T13:00:00Z"}}"#)
    };
    let alerts = [alert("firing", "eu"), alert("pending", "us")].join(",");
    let error = r#""lastError":"many-to-many matching not allowed""#;
    format!(r#"{{"name":"Slow","state":"firing","health":"{health}",{error},"alerts":[{alerts}]}}"#)
}

async fn prometheus(answer: Vec<u8>) -> Result<Signals, String> {
    let server = Lying::start(vec![(RULES, answer)]).await;
    let prometheus = Prometheus::new(Server::at(&server.address).unwrap()).unwrap();
    let read = prometheus.firing().await;
    read.map_err(|error| error.to_string().replace(&server.address, "SERVER"))
}

async fn refused(answer: Vec<u8>) -> String {
    prometheus(answer).await.unwrap_err()
}

#[tokio::test]
async fn r108_prometheus_reports_alerts_that_fire() {
    let signals = prometheus(json(&rules(&firing("ok")))).await.unwrap();
    assert_eq!(signals.as_of, "2026-11-24T14:02:00Z".parse().unwrap());
    let cached = ["Content-Type: application/json", "Age: 90"];
    let cached = answer("200 OK", &cached, &rules(&firing("ok")));
    let cached = prometheus(cached).await.unwrap();
    assert_eq!(cached.as_of, "2026-11-24T14:00:30Z".parse().unwrap());
    let shown: Vec<String> = signals.firing.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["Slow (cluster eu) since 2026-11-24T13:00:00Z"]);
}

#[tokio::test]
async fn r108_server_that_answers_otherwise_is_refused_with_the_reason() {
    let good = rules(&firing("ok"));
    let typed = |kind: &str| answer("200 OK", &[kind], &good);
    let html = answer("200 OK", &["Content-Type: text/html"], "<html>");
    assert!(
        refused(html)
            .await
            .starts_with("SERVER answers with `text/html`, which is not")
    );
    assert!(
        refused(typed("Content-Type: text/plain"))
            .await
            .contains("`text/plain`")
    );
    let elsewhere = answer("302 Found", &["Location: https://login.example.com/"], "");
    assert!(
        refused(elsewhere)
            .await
            .contains("redirects to `https://login.example.com/`")
    );
    let busy = answer("503 Service Unavailable", &[], "too many\n queries");
    assert_eq!(refused(busy).await, "SERVER answers 503: too many queries");
    let wrong = answer(
        "422 Unprocessable Entity",
        &[],
        r#"{"error":"query timed out"}"#,
    );
    assert!(
        refused(wrong)
            .await
            .contains("422: {\"error\":\"query timed out\"}")
    );
    for body in [
        "",
        "[]",
        "{}",
        "null",
        r#"{"status":"error"}"#,
        "{\"data\":{\"groups\":[{}]}}",
    ] {
        assert!(
            refused(json(body))
                .await
                .contains("which is not this API's"),
            "{body:?}"
        );
    }
    let undated = String::from_utf8(json(&good))
        .unwrap()
        .replace("Date: ", "Was: ");
    assert!(
        refused(undated.into_bytes())
            .await
            .contains("without the header `Date`")
    );
}

#[tokio::test]
async fn r108_answer_that_is_not_whole_is_refused() {
    let good = json(&rules(&firing("ok")));
    let cut = good[..good.len() - 20].to_vec();
    assert!(
        refused(cut)
            .await
            .contains("does not answer in 10 s, or not whole")
    );
    assert!(refused(vec![]).await.contains("not whole"));
    let partial = rules(&firing("ok")).replace(
        r#"{"status""#,
        r#"{"warnings":["store eu-1 unavailable"],"status""#,
    );
    assert_eq!(
        refused(json(&partial)).await,
        "SERVER warns \"store eu-1 unavailable\""
    );
    let paged = rules(&firing("ok")).replace(r#"{"groups""#, r#"{"groupNextToken":"x","groups""#);
    let paged = refused(json(&paged)).await;
    assert_eq!(paged, "SERVER warns \"there are more rule groups\"");
    let endless = answer(
        "200 OK",
        &["Content-Type: application/json"],
        &" ".repeat((64 << 20) + 1),
    );
    assert!(refused(endless).await.contains("more than 64 MiB"));
}

#[tokio::test(start_paused = true)]
async fn r108_server_that_is_too_slow_is_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let silent = Alertmanager::new(Server::at(&address).unwrap()).unwrap();
    let started = tokio::time::Instant::now();
    let error = silent.firing().await.unwrap_err().to_string();
    assert!(error.contains("does not answer in 10 s"), "{error}");
    assert_eq!(started.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn r108_rules_that_cannot_fire_are_an_error() {
    let fails = refused(json(&rules(&firing("err")))).await;
    let expected =
        "the alerting rule `Slow` of SERVER cannot be evaluated: many-to-many matching not allowed";
    assert_eq!(fails, expected);
    let early = firing("unknown").replace("many-to-many matching not allowed", "");
    assert!(
        refused(json(&rules(&early)))
            .await
            .ends_with("its health is unknown")
    );
    assert!(
        refused(json(&rules("")))
            .await
            .contains("has no alerting rules")
    );
    let without = |state| format!(r#"{{"name":"Slow","state":"{state}","health":"ok"}}"#);
    let inactive = prometheus(json(&rules(&without("inactive")))).await;
    assert_eq!(inactive.unwrap().firing, []);
    let missing = refused(json(&rules(&without("firing")))).await;
    assert!(
        missing.ends_with("it is firing, and its alerts are missing"),
        "{missing}"
    );
    let late = rules(&firing("ok")).replace("14:01:00", "13:59:44");
    let late = refused(json(&late)).await;
    assert!(
        late.starts_with("the rule group `slo` of SERVER was evaluated at 2026"),
        "{late}"
    );
    let in_time = rules(&firing("ok")).replace("14:01:00", "13:59:45");
    assert!(prometheus(json(&in_time)).await.is_ok());
}

/// Alerts as Alertmanager shows them: one that only fires, and others that are held back.
fn alerts() -> Vec<u8> {
    let alert = |(name, silenced, inhibited): &(&str, &str, &str)| {
        format!(
            r#"{{"labels":{{"alertname":"{name}","cluster":"eu"}},"startsAt":"2026-11-24T13:00:00Z",
                "status":{{"state":"x","silencedBy":[{silenced}],"inhibitedBy":[{inhibited}]}}}}"#
        )
    };
    let alerts = [
        ("Slow", "", ""),
        ("Full", r#""1","2""#, ""),
        ("Down", "", r#""f""#),
        ("Over", r#""3""#, ""),
        ("Gone", r#""4""#, ""),
    ];
    let alerts: Vec<String> = alerts.iter().map(alert).collect();
    json(&format!("[{}]", alerts.join(",")))
}

/// Two silences that are in force, and one that is over.
fn silences() -> Vec<u8> {
    let silence = |(id, by, ends): &(&str, &str, &str)| {
        format!(r#"{{"id":"{id}","createdBy":"{by}","endsAt":"{ends}","status":{{}}}}"#)
    };
    let silences = [
        ("1", "ada", "2026-11-24T15:00:00Z"),
        ("2", "bo", "2026-11-24T23:00:00Z"),
        ("3", "cy", "2026-11-24T14:00:00Z"),
    ];
    let silences: Vec<String> = silences.iter().map(silence).collect();
    json(&format!("[{}]", silences.join(",")))
}

#[tokio::test]
async fn r108_alertmanager_reports_silences_with_author_and_end() {
    let answers = vec![
        ("/api/v2/alerts?", alerts()),
        ("/api/v2/silences", silences()),
    ];
    let server = Lying::start(answers).await;
    let at = Server::at(&server.address).unwrap();
    let signals = Alertmanager::new(at).unwrap().firing().await.unwrap();
    let silence = |name: &str| {
        let found = signals.firing.iter().find(|alert| alert.name == name);
        found.unwrap().silenced.clone()
    };
    let longest = Silence {
        by: "bo".to_owned(),
        until: Some("2026-11-24T23:00:00Z".parse().unwrap()),
    };
    assert_eq!(silence("Full"), Some(longest));
    // A silence that is over, or that the server does not have, silences nothing.
    let others = (silence("Over"), silence("Gone"), silence("Slow"));
    assert_eq!(others, (None, None, None));
    let inhibited = signals.firing.iter().filter(|alert| alert.inhibited);
    let inhibited: Vec<&str> = inhibited.map(|alert| &*alert.name).collect();
    assert_eq!(inhibited, ["Down"]);
}

#[tokio::test]
async fn r108_credentials_and_headers_are_in_each_request_and_in_no_text() {
    let server = Lying::start(vec![("/eu/api/v2/alerts?", json("[]"))]).await;
    let at = Server::at(&format!("{}/eu/", server.address)).unwrap();
    let at = at.header("X-Scope-OrgID", "shop").unwrap();
    let at = at.basic("ada", "secret").unwrap();
    let shown = format!("{at:?}");
    let at = at.header("X-Api-Key", "confidential").unwrap();
    let alertmanager = Alertmanager::new(at).unwrap();
    let shown = [shown, format!("{alertmanager:?}")].concat();
    let basic = "YWRhOnNlY3JldA==";
    assert!(
        !shown.contains(basic) && !shown.contains("secret") && !shown.contains("confid"),
        "{shown}"
    );
    assert_eq!(alertmanager.firing().await.unwrap().firing, []);
    let request = server.asked().pop().unwrap();
    assert!(request.contains("x-scope-orgid: shop\r\n"), "{request}");
    let header = format!("authorization: Basic {basic}\r\n");
    assert!(request.contains(&header), "{request}");
}

#[tokio::test]
async fn r108_token_in_a_file_is_read_at_each_request() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let server = Lying::start(vec![("/api/v2/alerts", json("[]"))]).await;
    let at = Server::at(&server.address)
        .unwrap()
        .bearer_file(file.path());
    let alertmanager = Alertmanager::new(at).unwrap();
    for token in ["one\n", "two"] {
        std::fs::write(file.path(), token).unwrap();
        assert_eq!(alertmanager.firing().await.unwrap().firing, []);
        let last = server.asked().pop().unwrap();
        assert!(
            last.contains(&format!("authorization: Bearer {}\r\n", token.trim())),
            "{last}"
        );
    }
    drop(file);
    let error = alertmanager.firing().await.unwrap_err().to_string();
    assert!(
        error.contains("cannot read the token for http://127.0.0.1"),
        "{error}"
    );
}

#[tokio::test]
async fn r108_address_without_a_server_is_an_error() {
    let address = Lying::start(vec![]).await.address.clone();
    let gone = Alertmanager::new(Server::at(&address).unwrap()).unwrap();
    let error = gone.firing().await.unwrap_err();
    let error = error.downcast::<Error>().unwrap();
    assert!(matches!(*error, Error::Unreachable { .. }), "{error}");
}

#[test]
fn address_header_and_certificate_that_cannot_work_are_refused_at_once() {
    for wrong in [
        "",
        "prometheus:9090",
        "ftp://a",
        "http://",
        "http://a?b=c",
        "//a",
        "http//a",
    ] {
        let error = Server::at(wrong).unwrap_err().to_string();
        assert!(
            error.contains("is not an address of a server"),
            "{wrong:?}: {error}"
        );
    }
    let error = Server::at("http://ada:secret@a").unwrap_err().to_string();
    assert!(
        error.contains("`basic`") && !error.contains("secret"),
        "{error}"
    );
    let error = Server::at("ftp://ada:secret@a").unwrap_err().to_string();
    assert!(!error.contains("secret"), "{error}");
    let error = Server::at("https://a?token=secret")
        .unwrap_err()
        .to_string();
    assert!(!error.contains("secret"), "{error}");
    let server = || Server::at("https://a").unwrap();
    assert!(server().header("X Y", "z").is_err() && server().header("X", "a\nb").is_err());
    assert!(server().bearer("a\nb").is_err() && server().basic("a:b", "c").is_err());
    let error = server().ca("/etc/ca.pem").unwrap_err().to_string();
    assert!(error.contains("not its path"), "{error}");
}
