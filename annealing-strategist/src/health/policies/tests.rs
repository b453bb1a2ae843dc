//! R21, R106: judges by health policies in intent, and refuses those that could pass without data.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::executor::block_on;
use jiff::{Timestamp, ToSpan};
use plugin_sdk::{
    Alert, AssetTypes, AssetView, BoxError, Expression, Health, HealthRequest, HealthValidator,
    Judgement, MetricQuery, MetricReading, MetricSource, Problem, Problems, Series, SignalSource,
    Signals, Sources,
    testing::{self, NOW, watched},
};
use prodspec_model::{
    Asset, Filter,
    addons::{PhysicalCluster, Turndown},
    policy::{Alerts, Count, Counter, HealthPolicy, HealthRule, Worse},
};

use super::{Policies, valid};
use crate::health::expression::replay;

/// The value of each expression, in each cluster.
type Values = Vec<(&'static str, &'static str, f64)>;

/// A server whose values tests set. `None`: it is down.
#[derive(Clone, Default)]
struct Server {
    values: Arc<Mutex<Option<Values>>>,
    reads: Arc<AtomicUsize>,
    alerts: Arc<Mutex<Vec<Alert>>>,
}

const GOOD: [(&str, &str, f64); 2] = [("queue", "eu", 10.0), ("queue", "us", 5.0)];

impl Server {
    fn shows(values: impl Into<Values>) -> Self {
        let server = Self::default();
        *server.values.lock().unwrap() = Some(values.into());
        server
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    fn policies(&self) -> Policies {
        let sources = Sources::default().metrics("prometheus", self.clone());
        Policies::over(&sources.signals("alertmanager", self.clone()))
    }
}

#[async_trait]
impl MetricSource for Server {
    fn accepts(&self, expression: &Expression) -> Result<(), Problem> {
        match expression.to_string().contains("sum(") {
            true => Err(Problem::new("loses the label")),
            false => Ok(()),
        }
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let end = query.windows.last;
        let values = self.values.lock().unwrap().clone().ok_or("down")?;
        let text = query.expression.to_string();
        let ours = values.into_iter().filter(|(of, _, _)| *of == text);
        let series =
            ours.map(|(_, cluster, value)| Series::new([(end, value)]).label("cluster", cluster));
        Ok(MetricReading {
            series: series.collect(),
            as_of: end,
            infos: Vec::new(),
        })
    }
}

#[async_trait]
impl SignalSource for Server {
    async fn firing(&self) -> Result<Signals, BoxError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let firing = self.alerts.lock().unwrap().clone();
        Ok(Signals { firing, as_of: NOW })
    }
}

fn job(cluster: &str) -> Asset {
    let asset = testing::asset(&format!("job/{cluster}")).edit();
    let asset = asset.addon(&PhysicalCluster::new(cluster)).unwrap();
    asset.build().unwrap()
}

fn jobs() -> HealthPolicy {
    HealthPolicy::of(Filter::default().under("job/"))
        .meets("cluster", "addon.PhysicalCluster.cluster")
}

/// At most 50 requests wait.
fn queue() -> HealthPolicy {
    jobs().rule(HealthRule::expression("queue", "queue").at_most(50.0))
}

fn asset(id: &str, policy: &HealthPolicy) -> Asset {
    let asset = Asset::builder(id.parse().unwrap());
    asset.payload(policy).unwrap().build().unwrap()
}

/// A rollout that moved `job/eu` ten minutes ago, and can hurt `job/us` and an asset that no policy judges. These policies are in
/// the newest incarnation.
fn request(policies: impl IntoIterator<Item = Asset>) -> HealthRequest {
    let began = NOW - 10.minutes();
    let assets = [job("eu"), job("us"), testing::asset("other")];
    testing::health_request(["job/eu"])
        .updated(vec![watched("job/eu", began)])
        .neighbours(vec![watched("job/us", began), watched("other", began)])
        .began(began)
        .reader(testing::reader(assets))
        .newest(testing::reader(policies))
}

fn verdict(policies: &Policies, request: HealthRequest) -> Health {
    block_on(policies.validate(request)).unwrap()
}

/// The judgement of a policy over these values, and the first finding.
fn judged(policy: &HealthPolicy, values: impl Into<Values>) -> (Judgement, String) {
    let request = request([asset("health/jobs", policy)]);
    let health = verdict(&Server::shows(values).policies(), request);
    let first = health.findings.first();
    let first = first.map(|it| format!("{} {}", it.validator, it.summary));
    (health.judgement, first.unwrap_or_default())
}

#[test]
fn r21_health_is_judged_by_the_newest_text_of_each_policy() {
    let server = Server::shows(GOOD);
    let policies = server.policies();
    let says = |assets: Vec<Asset>| verdict(&policies, request(assets)).judgement;
    assert_eq!(says(vec![]), Judgement::Healthy);
    assert_eq!(server.reads(), 0);
    let stricter = jobs().rule(HealthRule::expression("queue", "queue").at_most(9.0));
    let both = || vec![asset("a", &queue()), asset("b", &stricter)];
    assert_eq!(says(vec![asset("a", &queue())]), Judgement::Healthy);
    assert_eq!(says(vec![asset("a", &stricter)]), Judgement::Unhealthy);
    assert_eq!(
        says(both()),
        Judgement::Unhealthy,
        "each has to find it healthy"
    );
    assert_eq!(says(vec![asset("a", &queue())]), Judgement::Healthy);
    assert_eq!(server.reads(), 1, "all read the same window");
    let leaves = asset("a", &stricter).edit();
    let leaves = leaves
        .addon(&Turndown::new("gone", "ada"))
        .unwrap()
        .build()
        .unwrap();
    assert_eq!(says(vec![leaves]), Judgement::Healthy);
}

#[test]
fn r21_policy_judges_the_assets_that_match_it() {
    let elsewhere = HealthPolicy {
        judges: Filter::ids(["job/us".parse().unwrap()]),
        ..queue()
    };
    let ill = [("queue", "eu", 90.0), ("queue", "us", 5.0)];
    assert_eq!(judged(&queue(), ill).0, Judgement::Unhealthy);
    assert_eq!(judged(&elsewhere, ill).0, Judgement::Healthy);
    let none = HealthPolicy {
        judges: Filter::types(["shop.v1.Schema"]),
        ..queue()
    };
    assert_eq!(judged(&none, []), (Judgement::Healthy, String::new()));
    let expected = "health/jobs/queue job/eu: 90 instead of at most 50".to_owned();
    assert_eq!(judged(&queue(), ill).1, expected);
}

#[test]
fn r21_windows_count_that_begin_after_the_warm_up() {
    let policies = Server::shows(GOOD).policies();
    // The newest window is from 11:58 to 11:59.
    let settled = |seconds: i64| {
        let since = NOW - 2.minutes() - seconds.seconds();
        let request = request([asset("health/jobs", &queue())]);
        let request = request.updated(vec![watched("job/eu", since)]);
        verdict(&policies, request).judgement
    };
    assert_eq!(settled(120), Judgement::Healthy);
    assert_eq!(settled(119), Judgement::Unknown);
}

#[test]
fn r21_rates_and_shares_are_those_of_the_window() {
    let errors = || Counter::of("requests").with("code", "5..");
    let text = r#"requests{code=~"5.."}"#;
    let share = HealthRule::share("errors", errors(), Counter::of("requests"));
    let share = jobs().rule(share.at_most("2%"));
    let of = |bad: f64, all: f64| {
        let eu = [(text, "eu", bad), ("requests", "eu", all)];
        let us = [(text, "us", 0.0), ("requests", "us", 100.0)];
        judged(&share, [eu, us].concat())
    };
    assert_eq!(of(2.0, 100.0).0, Judgement::Healthy);
    let expected = "health/jobs/errors job/eu: 0.03 instead of at most 0.02".to_owned();
    assert_eq!(of(3.0, 100.0), (Judgement::Unhealthy, expected));
    let expected = "health/jobs/errors job/eu: no events at 2026-03-04T11:59:00Z".to_owned();
    assert_eq!(of(0.0, 0.0), (Judgement::Unknown, expected));
    let rate = jobs().rule(HealthRule::rate("errors", errors()).at_most(0.5));
    let per_minute = |bad: f64| judged(&rate, [(text, "eu", bad), (text, "us", 0.0)]).0;
    assert_eq!(per_minute(30.0), Judgement::Healthy);
    assert_eq!(per_minute(31.0), Judgement::Unhealthy);
    let between = HealthRule::expression("queue", "queue").at_most(50.0);
    let between = jobs().rule(between.at_least(1.0));
    let idle = [("queue", "eu", 0.0), ("queue", "us", 5.0)];
    assert_eq!(judged(&between, idle).0, Judgement::Unhealthy);
    assert_eq!(judged(&between, GOOD).0, Judgement::Healthy);
}

#[test]
fn r21_muted_rules_are_shown_and_optional_ones_may_lack_data() {
    let counts = |count| {
        let rule = HealthRule::expression("queue", "queue").at_most(50.0);
        jobs().rule(rule.count(count))
    };
    let ill = [("queue", "eu", 90.0), ("queue", "us", 5.0)];
    let muted = judged(&counts(Count::Muted), ill);
    let expected = "health/jobs/queue job/eu: 90 instead of at most 50 (muted)".to_owned();
    assert_eq!(muted, (Judgement::Healthy, expected));
    assert_eq!(
        judged(&counts(Count::Optional), ill).0,
        Judgement::Unhealthy
    );
    for (count, expected) in [
        (Count::Critical, Judgement::Unknown),
        (Count::Optional, Judgement::Healthy),
        (Count::Muted, Judgement::Healthy),
    ] {
        assert_eq!(judged(&counts(count), []).0, expected, "{count:?}");
        let down = Server::default().policies();
        let down = verdict(&down, request([asset("health/jobs", &counts(count))]));
        assert_eq!(down.judgement, expected, "{count:?}");
        assert_eq!(&*down.findings[0].validator, "health/jobs/queue");
        assert_eq!(down.findings[0].summary, "down");
    }
}

#[test]
fn r21_policy_that_cannot_judge_is_unknown() {
    let other = HealthPolicy {
        source: Some("thanos".to_owned()),
        ..queue()
    };
    let (judgement, _) = judged(&other, GOOD);
    assert_eq!(judgement, Judgement::Unknown);
    let wrong = testing::asset("health/jobs").edit();
    let wrong = wrong.payload_value(
        "prodspec.v1.HealthPolicy".parse().unwrap(),
        &serde_json::json!({"judges": {}, "window": 60}),
    );
    let wrong = wrong.unwrap().build().unwrap();
    let health = verdict(&Server::shows(GOOD).policies(), request([wrong]));
    assert_eq!(health.judgement, Judgement::Unknown);
    let why = &health.findings[0].summary;
    assert!(
        why.starts_with("the policy health/jobs judges nothing:"),
        "{why}"
    );
}

#[test]
fn r21_verdicts_can_be_replayed_from_their_evidence() {
    let rule = HealthRule::expression("queue", "queue").at_most(50.0);
    let policy = jobs().rule(rule.count(Count::Muted)).rule(HealthRule {
        name: "other".to_owned(),
        ..HealthRule::rate("", Counter::of("requests")).at_least(1.0)
    });
    let values = [
        ("queue", "eu", f64::NAN),
        ("queue", "us", 90.0),
        ("requests", "eu", 0.1 + 0.2),
    ];
    let health = verdict(
        &Server::shows(values).policies(),
        request([asset("health/jobs", &policy)]),
    );
    assert_eq!(health.findings.len(), 4);
    for finding in health.findings {
        let stored = serde_json::to_string(&finding).unwrap();
        let evidence = serde_json::from_str::<serde_json::Value>(&stored).unwrap();
        let again = replay(&evidence["evidence"]).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), stored);
        assert_eq!(finding.evidence["question"]["policy"][0], "health/jobs");
    }
    assert!(replay(&serde_json::Value::Null).is_err());
}

#[test]
fn r107_alerts_of_a_policy_are_about_the_assets_that_it_judges() {
    let alerts = Alerts {
        domain: Some("cluster".to_owned()),
        watchdog: Some("Watchdog".to_owned()),
        ..Alerts::default()
    };
    let policy = jobs().alerts(alerts);
    let server = Server::shows(GOOD);
    let fires = |cluster: &str, since: Timestamp| {
        let slow = Alert::named("Slow").label("cluster", cluster).since(since);
        *server.alerts.lock().unwrap() = vec![slow, Alert::named("Watchdog")];
    };
    let says = || {
        let request = request([asset("health/jobs", &policy), asset("z", &policy)]);
        verdict(&server.policies(), request)
    };
    fires("eu", NOW);
    let health = says();
    assert_eq!(health.judgement, Judgement::Unhealthy);
    assert_eq!(&*health.findings[0].validator, "health/jobs/alerts");
    assert_eq!(server.reads(), 1, "two policies");
    fires("asia", NOW);
    assert_eq!(says().judgement, Judgement::Healthy);
    *server.alerts.lock().unwrap() = vec![];
    assert_eq!(says().judgement, Judgement::Unknown, "no watchdog");
}

/// The fields of a policy that are refused, with their messages.
fn refused(policy: &HealthPolicy) -> Vec<(String, String)> {
    let sources = Sources::default().metrics("prometheus", Server::default());
    let (asset, types) = (asset("health/jobs", policy), AssetTypes::default());
    let snapshot = testing::reader([asset.clone()]);
    let snapshot = snapshot.bound_to().unwrap().snapshot().clone();
    let mut problems = Problems::none();
    let view = AssetView::new(&asset, &snapshot, &types);
    valid(&sources, policy, &view, &mut problems);
    let wrong = problems
        .iter()
        .map(|it| (it.field.to_string(), it.message.clone()));
    wrong.collect()
}

#[test]
fn r21_policy_that_can_pass_without_data_is_refused() {
    let muted = HealthRule::expression("queue", "queue").at_most(50.0);
    for policy in [
        jobs(),
        jobs().rule(muted.clone().count(Count::Muted)),
        jobs().rule(HealthRule::expression("a", "queue").worse(Worse::default())),
        jobs().rule(muted.count(Count::Optional)),
    ] {
        let (field, why) = &refused(&policy)[0];
        assert_eq!(field, "payload.rules");
        assert!(why.starts_with("the policy can pass without data"), "{why}");
    }
    assert_eq!(refused(&queue()), []);
}

/// Whether this is all that is refused.
fn only(policy: &HealthPolicy, place: &str, why: &str) {
    let expected = vec![(format!("payload.{place}"), why.to_owned())];
    assert_eq!(refused(policy), expected, "{place}");
}

#[test]
fn policies_that_could_not_judge_are_refused_with_the_field() {
    let source = Some("thanos".to_owned());
    let policy = HealthPolicy { source, ..queue() };
    let why = "no source of metrics is named `thanos`; there are: prometheus";
    only(&policy, "source", why);
    let window = Duration::from_secs(5);
    let policy = HealthPolicy { window, ..queue() };
    only(&policy, "window", "must be 10 s to 1 day, in whole seconds");
    let warm_up = Some(Duration::from_secs(100_000));
    let policy = HealthPolicy { warm_up, ..queue() };
    only(&policy, "warm_up", "must be 0 s to 1 day, in whole seconds");
    let why =
        "`owner` is no field of an asset: write id, type, payload.<path> or addon.<name>.<path>";
    only(&queue().meets("job", "owner"), "assets.job", why);
    let why =
        "name a source of alerts; there is none: give one to the builder of the control plane";
    let alerts = queue().alerts(Alerts::default());
    only(&alerts, "alerts.source", why);
    let twice = queue().rule(queue().rules.remove(0));
    let why = "must be a name that no other rule has";
    only(&twice, "rules[1].name", why);
}

const LATENCY: &str =
    "histogram_quantile(0.95, sum by (cluster, le) (rate(http_latency_seconds_bucket[$window])))";

#[test]
fn rules_that_could_not_judge_are_refused_with_the_field() {
    let requests = || Counter::of("requests");
    let share = || HealthRule::share("a", requests(), requests());
    let of = |text: &str| HealthRule::expression("a", text);
    let both = HealthRule {
        counter: Some(requests()),
        ..of("queue").at_most(1.0)
    };
    for (rule, field, why) in [
        (
            both,
            "expression",
            "needs either an expression or a counter, and `among` only beside a counter",
        ),
        (
            of("queue"),
            "at_most",
            "a rule needs a bound: at_most or at_least",
        ),
        (
            of("queue").at_least("5 apples"),
            "at_least",
            "`5 apples` is no bound: write a number, 2% or 250ms",
        ),
        (
            share().at_most(2.0),
            "at_most",
            "a share is between 0% and 100%: write 2%, or 0.02",
        ),
        (
            share().at_most("2s"),
            "at_most",
            "a share is between 0% and 100%: write 2%, or 0.02",
        ),
        (
            HealthRule::rate("a", requests()).at_most("2%"),
            "at_most",
            "`requests` is counted per second: write a number",
        ),
        (
            of(LATENCY).at_most(250.0),
            "at_most",
            "http_latency_seconds_bucket is in seconds: write 250ms, not 250",
        ),
        (
            of("age_milliseconds").at_most("1s"),
            "at_most",
            "age_milliseconds is in milliseconds: write a number of them",
        ),
        (
            of("sum(queue)").at_most(1.0),
            "expression",
            "loses the label",
        ),
    ] {
        only(&jobs().rule(rule), &format!("rules[0].{field}"), why);
    }
}

#[test]
fn comparisons_that_could_not_judge_are_refused_with_the_field() {
    let rate = HealthRule::rate("a", Counter::of("requests")).at_most(1.0);
    let of = |worse: Worse| jobs().rule(rate.clone().worse(worse));
    let mut worse = Worse::default();
    if !cfg!(feature = "statistics") {
        let why = "this control plane was built without the feature `statistics`";
        return only(&of(worse), "rules[0].worse", why);
    }
    let why = "ranks counts: add `among`, or write same_traffic: true";
    only(&of(worse), "rules[0].worse", why);
    worse.same_traffic = true;
    assert_eq!(refused(&of(worse)), []);
    worse.guard = 0.9;
    let why = "the guard is a ratio of means: write at least 1";
    only(&of(worse), "rules[0].worse", why);
}

#[test]
fn rules_in_the_right_units_are_accepted() {
    let requests = || Counter::of("requests");
    let of = |text: &str| HealthRule::expression("a", text);
    for good in [
        of(LATENCY).at_most("250ms"),
        of("time() - process_start_time_seconds / 2").at_most(5.0),
        HealthRule::share("a", requests(), requests()).at_most("2%"),
        HealthRule::rate("a", requests()).at_least(0.5),
    ] {
        assert_eq!(refused(&jobs().rule(good)), []);
    }
}

#[test]
fn r106_expression_that_does_not_see_births_is_warned_about() {
    let unborn = HealthRule::expression("a", "rate(requests[$window])").at_most(1.0);
    let (field, why) = &refused(&jobs().rule(unborn))[0];
    assert_eq!(field, "payload.rules[0].expression");
    assert!(why.starts_with("does not see events from before the first scrape"));
}
