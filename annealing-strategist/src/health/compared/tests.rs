//! R105: moved units are judged by their ranks among those not moved, however often a rollout is looked at.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures::executor::block_on;
use jiff::{Timestamp, ToSpan};
use plugin_sdk::{
    BoxError, Expression, Health, HealthRequest, HealthValidator, Judgement, MetricQuery,
    MetricReading, MetricSource, Problem, Series, Sources, Watched,
    testing::{self, NOW, watched},
};
use prodspec_model::{
    Asset, AssetId, Filter,
    policy::{Counter, Direction, HealthPolicy, HealthRule, Worse},
};

use super::{Rule, history::History, row::Value::Number};
use crate::health::{policies::Policies, statistics::uniform};

/// The value of a quantity of a unit in the window that ends then.
type Value = dyn Fn(&str, &str, Timestamp) -> Option<f64> + Send + Sync;

/// A server with a value for each unit and window.
#[derive(Clone)]
struct Server {
    value: Arc<Value>,
    reads: Arc<AtomicUsize>,
}

impl Server {
    fn of(value: impl Fn(&str, &str, Timestamp) -> Option<f64> + Send + Sync + 'static) -> Self {
        Self {
            value: Arc::new(value),
            reads: Arc::default(),
        }
    }
}

#[async_trait]
impl MetricSource for Server {
    fn accepts(&self, _: &Expression) -> Result<(), Problem> {
        Ok(())
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let of = query.expression.to_string();
        let series = units().map(|unit| {
            let ends = query.windows.ends();
            let values = ends.filter_map(|end| Some((end, (self.value)(&of, &unit, end)?)));
            Series::new(values.collect::<Vec<_>>()).label("job", unit)
        });
        Ok(MetricReading {
            series: series.collect(),
            as_of: query.windows.last,
            infos: Vec::new(),
        })
    }
}

fn units() -> impl Iterator<Item = String> {
    (0..10).map(|nth| format!("job/{nth}"))
}

/// Noise between 0 and 1 that is the same in each run.
fn noise(unit: &str, at: Timestamp) -> f64 {
    uniform(format!("{unit} {at}").as_bytes())
}

/// Before this time, nothing has moved.
fn began() -> Timestamp {
    NOW - 2.hours()
}

/// Latency about 100. That of `job/0` is multiplied since the rollout began.
fn latency(times: f64) -> Server {
    Server::of(move |_, unit, at| {
        let is_bad = unit == "job/0" && at > began();
        let times = if is_bad { times } else { 1.0 };
        Some(times * (100.0 + 10.0 * noise(unit, at)))
    })
}

fn comparing(worse: Worse) -> HealthPolicy {
    let rule = HealthRule::expression("latency", "latency").at_most(1e12);
    with(rule.worse(worse))
}

fn with(rule: HealthRule) -> HealthPolicy {
    let policy = HealthPolicy::of(Filter::default().under("job/"));
    policy.meets("job", "id").rule(rule)
}

/// A rollout that moved `job/0`, some minutes ago. Nine others wait.
fn request(policy: &HealthPolicy, minutes: i64) -> HealthRequest {
    let asset = Asset::builder("health/jobs".parse().unwrap()).payload(policy);
    let asset = asset.unwrap().build().unwrap();
    let control = units().skip(1).map(|unit| watched(&unit, began()));
    let mut request = testing::health_request(["job/0"])
        .updated(vec![watched("job/0", began())])
        .control(control.collect())
        .began(began())
        .reader(testing::reader(units().map(|unit| testing::asset(&unit))))
        .newest(testing::reader([asset]));
    request.now = began() + minutes.minutes() + 15.seconds();
    request
}

fn verdict(policies: &Policies, request: HealthRequest) -> Health {
    block_on(policies.validate(request)).unwrap()
}

fn policies(server: &Server) -> Policies {
    Policies::over(&Sources::default().metrics("prometheus", server.clone()))
}

/// The finding of the comparison.
fn compared(health: &Health) -> (Judgement, &str) {
    let of = |it: &&plugin_sdk::Finding| it.validator.ends_with("/worse");
    let finding = health.findings.iter().find(of).unwrap();
    (finding.judgement, &finding.summary)
}

/// The finding when the rollout is looked at once, some minutes after it began.
fn after(server: &Server, policy: &HealthPolicy, minutes: i64) -> (Judgement, String) {
    let health = verdict(&policies(server), request(policy, minutes));
    let (judgement, why) = compared(&health);
    (judgement, why.to_owned())
}

#[test]
fn r105_unit_that_is_worse_than_those_not_moved_is_unhealthy() {
    let (judgement, why) = after(&latency(2.0), &comparing(Worse::default()), 60);
    assert_eq!(judgement, Judgement::Unhealthy, "{why}");
    assert!(
        why.starts_with("job/0: 2.0 x the 9 units not moved yet, evidence "),
        "{why}"
    );
    let (judgement, why) = after(&latency(1.0), &comparing(Worse::default()), 60);
    assert_eq!(judgement, Judgement::Healthy, "{why}");
    // The warm-up is two windows.
    let (judgement, why) = after(&latency(2.0), &comparing(Worse::default()), 2);
    assert_eq!(
        (judgement, &*why),
        (Judgement::Unknown, "job/0: no window is over yet")
    );
    let (judgement, why) = after(&latency(1.0), &comparing(Worse::default()), 6);
    assert_eq!(
        (judgement, &*why),
        (Judgement::Unknown, "job/0: 4 of 5 windows")
    );
}

#[test]
fn r105_each_updated_unit_needs_windows_of_its_own() {
    let policy = comparing(Worse::default());
    let mut request = request(&policy, 60);
    let now = request.now;
    request.updated.push(watched("job/1", now - 1.minute()));
    request.control.remove(0);
    // Also if another one differs by less than the guard.
    for times in [1.0, 1.3] {
        let health = verdict(&policies(&latency(times)), request.clone());
        let expected = (Judgement::Unknown, "job/1: 0 of 5 windows");
        assert_eq!(compared(&health), expected);
    }
}

#[test]
fn r105_difference_below_the_guard_is_shown() {
    let (judgement, why) = after(&latency(1.3), &comparing(Worse::default()), 60);
    assert_eq!(judgement, Judgement::Healthy);
    assert!(
        why.contains("1.3 x the 9 units") && why.ends_with("less than 1.5 x"),
        "{why}"
    );
    let strict = comparing(Worse {
        guard: 1.2,
        ..Worse::default()
    });
    assert_eq!(after(&latency(1.3), &strict, 60).0, Judgement::Unhealthy);
}

#[test]
fn r105_smaller_values_are_worse_where_the_rule_says_so() {
    let hits = comparing(Worse {
        is: Direction::Smaller,
        ..Worse::default()
    });
    let (judgement, why) = after(&latency(0.5), &hits, 60);
    assert!(
        judgement == Judgement::Unhealthy && why.contains("2.0 x"),
        "{why}"
    );
    assert_eq!(after(&latency(2.0), &hits, 60).0, Judgement::Healthy);
    let errors = comparing(Worse::default());
    assert_eq!(after(&latency(0.5), &errors, 60).0, Judgement::Healthy);
}

#[test]
fn r105_verdict_depends_on_windows_and_not_on_looks_or_units_of_measure() {
    for times in [1.0, 2.0] {
        let policy = comparing(Worse::default());
        let server = latency(times);
        let often = policies(&server);
        let mut last = None;
        for minutes in 1..=60 {
            for second in [0, 20, 40] {
                let mut request = request(&policy, minutes);
                request.now += second.seconds();
                last = Some(verdict(&often, request));
            }
        }
        let last = last.unwrap();
        let once = after(&server, &policy, 60);
        assert_eq!(compared(&last), (once.0, &*once.1));
        for scale in [1e-9, 1e9] {
            let value = server.value.clone();
            let scaled = Server::of(move |of, unit, at| Some(scale * value(of, unit, at)?));
            assert_eq!(after(&scaled, &policy, 60).0, once.0, "{scale}");
        }
    }
}

#[test]
fn r105_each_window_is_read_once() {
    let (server, policy) = (latency(1.0), comparing(Worse::default()));
    let policies = policies(&server);
    for second in 0..60 {
        let mut request = request(&policy, 60);
        request.now += second.seconds();
        verdict(&policies, request);
    }
    // The history; the windows until now; the last one of these, for the bound.
    assert_eq!(server.reads.load(Ordering::Relaxed), 3);
    verdict(&policies, request(&policy, 61));
    assert_eq!(server.reads.load(Ordering::Relaxed), 4);
}

#[test]
fn r105_policy_edited_in_a_stage_judges_the_same_windows() {
    let server = latency(1.3);
    let policies = policies(&server);
    let mut worse = Worse::default();
    let lenient = verdict(&policies, request(&comparing(worse), 60));
    assert_eq!(lenient.judgement, Judgement::Healthy);
    let reads = server.reads.load(Ordering::Relaxed);
    worse.guard = 1.2;
    let strict = verdict(&policies, request(&comparing(worse), 60));
    assert_eq!(strict.judgement, Judgement::Unhealthy);
    assert_eq!(server.reads.load(Ordering::Relaxed), reads);
}

#[test]
fn r105_without_units_to_compare_with_nothing_is_judged() {
    let policy = comparing(Worse::default());
    let alone = || request(&policy, 60).control(vec![]);
    let server = latency(2.0);
    let health = verdict(&policies(&server), alone());
    let expected = "not judged: there is no unit left to compare with";
    assert_eq!(compared(&health), (Judgement::Healthy, expected));
    // The evidence so far stays.
    let policies = policies(&server);
    verdict(&policies, request(&policy, 60));
    let mut later = alone();
    later.now += 10.minutes();
    let health = verdict(&policies, later);
    assert_eq!(compared(&health).0, Judgement::Unhealthy);
    // Units that have moved meanwhile, or are not as they were.
    let late = |since| -> Vec<Watched> { units().skip(1).map(|it| watched(&it, since)).collect() };
    let mut moved = request(&policy, 60);
    moved.control = late(moved.now);
    let health = verdict(&self::policies(&server), moved);
    let expected = "job/0: no window is over yet";
    assert_eq!(compared(&health), (Judgement::Unknown, expected));
}

#[test]
fn r105_units_that_differ_for_long_are_not_judged() {
    // Each unit is slower or faster for hours.
    let slow = Server::of(|_, unit, at| {
        let hour = Timestamp::from_second(at.as_second() / 7_200 * 7_200).unwrap();
        Some(100.0 + 100.0 * noise(unit, hour) + noise(unit, at))
    });
    let policy = comparing(Worse::default());
    let (judgement, why) = after(&slow, &policy, 60);
    assert_eq!(judgement, Judgement::Healthy);
    assert!(
        why.starts_with("not judged: the units differ for longer than a window"),
        "{why}"
    );
    let young = Server::of(|_, unit, at| (at > began()).then(|| noise(unit, at)));
    let (_, why) = after(&young, &policy, 60);
    assert!(
        why.starts_with("not judged: fewer than 120 windows before"),
        "{why}"
    );
}

/// Units of unlike size. That of `job/0` is multiplied since the rollout began.
fn unlike(times: f64) -> Server {
    Server::of(move |_, unit, at| {
        let size: f64 = unit.trim_start_matches("job/").parse().unwrap();
        let is_bad = unit == "job/0" && at > began();
        let times = if is_bad { times } else { 1.0 };
        Some(times * (10.0 - size) * (10.0 + noise(unit, at)))
    })
}

#[test]
fn r105_units_that_are_not_alike_are_compared_with_their_own_past() {
    let past = comparing(Worse {
        than_past: true,
        ..Worse::default()
    });
    let plain = comparing(Worse::default());
    assert!(after(&unlike(2.0), &plain, 60).1.starts_with("not judged"));
    let (judgement, why) = after(&unlike(2.0), &past, 60);
    assert!(
        judgement == Judgement::Unhealthy && why.contains("2.0 x"),
        "{why}"
    );
    assert_eq!(after(&unlike(1.0), &past, 60).0, Judgement::Healthy);
}

#[test]
fn r105_unit_that_falls_silent_is_unknown_and_silent_controls_raise_no_alarm() {
    let silent = |unit: &'static str| {
        Server::of(move |_, of, at| {
            let is_silent = of == unit && at > began() && noise("silent", at) < 0.3;
            (!is_silent).then(|| 100.0 + noise(of, at))
        })
    };
    let policy = comparing(Worse::default());
    let (judgement, why) = after(&silent("job/0"), &policy, 60);
    assert_eq!(judgement, Judgement::Unknown);
    assert_eq!(
        why,
        "job/0: has no value in more than a tenth of its windows"
    );
    assert_eq!(after(&silent("job/1"), &policy, 60).0, Judgement::Healthy);
}

/// Requests of each unit, of which some fail. `job/0` has a tenth of the traffic; its share of failures is multiplied since the
/// rollout began.
fn requests(times: f64) -> Server {
    Server::of(move |of, unit, at| {
        let is_small = unit == "job/0";
        let all = if is_small { 100.0_f64 } else { 1000.0 };
        let times = if is_small && at > began() { times } else { 1.0 };
        let failed = all * 0.05 * times * (0.5 + noise(unit, at));
        Some(if of.contains("code") {
            failed.round()
        } else {
            all
        })
    })
}

#[test]
fn r105_shares_of_unlike_traffic_are_levelled() {
    let all = || Counter::of("requests");
    let share = HealthRule::share("errors", all().with("code", "5.."), all());
    let policy = with(share.worse(Worse::default()).at_most("100%"));
    let (judgement, why) = after(&requests(1.0), &policy, 100);
    assert_eq!(judgement, Judgement::Healthy, "{why}");
    assert!(!why.starts_with("not judged"), "{why}");
    let (judgement, why) = after(&requests(4.0), &policy, 100);
    assert_eq!(judgement, Judgement::Unhealthy, "{why}");
}

#[test]
fn r105_unit_that_was_worse_before_the_rollout_is_not_judged() {
    let rule = Rule {
        name: "a".into(),
        guard: 1.5,
        smaller: false,
        than_past: false,
        threshold: 20.0,
    };
    let ids: Vec<AssetId> = (0..60)
        .map(|nth| format!("job/{nth}").parse().unwrap())
        .collect();
    let fits = |times: f64| {
        let line = |id: &AssetId| {
            let times = if *id == ids[0] { times } else { 1.0 };
            let at = |minute: i64| NOW - minute.minutes();
            let value = |minute| Some(Number(times * noise(id.as_str(), at(minute))));
            (id.clone(), (0..240).map(value).collect())
        };
        let history = History {
            units: ids.iter().map(line).collect(),
        };
        history.fits(&rule, &ids[..1], &ids[1..])
    };
    assert_eq!(fits(1.0), Ok(()));
    let why = fits(1.5).unwrap_err();
    assert_eq!(why, "the moved units were worse before the rollout already");
}
