//! R107, R108: which alerts condemn a rollout, which are shown only, and which lies are unknown.

use std::{sync::Mutex, time::Duration};

use async_trait::async_trait;
use futures::executor::block_on;
use jiff::{Timestamp, ToSpan};
use plugin_sdk::{
    Alert, BoxError, Health, HealthRequest, HealthValidator, Judgement, SignalSource, Signals,
    Silence,
    testing::{self, NOW, watched},
};
use prodspec_model::addons::PhysicalCluster;

use super::Alerts;

/// A source that returns these signals, or cannot be read.
struct FakeSource(Mutex<Option<Signals>>);

#[async_trait]
impl SignalSource for FakeSource {
    async fn firing(&self) -> Result<Signals, BoxError> {
        let signals = self.0.lock().unwrap().clone();
        signals.ok_or_else(|| "connection refused".into())
    }
}

fn source(as_of: Timestamp, firing: impl IntoIterator<Item = Alert>) -> FakeSource {
    let firing = firing.into_iter().collect();
    FakeSource(Mutex::new(Some(Signals { firing, as_of })))
}

/// A rollout that moved `job/eu` a minute ago, and can hurt `job/us` and `global`.
fn request() -> HealthRequest {
    let in_cluster = |name: &str, cluster: &str| {
        let cluster = cluster.to_owned();
        let asset = testing::asset(name).edit();
        asset
            .addon(&PhysicalCluster { cluster })
            .unwrap()
            .build()
            .unwrap()
    };
    let (eu, us) = (in_cluster("job/eu", "eu"), in_cluster("job/us", "us"));
    let reader = testing::reader(vec![eu, us, testing::asset("global")]);
    testing::health_request(["job/eu"])
        .neighbours(vec![watched("job/us", NOW), watched("global", NOW)])
        .began(NOW - 60.seconds())
        .reader(reader)
}

fn verdict(alerts: &Alerts, request: HealthRequest) -> Health {
    block_on(alerts.validate(request)).unwrap()
}

/// Returns the verdict on [`request`] if these alerts fire.
fn judged(firing: impl IntoIterator<Item = Alert>) -> Health {
    let alerts = Alerts::new(source(NOW, firing)).per_domain("cluster");
    verdict(&alerts, request())
}

fn slow(cluster: &str, since: Timestamp) -> Alert {
    Alert::named("Slow").label("cluster", cluster).since(since)
}

fn summaries(health: &Health) -> Vec<&str> {
    health
        .findings
        .iter()
        .map(|finding| &*finding.summary)
        .collect()
}

#[test]
fn r107_alert_that_began_during_the_rollout_condemns_it() {
    let since = NOW - 10.seconds();
    // The rollout has moved an asset in eu. An edge ties an asset in us to it.
    for cluster in ["eu", "us"] {
        let health = judged([slow(cluster, since).inhibited(true)]);
        assert_eq!(health.judgement, Judgement::Unhealthy);
        let expected = format!("the alert Slow (cluster {cluster}) since {since} fires");
        assert_eq!(summaries(&health), [expected]);
        assert_eq!(health.findings[0].evidence["alert"]["name"], "Slow");
    }
    assert_eq!(judged([slow("asia", since)]).judgement, Judgement::Healthy);
    let everywhere = Alert::named("Down").since(since);
    assert_eq!(judged([everywhere]).judgement, Judgement::Unhealthy);
}

#[test]
fn r107_alert_is_about_all_domains_that_a_moved_asset_without_one_can_hurt() {
    let asia = source(NOW, [slow("asia", NOW)]);
    let alerts = Alerts::new(asia).per_domain("cluster");
    let global = || watched("global", NOW);
    assert_eq!(
        verdict(&alerts, request().under_way(vec![global()])).judgement,
        Judgement::Unhealthy
    );
    let unread = request().updated(vec![watched("job/unread", NOW)]);
    assert_eq!(verdict(&alerts, unread).judgement, Judgement::Unhealthy);
    let near = request().neighbours(vec![global()]);
    assert_eq!(verdict(&alerts, near).judgement, Judgement::Healthy);
}

#[test]
fn r107_alert_that_fired_before_the_rollout_began_is_shown_and_condemns_nothing() {
    let health = judged([slow("eu", NOW - 90.seconds())]);
    assert_eq!(health.judgement, Judgement::Healthy);
    let [summary] = summaries(&health)[..] else {
        panic!("{health:?}")
    };
    assert!(
        summary.ends_with("fires, and did before the rollout began"),
        "{summary}"
    );
    let at_first = judged([slow("eu", NOW - 60.seconds())]);
    assert_eq!(at_first.judgement, Judgement::Unhealthy);
    let about_then = judged([slow("eu", NOW - 89.seconds())]);
    assert_eq!(about_then.judgement, Judgement::Unknown);
    let unknown = judged([Alert::named("Slow").label("cluster", "eu")]);
    assert_eq!(unknown.judgement, Judgement::Unknown);
}

#[test]
fn r108_silenced_alert_is_shown_and_condemns_nothing() {
    let silence = Silence {
        by: "bo".to_owned(),
        until: None,
    };
    let health = judged([slow("eu", NOW).silenced(silence)]);
    assert_eq!(health.judgement, Judgement::Healthy);
    let summary = summaries(&health).concat();
    assert!(
        summary.ends_with("silenced by bo does not count"),
        "{summary}"
    );
}

#[test]
fn r108_alerts_that_cannot_be_read_or_are_old_or_unwatched_are_unknown() {
    let alerts =
        |as_of, firing: Vec<Alert>| Alerts::new(source(as_of, firing)).watchdog("Watchdog");
    let watchdog = || vec![Alert::named("Watchdog")];
    let says = |alerts: Alerts| verdict(&alerts, request());
    let good = says(alerts(NOW - 30.seconds(), watchdog()));
    assert_eq!(
        (good.judgement, good.as_of),
        (Judgement::Healthy, NOW - 30.seconds())
    );
    for (as_of, firing, why) in [
        (NOW - 31.seconds(), watchdog(), "31s old"),
        (
            NOW + 31.seconds(),
            watchdog(),
            "31s ahead of this process's clock",
        ),
        (NOW, vec![], "should always fire and does not"),
    ] {
        let health = says(alerts(as_of, firing));
        assert_eq!(health.judgement, Judgement::Unknown);
        assert!(
            health.as_of <= NOW && summaries(&health).concat().contains(why),
            "{health:?}"
        );
    }
    let longer = alerts(NOW - 31.seconds(), watchdog()).max_age(Duration::from_secs(31));
    assert_eq!(says(longer).judgement, Judgement::Healthy);
    let broken = Alerts::new(FakeSource(Mutex::new(None)));
    let error = block_on(broken.validate(request())).unwrap_err();
    assert_eq!(error.to_string(), "connection refused");
}
