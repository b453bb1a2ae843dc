//! What delays, for whom, and how often the source is asked.

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
    BoxError, Cause, CheckPlugin, CheckRequest, Mono, Verdict,
    service::{Proceed, stack},
    testing::{self, NOW},
};
use prodspec_model::{Asset, addons::PhysicalCluster};
use tower::Layer;

use super::{Alert, Monitoring, MonitoringLayer, SignalSource, Signals};
use crate::{Scope, Types};

/// Says what a test wants, counts, and can be held up.
#[derive(Default)]
struct Said {
    signals: Mutex<Option<Signals>>,
    asked: AtomicUsize,
    held: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Said {
    fn new(as_of: Timestamp, firing: impl IntoIterator<Item = Alert>) -> Arc<Self> {
        let said = Arc::new(Self::default());
        said.say(as_of, firing);
        said
    }

    fn say(&self, as_of: Timestamp, firing: impl IntoIterator<Item = Alert>) {
        let firing = firing.into_iter().collect();
        *self.signals.lock().unwrap() = Some(Signals { firing, as_of });
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl SignalSource for Said {
    async fn firing(&self) -> Result<Signals, BoxError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
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

/// Asked at `now`, by clocks that agree.
fn at(now: Timestamp) -> CheckRequest {
    let passed = now.duration_since(NOW).as_secs();
    by_clocks(now, passed)
}

/// Asked when the wall clock shows `now`, and `passed` seconds after [`NOW`] by the monotonic clock.
fn by_clocks(now: Timestamp, passed: i64) -> CheckRequest {
    let start = 86_400;
    CheckRequest {
        now,
        mono: Mono(u64::try_from(start + passed).unwrap() * 1_000_000_000),
        ..testing::check_request(&in_cluster("eu"))
    }
}

fn verdict(monitoring: &Monitoring, request: CheckRequest) -> Verdict {
    block_on(monitoring.check(request)).unwrap()
}

fn disk_full() -> Alert {
    Alert::named("DiskFull").label("cluster", "eu")
}

#[test]
fn a_firing_alert_delays_and_is_named_and_none_lets_through() {
    let said = Said::new(NOW, [disk_full()]);
    let monitoring = Monitoring::new(said.clone());
    let found = verdict(&monitoring, at(NOW));
    let [delay] = &found.delays[..] else {
        panic!("{found:?}")
    };
    assert_eq!(delay.reason, "the alert DiskFull (cluster eu) fires");
    assert_eq!(delay.evidence["firing"][0]["labels"]["cluster"], "eu");
    let later = NOW + 10.seconds();
    said.say(later, []);
    assert!(verdict(&monitoring, at(later)).is_proceed());
}

#[test]
fn r6_monitoring_never_blocks_rollback_drift_or_emergency() {
    let said = Said::new(NOW - 1.hour(), [disk_full()]);
    let checks = stack(MonitoringLayer::any(said.clone()).layer(Proceed));
    for cause in [Cause::Rollback, Cause::Drift, Cause::Emergency] {
        let request = CheckRequest { cause, ..at(NOW) };
        let found = block_on(checks.call(request)).unwrap();
        assert!(found.is_proceed(), "{cause:?}: {found:?}");
    }
    assert_eq!(
        said.asked(),
        0,
        "nobody waits for an answer that does not matter"
    );
    assert!(!block_on(checks.call(at(NOW))).unwrap().is_proceed());
}

#[test]
fn missing_and_stale_signals_delay() {
    let says = |as_of: Timestamp, now: Timestamp| {
        verdict(&Monitoring::new(Said::new(as_of, [])), at(now)).is_proceed()
    };
    assert!(says(NOW - 30.seconds(), NOW));
    assert!(!says(NOW - 31.seconds(), NOW));
    assert!(
        !says(NOW + 31.seconds(), NOW),
        "from the future: a clock is wrong"
    );
    let silent = Arc::new(Said::default());
    let found = verdict(&Monitoring::new(silent), at(NOW));
    assert!(
        found.delays[0].reason.contains("connection refused"),
        "{found:?}"
    );
}

#[test]
fn r10_a_verdict_is_as_old_as_its_signals() {
    let born = NOW - 20.seconds();
    let monitoring = Monitoring::new(Said::new(born, []));
    assert_eq!(verdict(&monitoring, at(NOW)).as_of, born);
    assert_eq!(verdict(&monitoring, at(NOW + 4.seconds())).as_of, born);
    let early = Monitoring::new(Said::new(NOW + 1.second(), []));
    assert_eq!(verdict(&early, at(NOW)).as_of, NOW);
}

#[test]
fn a_watchdog_that_is_silent_delays_and_one_that_barks_does_not() {
    let monitoring = |firing: Vec<Alert>| Monitoring::new(Said::new(NOW, firing)).watchdog("Dog");
    let found = verdict(&monitoring(vec![]), at(NOW));
    assert!(found.delays[0].reason.contains("`Dog`"), "{found:?}");
    assert!(verdict(&monitoring(vec![Alert::named("Dog")]), at(NOW)).is_proceed());
    let both = verdict(&monitoring(vec![Alert::named("Dog"), disk_full()]), at(NOW));
    assert_eq!(both.delays.len(), 1);
}

#[test]
fn an_alert_about_one_cluster_delays_that_one_and_one_about_none_all() {
    let per_cluster =
        |alert| Monitoring::new(Said::new(NOW, [alert])).within(Scope::per_cluster(), "cluster");
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
fn one_question_serves_all_who_ask_meanwhile_and_a_little_longer() {
    let said = Said::new(NOW, []);
    let (go, held) = oneshot::channel();
    *said.held.lock().unwrap() = Some(held);
    let monitoring = Monitoring::new(said.clone());
    let mut waiting = Box::pin(join_all((0..100).map(|_| monitoring.check(at(NOW)))));
    assert!(block_on(async { futures::poll!(&mut waiting) }).is_pending());
    assert_eq!(said.asked(), 1);
    go.send(()).unwrap();
    assert_eq!(block_on(waiting).len(), 100);
    assert_eq!(said.asked(), 1);
    for now in [NOW - 4.seconds(), NOW + 4.seconds()] {
        verdict(&monitoring, at(now));
    }
    assert_eq!(said.asked(), 1);
    verdict(&monitoring, at(NOW + 5.seconds()));
    assert_eq!(said.asked(), 2);
    verdict(&monitoring, at(NOW - 1.hour()));
    assert_eq!(said.asked(), 3, "the clock was put back");
}

#[test]
fn an_answer_serves_for_its_time_by_the_monotonic_clock() {
    let said = Said::new(NOW, []);
    let monitoring = Monitoring::new(said.clone());
    verdict(&monitoring, by_clocks(NOW, 0));
    // The wall clock is set back again and again, or stands still.
    verdict(&monitoring, by_clocks(NOW - 3.seconds(), 4));
    assert_eq!(said.asked(), 1);
    verdict(&monitoring, by_clocks(NOW, 5));
    assert_eq!(said.asked(), 2);
    // It is set forward: the answer is as young as it was.
    assert!(verdict(&monitoring, by_clocks(NOW + 1.hour(), 6)).is_proceed());
    assert_eq!(said.asked(), 2);
}

#[test]
fn r10_evidence_ages_though_the_wall_clock_is_set_back() {
    let monitoring = |age| {
        let (ttl, age) = (Duration::from_secs(60), Duration::from_secs(age));
        Monitoring::new(Said::new(NOW - 2.seconds(), []))
            .ttl(ttl)
            .max_age(age)
    };
    let set_back = NOW - 10.seconds();
    let patient = monitoring(50);
    assert!(verdict(&patient, by_clocks(NOW, 0)).is_proceed());
    let later = verdict(&patient, by_clocks(set_back, 40));
    assert!(later.is_proceed());
    assert_eq!(later.as_of, set_back - 42.seconds(), "as old as it is");
    let strict = monitoring(30);
    assert!(verdict(&strict, by_clocks(NOW, 0)).is_proceed());
    let later = verdict(&strict, by_clocks(set_back, 40));
    assert!(later.delays[0].reason.contains("42s old"), "{later:?}");
}

#[test]
fn one_who_gives_up_leaves_the_question_to_the_next() {
    let said = Said::new(NOW, []);
    let (_never, held) = oneshot::channel();
    *said.held.lock().unwrap() = Some(held);
    let monitoring = Monitoring::new(said.clone());
    let mut first = Box::pin(monitoring.check(at(NOW)));
    let mut second = Box::pin(monitoring.check(at(NOW)));
    assert!(block_on(async { futures::poll!(&mut first) }).is_pending());
    assert!(block_on(async { futures::poll!(&mut second) }).is_pending());
    drop(first);
    assert!(block_on(second).unwrap().is_proceed());
    assert_eq!(said.asked(), 2);
}

#[test]
fn a_source_that_is_down_is_not_asked_once_for_every_asset() {
    let said = Arc::new(Said::default());
    let monitoring = Monitoring::new(said.clone()).ttl(Duration::from_secs(2));
    for _ in 0..10 {
        assert!(!verdict(&monitoring, at(NOW)).is_proceed());
    }
    assert_eq!(said.asked(), 1);
    said.say(NOW, []);
    assert!(verdict(&monitoring, at(NOW + 2.seconds())).is_proceed());
}
