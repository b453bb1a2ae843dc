//! R21, R105: which values condemn a rollout, which are unknown, and how often the source is read.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::executor::block_on;
use jiff::{Timestamp, ToSpan};
use plugin_sdk::{
    BoxError, Expression, Health, HealthRequest, HealthValidator, Judgement, MetricQuery,
    MetricReading, MetricSource, Problem, Series, Windows,
    testing::{self, NOW, watched},
};
use prodspec_model::addons::PhysicalCluster;

use super::{ByExpression, Measured, Rule, cluster};

/// The latencies of two clusters, by the end of their window. Other windows have the last ones.
struct Fake {
    latest: Mutex<Option<Vec<(&'static str, f64)>>>,
    windows: Mutex<BTreeMap<Timestamp, Vec<(&'static str, f64)>>>,
    behind: i64,
    reads: Mutex<Vec<Windows>>,
}

impl Fake {
    fn new(latest: impl IntoIterator<Item = (&'static str, f64)>) -> Arc<Self> {
        Arc::new(Self {
            latest: Mutex::new(Some(latest.into_iter().collect())),
            windows: Mutex::default(),
            behind: 0,
            reads: Mutex::default(),
        })
    }

    fn at(self: Arc<Self>, end: Timestamp, values: &[(&'static str, f64)]) -> Arc<Self> {
        self.windows.lock().unwrap().insert(end, values.to_vec());
        self
    }

    fn fails(&self) {
        *self.latest.lock().unwrap() = None;
    }

    fn reads(&self) -> usize {
        self.reads.lock().unwrap().len()
    }
}

#[async_trait]
impl MetricSource for Fake {
    fn accepts(&self, expression: &Expression) -> Result<(), Problem> {
        match expression.to_string().is_empty() {
            true => Err(Problem::new("there is no expression")),
            false => Ok(()),
        }
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        let end = query.windows.last;
        self.reads.lock().unwrap().push(query.windows);
        let then = self.windows.lock().unwrap().get(&end).cloned();
        let values = then.or_else(|| self.latest.lock().unwrap().clone());
        let series = values.ok_or("connection refused")?.into_iter();
        let series = series.map(|(cluster, value)| {
            let series = Series::new([(end, value)]).label("cluster", cluster);
            series.label("job", format!("job/{cluster}"))
        });
        Ok(MetricReading {
            series: series.collect(),
            as_of: end - self.behind.seconds(),
            infos: Vec::new(),
        })
    }
}

fn rule() -> Rule {
    let latency = Measured::by("latency").meets("cluster", cluster);
    let latency = latency.meets("job", |asset| Some(asset.id_str().to_owned()));
    latency.at_most("latency", 0.25)
}

fn by(source: &Arc<Fake>) -> ByExpression {
    rule().reading(source.clone()).unwrap()
}

/// A rollout that moved `job/eu` ten minutes ago, and can hurt `job/us`.
fn request() -> HealthRequest {
    let in_cluster = |cluster: &str| {
        let asset = testing::asset(&format!("job/{cluster}")).edit();
        let cluster = cluster.to_owned();
        let asset = asset.addon(&PhysicalCluster { cluster }).unwrap();
        asset.build().unwrap()
    };
    let began = NOW - 10.minutes();
    testing::health_request(["job/eu"])
        .updated(vec![watched("job/eu", began)])
        .neighbours(vec![watched("job/us", began)])
        .began(began)
        .reader(testing::reader(vec![in_cluster("eu"), in_cluster("us")]))
}

fn verdict(by: &ByExpression, request: HealthRequest) -> Health {
    block_on(by.validate(request)).unwrap()
}

/// The judgement of [`request`], and the first summary.
fn judged(source: &Arc<Fake>) -> (Judgement, String) {
    let health = verdict(&by(source), request());
    (health.judgement, health.findings[0].summary.clone())
}

#[test]
fn r21_value_of_an_asset_is_compared_with_the_bound() {
    let good = judged(&Fake::new([("eu", 0.2), ("us", 0.1)]));
    let expected = "job/eu: 0.2, at most 0.25".to_owned();
    assert_eq!(good, (Judgement::Healthy, expected));
    let bad = judged(&Fake::new([("eu", 0.3), ("us", 0.1)]));
    let expected = "job/eu: 0.3 instead of at most 0.25".to_owned();
    assert_eq!(bad, (Judgement::Unhealthy, expected));
    let health = verdict(&by(&Fake::new([("eu", 0.3), ("us", 0.1)])), request());
    let [finding] = &health.findings[..] else {
        panic!("{health:?}")
    };
    assert_eq!(&*finding.validator, "latency");
    assert_eq!(finding.evidence["values"], serde_json::json!([0.3]));
    assert_eq!(finding.evidence["window"]["last"], "2026-03-04T11:59:00Z");
    let busy = Measured::by("free").at_least("free", 0.25);
    let busy = busy.reading(Fake::new([])).unwrap();
    assert_eq!(verdict(&busy, request()).judgement, Judgement::Unknown);
}

#[test]
fn r21_no_value_two_values_and_no_number_are_unknown() {
    for (values, why) in [
        (
            vec![("us", 0.1)],
            "job/eu: no value at 2026-03-04T11:59:00Z",
        ),
        (
            vec![("eu", 0.1), ("eu", 0.1), ("us", 0.1)],
            "job/eu: 2 series: aggregate them to one",
        ),
        (
            vec![("eu", f64::NAN), ("us", 0.1)],
            "job/eu: the value at 2026-03-04T11:59:00Z is no number",
        ),
        (
            vec![("eu", f64::NEG_INFINITY), ("us", 0.1)],
            "job/eu: the value at 2026-03-04T11:59:00Z is no number",
        ),
    ] {
        let (judgement, summary) = judged(&Fake::new(values));
        assert_eq!((judgement, summary.as_str()), (Judgement::Unknown, why));
    }
}

#[test]
fn r21_only_windows_after_the_asset_was_updated_count() {
    let source = Fake::new([("eu", 0.1), ("us", 0.1)]);
    let since = |since| {
        let request = request().updated(vec![watched("job/eu", since)]);
        verdict(&by(&source), request).judgement
    };
    let start = NOW - 120.seconds();
    assert_eq!(since(start), Judgement::Healthy);
    assert_eq!(since(start + 1.second()), Judgement::Unknown);
}

#[test]
fn r21_of_assets_under_way_only_bad_values_count() {
    let under_way = |eu: f64, since: Timestamp| {
        let values: Vec<_> = Some(("eu", eu))
            .into_iter()
            .filter(|it| it.1 >= 0.0)
            .collect();
        let request = request().neighbours(vec![]).updated(vec![]);
        let request = request.under_way(vec![watched("job/eu", since)]);
        verdict(&by(&Fake::new(values)), request).judgement
    };
    let before = NOW - 10.minutes();
    assert_eq!(under_way(0.3, before), Judgement::Unhealthy);
    assert_eq!(under_way(0.3, NOW - 60.seconds()), Judgement::Healthy);
    assert_eq!(under_way(-1.0, before), Judgement::Healthy);
}

#[test]
fn r21_neighbour_that_was_ill_before_the_rollout_condemns_nothing() {
    // The rollout began at 11:50.
    let before = NOW - 10.minutes();
    let ill = || Fake::new([("eu", 0.1), ("us", 0.9)]);
    let was = |us: f64| ill().at(before, &[("us", us)]);
    assert_eq!(
        verdict(&by(&was(0.1)), request()).judgement,
        Judgement::Unhealthy
    );
    let health = verdict(&by(&was(0.5)), request());
    assert_eq!(health.judgement, Judgement::Healthy);
    let shown = &health.findings[1].summary;
    assert_eq!(shown, "job/us: unhealthy since before the rollout began");
    let endless = verdict(&by(&was(f64::INFINITY)), request()).judgement;
    assert_eq!(endless, Judgement::Unhealthy, "it is no number");
    let unknown = ill().at(before, &[]);
    assert_eq!(
        verdict(&by(&unknown), request()).judgement,
        Judgement::Unhealthy
    );
    let alone = rule().without_neighbours().reading(was(0.1)).unwrap();
    assert_eq!(verdict(&alone, request()).judgement, Judgement::Healthy);
}

#[test]
fn r105_a_window_is_read_once_for_all_assets_and_rollouts() {
    let source = Fake::new([("eu", 0.1), ("us", 0.1)]);
    let by = by(&source);
    for second in 0..60 {
        let mut request = request();
        request.now = NOW + second.seconds();
        assert_eq!(verdict(&by, request).judgement, Judgement::Healthy);
    }
    assert_eq!(source.reads(), 2, "those that end at 11:59 and at 12:00");
    source.fails();
    let mut late = request();
    late.now = NOW + 75.seconds();
    let error = block_on(by.validate(late)).unwrap_err();
    assert_eq!(error.to_string(), "connection refused");
}

#[test]
fn r21_source_that_is_behind_is_unknown() {
    let source = |behind| {
        let mut source = Fake::new([("eu", 0.1), ("us", 0.1)]);
        Arc::get_mut(&mut source).unwrap().behind = behind;
        judged(&source)
    };
    assert_eq!(source(30).0, Judgement::Healthy);
    let (judgement, why) = source(31);
    assert_eq!(judgement, Judgement::Unknown);
    assert!(
        why.starts_with("the newest values of `latency` are from"),
        "{why}"
    );
}

#[test]
fn rules_that_cannot_be_applied_are_refused() {
    let endless = Measured::by("latency").at_most("latency", f64::NAN);
    assert!(endless.reading(Fake::new([])).is_err());
    let none = Measured::by("").at_most("latency", 1.0);
    assert!(none.reading(Fake::new([])).is_err());
    let other = rule().only(["shop.v1.Job"]).reading(Fake::new([])).unwrap();
    assert_eq!(verdict(&other, request()).judgement, Judgement::Healthy);
}
