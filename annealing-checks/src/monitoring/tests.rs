//! Tests of monitoring: which pushes are delayed, and how often the source is called.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{channel::oneshot, executor::block_on, future::join_all};
use jiff::{Timestamp, ToSpan};
use plugin_sdk::{
    Alert, BoxError, Cause, CheckPlugin, CheckRequest, Mono, SignalSource, Signals, Silence,
    Verdict,
    service::{Proceed, stack},
    testing::{self, NOW},
};
use prodspec_model::{Asset, addons::PhysicalCluster};
use tower::Layer;

use super::{Monitoring, MonitoringLayer};
use crate::{Scope, Types};

/// A source that returns what a test sets, counts its calls, and can be blocked.
#[derive(Default)]
struct FakeSource {
    signals: Mutex<Option<Signals>>,
    calls: AtomicUsize,
    held: Mutex<Option<oneshot::Receiver<()>>>,
}

impl FakeSource {
    fn new(as_of: Timestamp, firing: impl IntoIterator<Item = Alert>) -> Arc<Self> {
        let source = Arc::new(Self::default());
        source.set(as_of, firing);
        source
    }

    fn set(&self, as_of: Timestamp, firing: impl IntoIterator<Item = Alert>) {
        let firing = firing.into_iter().collect();
        *self.signals.lock().unwrap() = Some(Signals { firing, as_of });
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl SignalSource for FakeSource {
    async fn firing(&self) -> Result<Signals, BoxError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let held = self.held.lock().unwrap().take();
        if let Some(held) = held {
            let _ = held.await;
        }
        let signals = self.signals.lock().unwrap().clone();
        signals.ok_or_else(|| "connection refused".into())
    }
}

fn in_cluster(cluster: &str) -> Asset {
    let addon = PhysicalCluster {
        cluster: cluster.into(),
    };
    let asset = testing::asset(&format!("job/{cluster}")).edit();
    asset.addon(&addon).unwrap().build().unwrap()
}

/// A request at `now`, with clocks that agree.
fn at(now: Timestamp) -> CheckRequest {
    let passed = now.duration_since(NOW).as_secs();
    by_clocks(now, passed)
}

/// A request at the wall-clock time `now`, `passed` seconds after [`NOW`] by the monotonic clock.
fn by_clocks(now: Timestamp, passed: i64) -> CheckRequest {
    let start = 86_400;
    let mut request = testing::check_request(&in_cluster("eu"));
    request.now = now;
    request.mono = Mono(u64::try_from(start + passed).unwrap() * 1_000_000_000);
    request
}

fn verdict(monitoring: &Monitoring, request: CheckRequest) -> Verdict {
    block_on(monitoring.check(request)).unwrap()
}

fn disk_full() -> Alert {
    Alert::named("DiskFull").label("cluster", "eu")
}

#[test]
fn firing_alert_delays_and_is_named() {
    let source = FakeSource::new(NOW, [disk_full()]);
    let monitoring = Monitoring::new(source.clone());
    let found = verdict(&monitoring, at(NOW));
    let [delay] = &found.delays[..] else {
        panic!("{found:?}")
    };
    assert_eq!(delay.reason, "the alert DiskFull (cluster eu) fires");
    assert_eq!(delay.evidence["firing"][0]["labels"]["cluster"], "eu");
    let later = NOW + 10.seconds();
    source.set(later, []);
    assert!(verdict(&monitoring, at(later)).is_proceed());
}

#[test]
fn r108_inhibited_alert_delays_and_silenced_one_is_shown() {
    let silence = Silence {
        by: "bo".to_owned(),
        until: Some(NOW + 1.hour()),
    };
    let silenced = || disk_full().silenced(silence.clone());
    let source = FakeSource::new(NOW, [silenced()]);
    let monitoring = Monitoring::new(source.clone());
    assert!(verdict(&monitoring, at(NOW)).is_proceed());
    let later = NOW + 10.seconds();
    source.set(later, [silenced(), Alert::named("Slow").inhibited(true)]);
    let found = verdict(&monitoring, at(later));
    let [delay] = &found.delays[..] else {
        panic!("{found:?}")
    };
    assert_eq!(delay.reason, "the alert Slow fires");
    assert_eq!(delay.evidence["silenced"][0]["silenced"]["by"], "bo");
    let shown = silenced().to_string();
    assert!(shown.contains("silenced by bo until 2"), "{shown}");
}

#[test]
fn r6_monitoring_applies_to_intent_only_by_default() {
    let source = FakeSource::new(NOW - 1.hour(), [disk_full()]);
    let checks = stack(MonitoringLayer::any(source.clone()).layer(Proceed));
    for cause in [Cause::Rollback, Cause::Drift, Cause::Emergency] {
        let request = at(NOW).cause(cause);
        let found = block_on(checks.call(request)).unwrap();
        assert!(found.is_proceed(), "{cause:?}: {found:?}");
    }
    assert_eq!(
        source.calls(),
        0,
        "the source is not called for causes that do not apply"
    );
    assert!(!block_on(checks.call(at(NOW))).unwrap().is_proceed());
}

#[test]
fn missing_and_stale_signals_delay() {
    let proceeds = |as_of: Timestamp, now: Timestamp| {
        verdict(&Monitoring::new(FakeSource::new(as_of, [])), at(now)).is_proceed()
    };
    assert!(proceeds(NOW - 30.seconds(), NOW));
    assert!(!proceeds(NOW - 31.seconds(), NOW));
    assert!(
        !proceeds(NOW + 31.seconds(), NOW),
        "signals from the future delay"
    );
    let silent = Arc::new(FakeSource::default());
    let found = verdict(&Monitoring::new(silent), at(NOW));
    assert!(
        found.delays[0].reason.contains("connection refused"),
        "{found:?}"
    );
}

#[test]
fn r10_a_verdict_is_as_old_as_its_signals() {
    let born = NOW - 20.seconds();
    let monitoring = Monitoring::new(FakeSource::new(born, []));
    assert_eq!(verdict(&monitoring, at(NOW)).as_of, born);
    assert_eq!(verdict(&monitoring, at(NOW + 4.seconds())).as_of, born);
    let early = Monitoring::new(FakeSource::new(NOW + 1.second(), []));
    assert_eq!(verdict(&early, at(NOW)).as_of, NOW);
}

#[test]
fn silent_watchdog_delays_and_firing_watchdog_does_not() {
    let monitoring =
        |firing: Vec<Alert>| Monitoring::new(FakeSource::new(NOW, firing)).watchdog("Dog");
    let found = verdict(&monitoring(vec![]), at(NOW));
    assert!(found.delays[0].reason.contains("`Dog`"), "{found:?}");
    assert!(verdict(&monitoring(vec![Alert::named("Dog")]), at(NOW)).is_proceed());
    let both = verdict(&monitoring(vec![Alert::named("Dog"), disk_full()]), at(NOW));
    assert_eq!(both.delays.len(), 1);
}

#[test]
fn alert_delays_its_cluster_and_alert_without_a_cluster_delays_all() {
    let per_cluster = |alert| {
        Monitoring::new(FakeSource::new(NOW, [alert])).within(Scope::per_cluster(), "cluster")
    };
    let ask = |monitoring: &Monitoring, asset: &Asset| {
        verdict(monitoring, testing::check_request(asset)).is_proceed()
    };
    let (eu, us) = (in_cluster("eu"), in_cluster("us"));
    let (one, all) = (per_cluster(disk_full()), per_cluster(Alert::named("Sun")));
    assert!(!ask(&one, &eu));
    assert!(ask(&one, &us));
    assert!(ask(&one, &testing::asset("nowhere")));
    for asset in [&eu, &us, &testing::asset("nowhere")] {
        assert!(!ask(&all, asset));
    }
    let others = all.types(Types::only(["db.v1.Schema"]));
    assert!(ask(&others, &eu));
}

#[test]
fn one_call_of_the_source_serves_concurrent_and_later_checks() {
    let source = FakeSource::new(NOW, []);
    let (go, held) = oneshot::channel();
    *source.held.lock().unwrap() = Some(held);
    let monitoring = Monitoring::new(source.clone());
    let mut waiting = Box::pin(join_all((0..100).map(|_| monitoring.check(at(NOW)))));
    assert!(block_on(async { futures::poll!(&mut waiting) }).is_pending());
    assert_eq!(source.calls(), 1);
    go.send(()).unwrap();
    assert_eq!(block_on(waiting).len(), 100);
    assert_eq!(source.calls(), 1);
    for now in [NOW - 4.seconds(), NOW + 4.seconds()] {
        verdict(&monitoring, at(now));
    }
    assert_eq!(source.calls(), 1);
    verdict(&monitoring, at(NOW + 5.seconds()));
    assert_eq!(source.calls(), 2);
    verdict(&monitoring, at(NOW - 1.hour()));
    assert_eq!(source.calls(), 3, "the clock was set back");
}

#[test]
fn answer_is_used_for_its_ttl_by_the_monotonic_clock() {
    let source = FakeSource::new(NOW, []);
    let monitoring = Monitoring::new(source.clone());
    verdict(&monitoring, by_clocks(NOW, 0));
    // The wall clock is set back again and again, or stands still.
    verdict(&monitoring, by_clocks(NOW - 3.seconds(), 4));
    assert_eq!(source.calls(), 1);
    verdict(&monitoring, by_clocks(NOW, 5));
    assert_eq!(source.calls(), 2);
    // The wall clock is set forward: the age of the answer does not change.
    assert!(verdict(&monitoring, by_clocks(NOW + 1.hour(), 6)).is_proceed());
    assert_eq!(source.calls(), 2);
}

#[test]
fn r10_evidence_ages_although_the_wall_clock_is_set_back() {
    let monitoring = |age| {
        let (ttl, age) = (Duration::from_secs(60), Duration::from_secs(age));
        Monitoring::new(FakeSource::new(NOW - 2.seconds(), []))
            .ttl(ttl)
            .max_age(age)
    };
    let set_back = NOW - 10.seconds();
    let patient = monitoring(50);
    assert!(verdict(&patient, by_clocks(NOW, 0)).is_proceed());
    let later = verdict(&patient, by_clocks(set_back, 40));
    assert!(later.is_proceed());
    assert_eq!(later.as_of, set_back - 42.seconds(), "the true age counts");
    let strict = monitoring(30);
    assert!(verdict(&strict, by_clocks(NOW, 0)).is_proceed());
    let later = verdict(&strict, by_clocks(set_back, 40));
    assert!(later.delays[0].reason.contains("42s old"), "{later:?}");
}

#[test]
fn dropped_check_lets_the_next_check_call_the_source() {
    let source = FakeSource::new(NOW, []);
    let (_never, held) = oneshot::channel();
    *source.held.lock().unwrap() = Some(held);
    let monitoring = Monitoring::new(source.clone());
    let mut first = Box::pin(monitoring.check(at(NOW)));
    let mut second = Box::pin(monitoring.check(at(NOW)));
    assert!(block_on(async { futures::poll!(&mut first) }).is_pending());
    assert!(block_on(async { futures::poll!(&mut second) }).is_pending());
    drop(first);
    assert!(block_on(second).unwrap().is_proceed());
    assert_eq!(source.calls(), 2);
}

#[test]
fn failed_source_is_not_called_once_per_asset() {
    let source = Arc::new(FakeSource::default());
    let monitoring = Monitoring::new(source.clone()).ttl(Duration::from_secs(2));
    for _ in 0..10 {
        assert!(!verdict(&monitoring, at(NOW)).is_proceed());
    }
    assert_eq!(source.calls(), 1);
    source.set(NOW, []);
    assert!(verdict(&monitoring, at(NOW + 2.seconds())).is_proceed());
}
