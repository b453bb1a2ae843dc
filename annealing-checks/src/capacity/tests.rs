//! R109: which pushes wait for capacity, for how much, and how often the source is read.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt, executor::block_on, future::BoxFuture};
use jiff::{SignedDuration, Timestamp, ToSpan};
use plugin_sdk::{
    BoxError, Cause, Change, CheckPlugin, CheckRequest, Claim, Diff, Effects, Expression,
    MetricQuery, MetricReading, MetricSource, Mono, Observation, Observed, PartitionView, Problem,
    Recheck, Series, Stamp, Verdict, Windows, observe,
    observe::Link,
    testing::{self, NOW},
};
use prodspec_model::{Asset, AssetId, IncarnationNo, Message, addons::PhysicalCluster};

use super::{Capacity, Excluded, history::History};
use crate::Scope;

const HOUR: i64 = 3600;

/// A source whose clusters have one usage, except in one step.
#[derive(Default)]
struct Fake {
    usage: BTreeMap<&'static str, f64>,
    /// A step with another usage, in all clusters.
    storm: Option<(Timestamp, f64)>,
    /// The time of the first sample.
    since: Option<Timestamp>,
    behind: Mutex<SignedDuration>,
    queries: Mutex<Vec<MetricQuery>>,
    broken: Mutex<bool>,
}

#[async_trait]
impl MetricSource for Fake {
    fn accepts(&self, _: &Expression) -> Result<(), Problem> {
        Ok(())
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        self.queries.lock().unwrap().push(query.clone());
        if *self.broken.lock().unwrap() {
            return Err("connection refused".into());
        }
        let as_of = query.windows.last - *self.behind.lock().unwrap();
        let ends = || {
            query
                .windows
                .ends()
                .filter(|end| *end <= as_of && Some(*end) >= self.since)
        };
        let value = |end: Timestamp, usage: f64| match self.storm {
            Some((at, storm)) if at == end => (end, storm),
            _ => (end, usage),
        };
        let series = self.usage.iter().map(|(cluster, usage)| {
            let samples: Vec<_> = ends().map(|end| value(end, *usage)).collect();
            Series::new(samples).label("cluster", *cluster)
        });
        Ok(MetricReading {
            series: series.collect(),
            as_of,
            infos: Vec::new(),
        })
    }
}

/// Assets with a capacity each.
struct View(BTreeMap<AssetId, u64>);

impl PartitionView for View {
    fn observe(&self, asset: &AssetId) -> BoxFuture<'static, Result<Observation, observe::Error>> {
        let diff = self.0.get(asset).map(|has| {
            let observed = Observed::default().capacity("qps", *has);
            Diff::in_sync().observed(observed)
        });
        let seen = diff.ok_or(observe::Error::failed("it does not answer"));
        let seen = seen.map(|diff| Observation {
            diff,
            stamp: Stamp { slot: 0, seq: 0 },
            as_of: NOW,
            cause: None,
            not_yet: false,
        });
        async move { seen }.boxed()
    }

    fn providers(&self, _: &AssetId, _: IncarnationNo) -> Vec<Link> {
        Vec::new()
    }

    fn consumers(&self, _: &AssetId, _: IncarnationNo) -> Vec<Link> {
        Vec::new()
    }
}

fn job(name: &str, cluster: &str) -> Asset {
    let asset = testing::asset(name).edit();
    let asset = asset.addon(&PhysicalCluster::new(cluster)).unwrap();
    asset.build().unwrap()
}

/// A push of `a` in `eu`, which has 300 with `b` and `c`, from 100 to this much.
fn push(to: u64) -> CheckRequest {
    let assets = [
        job("a", "eu"),
        job("b", "eu"),
        job("c", "eu"),
        job("d", "us"),
    ];
    let sealed = testing::incarnation(1, assets.clone());
    let mut request = testing::check_request(&assets[0]);
    let effects = Effects::default().capacity("qps", 100, to);
    request.change = Arc::new(Change::new(&assets[0], "resize it", vec![], effects));
    request.observed = Observed::default().capacity("qps", 100);
    let all = assets.iter().map(|it| (it.id(), 100)).collect();
    request.view = Some(Arc::new(View(all)));
    request.newest(plugin_sdk::IncarnationReader::new(sealed))
}

fn fake(usage: f64) -> Arc<Fake> {
    Arc::new(Fake {
        usage: [("eu", usage), ("us", 1e6)].into(),
        ..Fake::default()
    })
}

fn kept(source: &Arc<Fake>) -> Capacity {
    let rule = Capacity::of("qps").within(Scope::per_cluster(), "cluster");
    rule.headroom(1.2).measured("rps", source.clone()).unwrap()
}

fn verdict(capacity: &Capacity, request: CheckRequest) -> Verdict {
    block_on(capacity.check(request)).unwrap()
}

fn reason(capacity: &Capacity, request: CheckRequest) -> String {
    let found = verdict(capacity, request);
    assert_eq!(found.delays.len(), 1, "{found:?}");
    found.delays[0].reason.clone()
}

fn at(mut request: CheckRequest, seconds: i64) -> CheckRequest {
    request.now = NOW + seconds.seconds();
    request.mono = Mono((86_400 + seconds as u64) * 1_000_000_000);
    request
}

#[test]
fn r109_push_that_would_leave_less_than_the_peak_waits() {
    let source = fake(200.0);
    let kept = kept(&source);
    let fits = verdict(&kept, push(40));
    assert_eq!(fits.delays, []);
    let claims = |keeps| Claim::Keep {
        key: "capacity/eu".into(),
        keeps,
        at_least: 240,
    };
    assert_eq!(fits.claims, [claims(40)]);
    let waits = verdict(&kept, push(39));
    assert_eq!(waits.claims, [], "an override of the check lets it through");
    let delay = &waits.delays[0];
    assert!(
        delay
            .reason
            .contains("would leave 239 qps in eu, 240 are needed"),
        "{delay:?}"
    );
    assert!(delay.reason.contains("x 1.2"), "{delay:?}");
    assert_eq!(delay.recheck, Recheck::WhenFree("capacity/eu".into()));
    assert!(delay.dead_end().is_some(), "no other asset grows");
    assert_eq!(source.queries.lock().unwrap().len(), 1);
}

#[test]
fn r109_push_that_grows_or_does_not_change_capacity_never_waits() {
    let source = fake(f64::MAX);
    *source.broken.lock().unwrap() = true;
    let kept = kept(&source);
    for to in [100, 101] {
        let found = verdict(&kept, push(to));
        assert!(found.delays.is_empty() && found.claims.is_empty(), "{to}");
    }
    assert_eq!(source.queries.lock().unwrap().len(), 0);
}

#[test]
fn r109_all_causes_but_an_emergency_keep_capacity() {
    let causes = kept(&fake(1.0)).info().causes;
    for cause in [Cause::Intent, Cause::Drift, Cause::Rollback] {
        assert!(causes.contains(cause), "{cause:?}");
    }
    assert!(!causes.contains(Cause::Emergency));
}

#[test]
fn r109_week_is_read_once_and_then_step_by_step() {
    let source = fake(200.0);
    let kept = kept(&source);
    for seconds in [0, 1, 60, 301, 302, 901] {
        verdict(&kept, at(push(40), seconds));
    }
    let queries = source.queries.lock().unwrap();
    let counts: Vec<u32> = queries.iter().map(|it| it.windows.count).collect();
    assert_eq!(counts, [2016, 1, 2]);
}

#[test]
fn r109_usage_that_is_not_known_holds_back_what_shrinks() {
    let broken = fake(1.0);
    *broken.broken.lock().unwrap() = true;
    assert!(reason(&kept(&broken), push(0)).contains("connection refused"));
    let behind = fake(1.0);
    *behind.behind.lock().unwrap() = SignedDuration::from_mins(16);
    assert!(reason(&kept(&behind), push(0)).contains("newest usage data is from"));
    let young = Arc::new(Fake {
        usage: [("eu", 1.0)].into(),
        since: Some(NOW - (22 * HOUR).seconds()),
        ..Fake::default()
    });
    assert!(reason(&kept(&young), push(0)).contains("24 h are needed"));
    let other = Arc::new(Fake {
        usage: [("us", 1.0)].into(),
        ..Fake::default()
    });
    assert!(reason(&kept(&other), push(0)).contains("no usage data"));
}

#[test]
fn r109_named_times_do_not_count() {
    let end = Windows::closed(Duration::from_secs(300), Duration::ZERO, NOW - 2.hours()).last;
    let source = Arc::new(Fake {
        usage: [("eu", 100.0)].into(),
        storm: Some((end, 1e9)),
        ..Fake::default()
    });
    let rule = || Capacity::of("qps").within(Scope::per_cluster(), "cluster");
    let all = rule().measured("rps", source.clone()).unwrap();
    assert!(reason(&all, push(0)).contains("1000000000 are needed"));
    let storm = Excluded {
        from: end - 5.minutes(),
        until: end,
        why: "a storm of retries".into(),
    };
    let without = rule().without([storm]).measured("rps", source).unwrap();
    assert!(verdict(&without, push(0)).delays.is_empty());
}

#[test]
fn r109_assets_that_do_not_answer_count_with_nothing() {
    let kept = kept(&fake(200.0));
    let mut request = push(90);
    request.view = Some(Arc::new(View([(job("b", "eu").id(), 100)].into())));
    let why = reason(&kept, request);
    assert!(why.contains("would leave 190 qps"), "{why}");
    assert!(
        why.contains("1 assets are not known yet, such as c"),
        "{why}"
    );
}

#[test]
fn r109_modelled_usage_is_the_sum_of_a_field() {
    let rule = Capacity::of("qps").over(Scope::per_cluster());
    let none = rule.clone().modelled("addon.Peak.qps");
    assert!(reason(&none, push(0)).contains("no asset has a number as `addon.Peak.qps`"));
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Peak {
        qps: u32,
    }
    impl Message for Peak {
        const TYPE: &'static str = "shop.v1.Peak";
    }
    let peak = |name: &str| {
        job(name, "eu")
            .edit()
            .addon(&Peak { qps: 120 })
            .unwrap()
            .build()
            .unwrap()
    };
    let sealed = testing::incarnation(2, [peak("a"), peak("b"), job("c", "eu")]);
    let request = push(0).newest(plugin_sdk::IncarnationReader::new(sealed));
    let why = reason(&rule.modelled("addon.Peak.qps"), request);
    assert!(why.contains("240 are needed (modelled 240 x 1)"), "{why}");
}

#[test]
fn r109_turndown_without_a_named_effect_takes_all() {
    let kept = kept(&fake(300.0));
    let mut request = push(100);
    let asset = job("a", "eu")
        .edit()
        .addon(&prodspec_model::addons::Turndown::new("ada", "it is old"));
    let asset = asset.unwrap().build().unwrap();
    request.change = Arc::new(Change::new(&asset, "remove it", vec![], Effects::default()));
    let mut turned_down = testing::check_request(&asset);
    turned_down.change = request.change.clone();
    turned_down.observed = request.observed.clone();
    turned_down.view = request.view.clone();
    let request = turned_down.newest(request.newest);
    assert!(reason(&kept, request).contains("would leave 200 qps"));
}

#[test]
fn r109_two_series_of_one_part_and_values_that_are_no_numbers_are_not_usage() {
    let windows = Windows::closed(Duration::from_secs(300), Duration::ZERO, NOW).many(400);
    let series = |value| {
        let samples: Vec<_> = windows.ends().map(|end| (end, value)).collect();
        Series::new(samples).label("cluster", "eu")
    };
    let reading = |series| MetricReading {
        series,
        as_of: windows.last,
        infos: Vec::new(),
    };
    let mut history = History::default();
    let two = reading(vec![series(1.0), series(2.0)]);
    assert!(history.take(windows, &two, Some("cluster")).is_err());
    let nan = reading(vec![series(f64::NAN)]);
    history.take(windows, &nan, Some("cluster")).unwrap();
    assert!(history.peak("eu", NOW, &[]).is_err());
}

#[test]
fn r109_clock_that_jumps_ahead_and_back_finds_no_peak() {
    let source = fake(1.0);
    let kept = kept(&source);
    assert!(verdict(&kept, at(push(0), 10 * HOUR)).delays.is_empty());
    assert!(reason(&kept, at(push(0), 0)).contains("newest usage data is from"));
}

#[test]
fn r109_push_of_a_content_in_another_part_takes_all_from_the_newest_part() {
    let kept = kept(&fake(300.0));
    let mut request = push(100);
    // The rollback pushes the content from when the asset was in `us`.
    let old = testing::check_request(&job("a", "us"));
    request.intent = old.intent;
    let why = reason(&kept, request);
    assert!(why.contains("would leave 200 qps in eu"), "{why}");
}
