//! R108: which pushes overload delays, and how often the source is read.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::{executor::block_on, future::join_all};
use jiff::{Timestamp, ToSpan};
use plugin_sdk::{
    BoxError, Cause, CheckPlugin, CheckRequest, Expression, MetricQuery, MetricReading,
    MetricSource, Mono, Problem, Recheck, Series, Verdict,
    service::{Proceed, stack},
    testing::{self, NOW},
};
use prodspec_model::addons::PhysicalCluster;
use tower::Layer;

use super::{Overload, OverloadLayer};
use crate::{Scope, Types};

/// A value, and its cluster.
type Value = (Option<&'static str>, f64);

/// A source with a value per cluster, at the end of each window.
#[derive(Default)]
struct Fake {
    /// `None`: it fails.
    values: Mutex<Option<Vec<Value>>>,
    /// How far the source is behind.
    behind: Mutex<Duration>,
    queries: Mutex<Vec<MetricQuery>>,
}

impl Fake {
    fn new(values: impl IntoIterator<Item = Value>) -> Arc<Self> {
        let fake = Arc::new(Self::default());
        fake.set(values);
        fake
    }

    fn set(&self, values: impl IntoIterator<Item = Value>) {
        *self.values.lock().unwrap() = Some(values.into_iter().collect());
    }

    fn reads(&self) -> usize {
        self.queries.lock().unwrap().len()
    }
}

#[async_trait]
impl MetricSource for Fake {
    fn accepts(&self, expression: &Expression) -> Result<(), Problem> {
        match expression.to_string().as_str() {
            "busy" => Ok(()),
            other => Err(Problem::new(format!("there is no metric `{other}`"))),
        }
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        let end = query.windows.last;
        self.queries.lock().unwrap().push(query);
        let values = self.values.lock().unwrap().clone();
        let values = values.ok_or("connection refused")?;
        let series = values.into_iter().map(|(cluster, value)| {
            let series = Series::new([(end, value)]);
            match cluster {
                Some(cluster) => series.label("cluster", cluster),
                None => series,
            }
        });
        Ok(MetricReading {
            series: series.collect(),
            as_of: end - *self.behind.lock().unwrap(),
            infos: Vec::new(),
        })
    }
}

fn per_cluster(source: &Arc<Fake>) -> Overload {
    let rule = Overload::at_most(0.8, "busy").within(Scope::per_cluster(), "cluster");
    rule.reading(source.clone()).unwrap()
}

/// A request for an asset in a cluster, this long after [`NOW`].
fn after(cluster: &str, seconds: i64) -> CheckRequest {
    let cluster = PhysicalCluster {
        cluster: cluster.into(),
    };
    let asset = testing::asset("job").edit().addon(&cluster).unwrap();
    let mut request = testing::check_request(&asset.build().unwrap());
    request.now = NOW + seconds.seconds();
    request.mono = Mono(u64::try_from(86_400 + seconds).unwrap() * 1_000_000_000);
    request
}

fn verdict(overload: &Overload, request: CheckRequest) -> Verdict {
    block_on(overload.check(request)).unwrap()
}

fn reason(overload: &Overload, request: CheckRequest) -> String {
    let verdict = verdict(overload, request);
    match &verdict.delays[..] {
        [delay] => delay.reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn r108_only_assets_of_the_overloaded_scope_wait() {
    let source = Fake::new([(Some("eu"), 0.93), (Some("us"), 0.8)]);
    let overload = per_cluster(&source);
    let why = reason(&overload, after("eu", 0));
    assert_eq!(why, "`busy` is 0.93 for eu, and at most 0.8 is allowed");
    assert!(verdict(&overload, after("us", 0)).is_proceed());
    let other = testing::check_request(&testing::asset("schema"));
    assert!(
        verdict(&overload, other).is_proceed(),
        "it is in no cluster"
    );
}

#[test]
fn r108_it_is_checked_again_after_the_next_window() {
    let source = Fake::new([(Some("eu"), 0.93)]);
    let overload = per_cluster(&source);
    let found = verdict(&overload, after("eu", 0));
    // 12:00:00 is 15 s into the window that follows the newest one which counts.
    let again = NOW + 15.seconds();
    assert_eq!(found.delays[0].recheck, Recheck::At(again));
    source.set([(Some("eu"), 0.1)]);
    assert!(!verdict(&overload, after("eu", 14)).is_proceed());
    assert!(verdict(&overload, after("eu", 15)).is_proceed());
}

#[test]
fn r108_what_is_not_known_delays() {
    let reason_of = |values: Vec<Value>| reason(&per_cluster(&Fake::new(values)), after("eu", 0));
    let other = reason_of(vec![(Some("us"), 0.1), (Some("asia"), 0.1)]);
    assert!(
        other.starts_with("`busy` has no value for eu at 2026-03-04T11:59:30Z, only for us, asia"),
        "{other}"
    );
    assert!(reason_of(vec![]).contains("none at all: repair the monitoring"));
    let two = reason_of(vec![(Some("eu"), 0.1), (Some("eu"), 0.1)]);
    assert_eq!(two, "`busy` has 2 series for eu: aggregate it to one");
    assert!(reason_of(vec![(Some("eu"), f64::NAN)]).contains("is NaN for eu"));
    for endless in [f64::INFINITY, f64::NEG_INFINITY] {
        assert!(reason_of(vec![(Some("eu"), endless)]).contains("no number"));
    }
    // A value without a cluster is for all of them.
    let all = reason_of(vec![(None, 0.9)]);
    assert!(all.starts_with("`busy` is 0.9 for eu"), "{all}");
}

#[test]
fn r108_source_that_fails_or_is_behind_delays() {
    let source = Arc::new(Fake::default());
    let overload = per_cluster(&source);
    let why = reason(&overload, after("eu", 0));
    assert_eq!(why, "`busy` cannot be read: connection refused");
    source.set([(Some("eu"), 0.1)]);
    assert!(!verdict(&overload, after("eu", 4)).is_proceed());
    assert!(verdict(&overload, after("eu", 5)).is_proceed());
    let late = Fake::new([(Some("eu"), 0.1)]);
    *late.behind.lock().unwrap() = Duration::from_secs(31);
    let why = reason(&per_cluster(&late), after("eu", 0));
    assert!(why.contains("are from 2026-03-04T11:58:59Z"), "{why}");
}

#[test]
fn r108_one_request_per_window_serves_all_assets() {
    let source = Fake::new([(Some("eu"), 0.1), (Some("us"), 0.1)]);
    let overload = per_cluster(&source);
    let clusters = ["eu", "us"].iter().cycle().take(100);
    let checks = clusters.map(|cluster| overload.check(after(cluster, 0)));
    let all = block_on(join_all(checks));
    assert!(all.iter().all(|it| it.as_ref().unwrap().is_proceed()));
    assert_eq!(source.reads(), 1);
    for second in 0..60 {
        assert!(verdict(&overload, after("eu", second)).is_proceed());
    }
    assert_eq!(
        source.reads(),
        3,
        "those that end at 11:59:30, 12:00 and 12:00:30"
    );
    // A wall clock that was set back: the window was read before.
    assert!(verdict(&overload, after("eu", 40)).is_proceed());
    assert_eq!(source.reads(), 3);
}

#[test]
fn r108_clock_that_was_ahead_for_a_moment_is_forgotten_after_a_window() {
    let source = Fake::new([(Some("eu"), 0.1)]);
    let overload = per_cluster(&source);
    let mut ahead = after("eu", 0);
    ahead.now = NOW + 24.hours();
    assert!(verdict(&overload, ahead).is_proceed());
    assert!(verdict(&overload, after("eu", 29)).is_proceed());
    assert_eq!(source.reads(), 1);
    assert!(verdict(&overload, after("eu", 30)).is_proceed());
    assert!(verdict(&overload, after("eu", 100)).is_proceed());
    assert_eq!(source.reads(), 3);
}

#[test]
fn r10_a_verdict_is_as_old_as_its_window() {
    let overload = per_cluster(&Fake::new([(Some("eu"), 0.1)]));
    let end: Timestamp = "2026-03-04T11:59:30Z".parse().unwrap();
    assert_eq!(verdict(&overload, after("eu", 0)).as_of, end);
    assert_eq!(verdict(&overload, after("eu", 14)).as_of, end);
}

#[test]
fn r6_overload_delays_intent_only() {
    let source = Fake::new([(Some("eu"), 0.93)]);
    let checks = stack(OverloadLayer::new(per_cluster(&source)).layer(Proceed));
    for cause in [Cause::Rollback, Cause::Drift, Cause::Emergency] {
        let request = after("eu", 0).cause(cause);
        assert!(block_on(checks.call(request)).unwrap().is_proceed());
    }
    assert_eq!(source.reads(), 0);
    assert!(!block_on(checks.call(after("eu", 0))).unwrap().is_proceed());
}

#[test]
fn other_types_do_not_wait_and_bad_rules_are_refused() {
    let source = Fake::new([(None, 0.93)]);
    let rule = Overload::at_most(0.8, "busy").types(Types::only(["shop.v1.Job"]));
    let overload = rule.reading(source.clone()).unwrap();
    assert!(verdict(&overload, after("eu", 0)).is_proceed());
    let unknown = Overload::at_most(0.8, "idle").reading(source.clone());
    assert_eq!(unknown.unwrap_err().message, "there is no metric `idle`");
    let endless = Overload::at_most(f64::INFINITY, "busy").reading(source);
    assert!(endless.unwrap_err().message.contains("write a number"));
}
