//! Tests every layer of this crate against the laws of check layers, and tests the claims of the layers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use std::{sync::Arc, time::Duration};

use annealing_checks::{
    BlastRadiusLayer, CalendarLayer, DependencySolverLayer, MonitoringLayer, OverloadLayer,
    RateLayer, Scope, SerializeLayer, Types, calendar::Calendar, monitoring::Monitoring,
    overload::Overload,
};
use futures::executor::block_on;
use jiff::{Timestamp, ToSpan};
use plugin_sdk::{
    Alert, BoxError, Cause, Causes, Change, CheckRequest, Claim, Diff, Effects, Expression,
    MetricQuery, MetricReading, MetricSource, Observed, Problem, Quota, Series, SignalSource,
    Signals, Verdict,
    conformance::{Beneath, check_layer},
    service::{Proceed, StackService, stack},
    testing::{self, FakeView, NOW},
};
use prodspec_model::{
    Asset, AssetBuilder, Message,
    addons::{ImpactedDomains, Need, PhysicalCluster},
};
use tower::Layer;

fn asset(id: &str, with: impl Fn(AssetBuilder) -> AssetBuilder) -> Asset {
    with(testing::asset(id).edit()).build().unwrap()
}

fn in_cluster(id: &str, cluster: &str) -> Asset {
    let addon = PhysicalCluster {
        cluster: cluster.into(),
    };
    asset(id, |builder| builder.addon(&addon).unwrap())
}

fn hurting(id: &str, domains: ImpactedDomains) -> Asset {
    asset(id, |builder| builder.addon(&domains).unwrap())
}

fn domains(names: &[&str]) -> ImpactedDomains {
    ImpactedDomains::Domains(names.iter().map(|name| (*name).to_owned()).collect())
}

/// Requests of every kind that the layers here treat differently.
fn requests() -> Vec<CheckRequest> {
    let job = in_cluster("job/eu", "eu");
    let plain = testing::check_request(&job);
    let mut requests = vec![plain.clone()];
    let days = (0..7).map(|days| NOW + (days * 31).hours());
    for now in days.chain([Timestamp::MIN + 1.hour(), Timestamp::MAX]) {
        let mut request = plain.clone();
        request.now = now;
        requests.push(request);
    }
    requests.push(testing::without_content(plain.clone()));
    requests.extend(with_view(&plain));
    requests
}

/// Requests with a consumer, a provider and a neighbour that cannot be observed, around the asset of `plain`.
fn with_view(plain: &CheckRequest) -> Vec<CheckRequest> {
    let [provider, consumer, silent] = ["provider", "consumer", "silent"].map(testing::asset);
    let unit = || Need::Capacity { unit: "qps".into() };
    let requests = [(0, 10), (10, 0), (10, 20)].map(|change| {
        let view = FakeView::new(NOW - 5.seconds());
        view.edge(plain.asset_id(), &provider.id(), unit());
        view.edge(plain.asset_id(), &provider.id(), Need::Order);
        view.edge(&consumer.id(), plain.asset_id(), unit());
        view.edge(plain.asset_id(), &silent.id(), unit());
        for other in [&provider, &consumer] {
            view.set(&other.id(), with_qps(10));
        }
        let effects = Effects::default().capacity("qps", change.0, change.1);
        let mut request = plain.clone().view(Arc::new(view));
        request.change = Arc::new(Change::new(&testing::asset("job/eu"), "x", vec![], effects));
        request
    });
    requests.into()
}

fn with_qps(qps: u64) -> Diff {
    Diff::in_sync().observed(Observed::default().capacity("qps", qps))
}

fn keeps_the_laws(
    layer: impl Layer<Beneath, Service: StackService<CheckRequest, Verdict>>,
    causes: Causes,
) {
    block_on(check_layer(layer, causes, requests())).unwrap();
}

const ONE_A_MINUTE: Quota = Quota::new(1, Duration::from_secs(60));

#[test]
fn calendar_solver_and_claim_layers_keep_the_laws() {
    keeps_the_laws(
        CalendarLayer::weekdays("America/New_York").unwrap(),
        Causes::INTENT,
    );
    let strict = Calendar::builder("UTC").weekly("Mon 09:00-10:00");
    keeps_the_laws(
        CalendarLayer::new(strict.causes(Causes::ALL).build().unwrap()),
        Causes::ALL,
    );
    keeps_the_laws(DependencySolverLayer::capacity(), Causes::ALL);
    keeps_the_laws(DependencySolverLayer::standard(), Causes::ALL);
    for scope in [
        Scope::all(),
        Scope::per_type(),
        Scope::per_cluster(),
        Scope::per_domain(["eu", "us"]),
        Scope::by(|asset| Some(asset.id_str().to_owned())),
        Scope::all().only(Types::only(["db.v1.Schema"])),
    ] {
        keeps_the_laws(SerializeLayer::new("one", scope.clone()), Causes::ALL);
        let some = Causes::of(&[Cause::Intent, Cause::Drift]);
        keeps_the_laws(BlastRadiusLayer::new("few", scope.clone(), 2), some);
        keeps_the_laws(RateLayer::new("slow", scope, ONE_A_MINUTE), Causes::ALL);
    }
}

/// A source that always returns the same signals, or always fails.
struct FakeSource(Option<Signals>);

#[async_trait::async_trait]
impl SignalSource for FakeSource {
    async fn firing(&self) -> Result<Signals, plugin_sdk::BoxError> {
        self.0.clone().ok_or_else(|| "down".into())
    }
}

#[test]
fn monitoring_keeps_the_laws_with_any_signals() {
    let about_eu = Alert::named("DiskFull").label("cluster", "eu");
    let firing = [vec![], vec![about_eu], vec![Alert::named("Sun")]];
    let signals = firing.map(|firing| Signals { firing, as_of: NOW });
    for signals in signals.into_iter().map(Some).chain([None]) {
        let monitoring = || Monitoring::new(FakeSource(signals.clone()));
        keeps_the_laws(MonitoringLayer::new(monitoring()), Causes::INTENT);
        let everything = monitoring().causes(Causes::ALL).watchdog("Sun");
        keeps_the_laws(MonitoringLayer::new(everything), Causes::ALL);
        let scoped = monitoring().within(Scope::per_cluster(), "cluster");
        keeps_the_laws(MonitoringLayer::new(scoped), Causes::INTENT);
    }
}

/// A source that always has these values per cluster, or always fails.
struct FakeMetrics(Option<Vec<(&'static str, f64)>>);

#[async_trait::async_trait]
impl MetricSource for FakeMetrics {
    fn accepts(&self, _: &Expression) -> Result<(), Problem> {
        Ok(())
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        let as_of = query.windows.last;
        let values = self.0.clone().ok_or("down")?.into_iter();
        let series = values.map(|(eu, value)| Series::new([(as_of, value)]).label("cluster", eu));
        Ok(MetricReading {
            series: series.collect(),
            as_of,
            infos: Vec::new(),
        })
    }
}

#[test]
fn overload_keeps_the_laws_with_any_values() {
    let values = [
        vec![],
        vec![("eu", 0.1)],
        vec![("eu", 0.9), ("us", f64::NAN)],
    ];
    for values in values.into_iter().map(Some).chain([None]) {
        let rule = || Overload::at_most(0.8, "busy");
        let scoped = rule().within(Scope::per_cluster(), "cluster");
        for rule in [rule(), scoped] {
            let overload = rule.reading(FakeMetrics(values.clone())).unwrap();
            keeps_the_laws(OverloadLayer::new(overload), Causes::INTENT);
        }
    }
}

/// The keys that a push of `asset` is serialized under.
fn keys(scope: Scope, asset: &Asset) -> Vec<String> {
    let checks = stack(SerializeLayer::new("one", scope).layer(Proceed));
    let verdict = block_on(checks.call(testing::check_request(asset))).unwrap();
    assert!(verdict.is_proceed(), "{verdict:?}");
    let key = |claim: &Claim| match claim {
        Claim::Exclusive(key) => key.0.to_string(),
        other => panic!("{other:?}"),
    };
    verdict.claims.iter().map(key).collect()
}

#[test]
fn r9_scope_decides_which_pushes_count_together() {
    let job = in_cluster("job/eu", "eu");
    assert_eq!(keys(Scope::all(), &job), ["one/all"]);
    assert_eq!(
        keys(Scope::per_type(), &job),
        [format!("one/{}", testing::Thing::TYPE)]
    );
    assert_eq!(keys(Scope::per_cluster(), &job), ["one/eu"]);
    assert_eq!(
        keys(Scope::per_cluster(), &testing::asset("nowhere")),
        [""; 0]
    );
    assert_eq!(
        keys(
            Scope::by(|asset| Some(asset.id_str()[..3].to_owned())),
            &job
        ),
        ["one/job"]
    );
    assert_eq!(keys(Scope::by(|_| None), &job), [""; 0]);
    assert_eq!(
        keys(Scope::all().only(Types::only(["db.v1.Schema"])), &job),
        [""; 0]
    );
}

#[test]
fn r9_asset_counts_in_every_domain_it_can_hurt() {
    let scope = || Scope::per_domain(["eu", "us"]);
    assert_eq!(keys(scope(), &hurting("a", domains(&["us"]))), ["one/us"]);
    assert_eq!(
        keys(scope(), &hurting("a", domains(&["eu", "us"]))),
        ["one/eu", "one/us"]
    );
    let everywhere = hurting("a", ImpactedDomains::Global);
    assert_eq!(keys(scope(), &everywhere), ["one/eu", "one/us"]);
    assert_eq!(
        keys(scope(), &testing::asset("a")),
        ["one/eu", "one/us"],
        "it names no domain"
    );
}

#[test]
fn unknown_domain_delays_and_is_named() {
    let checks = stack(SerializeLayer::new("one", Scope::per_domain(["eu"])).layer(Proceed));
    let request = testing::check_request(&hurting("a", domains(&["mars"])));
    let verdict = block_on(checks.call(request)).unwrap();
    assert!(verdict.delays[0].reason.contains("`mars`"), "{verdict:?}");
    assert_eq!(verdict.claims, []);
}

#[test]
fn r9_rate_is_claimed_and_not_counted_by_the_layer() {
    let checks = stack(RateLayer::new("slow", Scope::all(), ONE_A_MINUTE).layer(Proceed));
    let request = testing::check_request(&testing::asset("a"));
    for _ in 0..3 {
        let verdict = block_on(checks.call(request.clone())).unwrap();
        assert!(verdict.is_proceed());
        assert_eq!(
            verdict.claims,
            [Claim::Rate("slow/all".into(), ONE_A_MINUTE)]
        );
    }
}
