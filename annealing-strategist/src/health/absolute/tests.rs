//! Tests of the absolute validator and of the replay of its evidence.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::executor::block_on;
use jiff::{Timestamp, ToSpan};
use plugin_sdk::{
    BoxError, Health, HealthRequest, HealthValidator, IncarnationReader, Judgement, RolloutId,
    SampleQuery, SampleSource, Series, testing,
};
use proptest::prelude::*;

use super::{Absolute, Evidence, Rule, of};

pub(super) const NOW: Timestamp = testing::NOW;

/// A metric source with fixed series, by metric and asset.
#[derive(Default)]
pub(super) struct Shown {
    series: BTreeMap<(String, String), Vec<Series>>,
    broken: bool,
    /// Whether the series have no samples but those given. Otherwise each has one more, long before.
    young: bool,
    asked: Mutex<Vec<SampleQuery>>,
}

#[async_trait]
impl SampleSource for Shown {
    async fn read(&self, query: SampleQuery) -> Result<Vec<Series>, BoxError> {
        self.asked.lock().unwrap().push(query.clone());
        if self.broken {
            return Err("no connection".into());
        }
        let found = self.series.get(&(query.metric, query.asset.to_string()));
        let mut found = found.cloned().unwrap_or_default();
        for series in found.iter_mut().filter(|_| !self.young) {
            let first = series
                .samples
                .iter()
                .min_by(|one, other| one.0.cmp(&other.0));
            let older = first.map(|(at, value)| (*at - 10.minutes(), *value));
            series.samples.extend(older);
        }
        Ok(found)
    }
}

impl Shown {
    /// A source whose series have no samples but those given.
    pub(super) fn young() -> Self {
        Self {
            young: true,
            ..Self::default()
        }
    }

    pub(super) fn with(mut self, metric: &str, asset: &str, series: Vec<Series>) -> Self {
        self.series.insert((metric.into(), asset.into()), series);
        self
    }
}

/// Returns a series with one sample per second, the last one now.
pub(super) fn series(labels: &[(&str, &str)], values: &[f64]) -> Series {
    let first = NOW - (values.len() as i64 - 1).seconds();
    let samples = values.iter().zip(0_i64..);
    Series {
        labels: labels
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect(),
        samples: samples
            .map(|(value, at)| (first + at.seconds(), *value))
            .collect(),
    }
}

pub(super) fn code(code: &str, values: &[f64]) -> Series {
    series(&[("code", code)], values)
}

pub(super) fn errors() -> Rule {
    let requests = of("requests");
    Absolute::ratio("errors", requests.clone().beginning("code", "5"), requests)
        .at_most(0.1)
        .over(Duration::from_secs(10))
        .min_samples(3)
}

pub(super) fn request(updated: &[&str], neighbours: &[&str]) -> HealthRequest {
    let ids = |names: &[&str]| {
        let since = NOW - 60.seconds();
        let all = names.iter();
        all.map(|name| testing::watched(name, since)).collect()
    };
    let to = testing::incarnation(2, [testing::asset("job/eu"), testing::asset("job/us")]);
    HealthRequest::new(RolloutId(1), to.id().clone(), NOW)
        .updated(ids(updated))
        .neighbours(ids(neighbours))
        .reader(IncarnationReader::new(to))
}

pub(super) fn judged(rule: Rule, shown: Shown, request: HealthRequest) -> Health {
    let health = block_on(rule.reading(Arc::new(shown)).validate(request)).unwrap();
    replayed(&health);
    health
}

/// Checks that every finding follows from its evidence, which is the same bytes once read back.
fn replayed(health: &Health) {
    for finding in &health.findings {
        let bytes = serde_json::to_string(&finding.evidence).unwrap();
        let evidence: Evidence = serde_json::from_str(&bytes).unwrap();
        assert_eq!(evidence.judge(), finding.judgement, "{evidence:?}");
        let value = serde_json::to_value(&evidence).unwrap();
        assert_eq!(value, finding.evidence);
        assert_eq!(serde_json::to_string(&value).unwrap(), bytes);
        assert!(health.as_of <= evidence.as_of());
    }
}

fn of_eu(rule: Rule, series: Vec<Series>) -> Judgement {
    let shown = Shown::default().with("requests", "job/eu", series);
    judged(rule, shown, request(&["job/eu"], &[])).judgement
}

#[test]
fn a_share_of_errors_above_the_bound_is_unhealthy_and_at_the_bound_is_healthy() {
    let good = || code("200", &[100.0, 110.0, 145.0]);
    let with = |errors: &[f64]| of_eu(self::errors(), vec![good(), code("503", errors)]);
    assert_eq!(with(&[7.0, 7.0, 7.0]), Judgement::Healthy);
    assert_eq!(with(&[7.0, 8.0, 12.0]), Judgement::Healthy, "5 of 50");
    assert_eq!(with(&[7.0, 8.0, 13.0]), Judgement::Unhealthy, "6 of 51");
    assert_eq!(
        of_eu(errors(), vec![good()]),
        Judgement::Healthy,
        "none at all"
    );
}

#[test]
fn only_the_window_counts_and_never_the_lifetime() {
    let mut was_bad = vec![0.0, 1000.0];
    was_bad.extend([2000.0; 12]);
    let good: Vec<f64> = (0..14).map(|nth| f64::from(nth) * 10.0).collect();
    let read = vec![code("200", &good), code("500", &was_bad)];
    assert_eq!(of_eu(errors(), read.clone()), Judgement::Healthy);
    let longer = errors().over(Duration::from_secs(60));
    assert_eq!(of_eu(longer, read), Judgement::Unhealthy);
}

#[test]
fn r21_samples_from_before_the_last_settling_do_not_count() {
    let read = vec![
        code("200", &[0.0, 0.0, 0.0, 100.0, 200.0, 300.0]),
        code("500", &[0.0, 50.0, 90.0, 90.0, 90.0, 90.0]),
    ];
    let at = |since: i64| {
        let shown = Shown::default().with("requests", "job/eu", read.clone());
        let request = request(&["job/eu"], &[])
            .updated(vec![testing::watched("job/eu", NOW - since.seconds())]);
        judged(errors(), shown, request)
    };
    assert_eq!(at(5).judgement, Judgement::Unhealthy);
    assert_eq!(at(3).judgement, Judgement::Healthy);
    assert_eq!(at(1).judgement, Judgement::Unknown, "two samples only");
    let nothing = at(-1);
    assert_eq!(nothing.judgement, Judgement::Unknown);
    assert!(!nothing.is_healthy_since(NOW - 1.hour()));
}

#[test]
fn missing_data_and_nan_are_never_healthy() {
    let good = || code("200", &[0.0, 10.0, 20.0]);
    let with = |extra: Series| of_eu(errors(), vec![good(), extra]);
    assert_eq!(of_eu(errors(), vec![]), Judgement::Unknown, "no series");
    assert_eq!(with(series(&[], &[])), Judgement::Unknown, "a silent task");
    assert_eq!(
        with(code("500", &[9.0])),
        Judgement::Unknown,
        "a young series"
    );
    let nan = code("500", &[0.0, f64::NAN, 0.0]);
    assert_eq!(with(nan.clone()), Judgement::Unknown);
    assert_eq!(of_eu(errors(), vec![nan]), Judgement::Unknown);
    let idle = code("200", &[5.0, 5.0, 5.0]);
    assert_eq!(
        of_eu(errors(), vec![idle]),
        Judgement::Unknown,
        "no requests"
    );
    let few = errors().min_events(21);
    assert_eq!(of_eu(few, vec![good()]), Judgement::Unknown, "few requests");
    let pointless = Absolute::rate("r", of("requests")).at_most(f64::INFINITY - f64::INFINITY);
    let shown = Shown::default().with("requests", "job/eu", vec![good()]);
    let validator = pointless.min_samples(1).reading(Arc::new(shown));
    let health = block_on(validator.validate(request(&["job/eu"], &[]))).unwrap();
    assert_eq!(health.judgement, Judgement::Unknown, "no bound");
}

#[test]
fn a_source_that_fails_is_unknown_and_says_why() {
    let shown = Shown {
        broken: true,
        ..Shown::default()
    };
    let health = judged(errors(), shown, request(&["job/eu"], &[]));
    assert_eq!(health.judgement, Judgement::Unknown);
    assert!(health.findings[0].summary.contains("no connection"));
}

#[test]
fn missing_data_does_not_hide_a_broken_bound() {
    let read = vec![
        code("200", &[0.0, 1.0, 2.0]),
        code("500", &[0.0, 10.0, 20.0]),
        series(&[("task", "2")], &[]),
    ];
    assert_eq!(of_eu(errors(), read), Judgement::Unhealthy);
}

#[test]
fn a_part_of_another_metric_has_to_be_there() {
    let rule = || {
        let ratio = Absolute::ratio("late", of("late"), of("requests"));
        ratio.at_most(0.1).min_samples(3)
    };
    let shown = |late: Vec<Series>| {
        Shown::default()
            .with("requests", "job/eu", vec![series(&[], &[0.0, 10.0, 20.0])])
            .with("late", "job/eu", late)
    };
    let says = |late| judged(rule(), shown(late), request(&["job/eu"], &[]));
    assert_eq!(says(vec![]).judgement, Judgement::Unknown);
    let mut earlier = series(&[], &[0.0, 1.0, 1.0]);
    assert_eq!(says(vec![earlier.clone()]).judgement, Judgement::Healthy);
    earlier.samples.pop();
    assert_eq!(says(vec![earlier]).as_of, NOW - 1.second());
}

#[test]
fn neighbours_are_asked_too_and_the_worst_counts() {
    let good = || vec![code("200", &[0.0, 10.0, 20.0])];
    let bad = || vec![code("500", &[0.0, 10.0, 20.0])];
    let shown = || {
        Shown::default()
            .with("requests", "job/eu", good())
            .with("requests", "job/us", bad())
    };
    let request = || request(&["job/eu"], &["job/us", "job/eu"]);
    let health = judged(errors(), shown(), request());
    assert_eq!(health.judgement, Judgement::Unhealthy);
    let of: Vec<_> = health.findings.iter().map(|f| f.judgement).collect();
    assert_eq!(of, [Judgement::Healthy, Judgement::Unhealthy]);
    let health = judged(errors().without_neighbours(), shown(), request());
    assert_eq!(health.judgement, Judgement::Healthy);
}

#[test]
fn only_bad_signals_of_assets_under_way_count() {
    let good = || vec![code("200", &[0.0, 10.0, 20.0])];
    let bad = || vec![code("500", &[0.0, 10.0, 20.0])];
    let with = |rule: Rule, us| {
        let shown = Shown::default().with("requests", "job/eu", good());
        let request = request(&["job/eu"], &[])
            .under_way(vec![testing::watched("job/us", NOW - 60.seconds())]);
        judged(rule, shown.with("requests", "job/us", us), request)
    };
    assert_eq!(with(errors(), vec![]).judgement, Judgement::Healthy);
    assert_eq!(with(errors(), vec![]).as_of, NOW);
    let health = with(errors(), bad());
    assert_eq!(health.judgement, Judgement::Unhealthy);
    assert!(
        health
            .findings
            .iter()
            .any(|f| f.summary.starts_with("job/us"))
    );
    let settled = with(errors().settled_only(), bad());
    assert_eq!(settled.judgement, Judgement::Healthy);
}

#[test]
fn other_types_are_not_checked_and_unreadable_assets_are() {
    let shown = Arc::new(Shown::default());
    let validator = errors().only(["another.v1.Type"]).reading(shown.clone());
    let asked = request(&["job/eu", "gone"], &[]);
    let health = block_on(validator.validate(asked)).unwrap();
    assert_eq!(health.judgement, Judgement::Unknown);
    let asked = shown.asked.lock().unwrap();
    assert!(asked.iter().all(|query| query.asset.as_str() == "gone"));
    let unasked = block_on(validator.validate(request(&["job/eu"], &[]))).unwrap();
    assert_eq!(unasked, Health::healthy(NOW));
}

#[test]
fn the_verdict_is_as_old_as_the_oldest_of_its_last_samples() {
    let mut stale = code("200", &[0.0, 10.0, 20.0, 30.0]);
    stale.samples.pop();
    let shown = Shown::default()
        .with("requests", "job/eu", vec![code("200", &[0.0, 10.0, 20.0])])
        .with("requests", "job/us", vec![stale]);
    let health = judged(errors(), shown, request(&["job/eu", "job/us"], &[]));
    assert_eq!(health.judgement, Judgement::Healthy);
    assert_eq!(health.as_of, NOW - 1.second());
    assert!(!health.is_healthy_since(NOW));
}

#[test]
fn values_are_means_and_the_worst_series_counts() {
    let rule = || {
        Absolute::value("queue", of("requests"))
            .at_most(5.0)
            .min_samples(2)
    };
    let calm = || series(&[("task", "1")], &[1.0, 1.0, 1.0]);
    let busy = |last| series(&[("task", "2")], &[4.0, 4.0, last]);
    assert_eq!(of_eu(rule(), vec![calm(), busy(7.0)]), Judgement::Healthy);
    assert_eq!(of_eu(rule(), vec![calm(), busy(8.0)]), Judgement::Unhealthy);
    let least = Absolute::value("up", of("requests"))
        .at_least(1.0)
        .min_samples(2);
    assert_eq!(of_eu(least.clone(), vec![calm()]), Judgement::Healthy);
    let down = series(&[("task", "2")], &[1.0, 0.0]);
    assert_eq!(of_eu(least, vec![calm(), down]), Judgement::Unhealthy);
}

#[test]
fn rates_are_per_second_of_all_series_together() {
    let rule = |least| {
        Absolute::rate("traffic", of("requests"))
            .at_least(least)
            .min_samples(2)
    };
    let read = || vec![code("200", &[0.0, 10.0, 20.0]), code("404", &[0.0, 5.0])];
    assert_eq!(of_eu(rule(12.5), read()), Judgement::Healthy);
    assert_eq!(of_eu(rule(12.6), read()), Judgement::Unhealthy);
    assert_eq!(
        of_eu(rule(1.0).min_samples(1), vec![code("200", &[3.0])]),
        Judgement::Unknown,
        "one moment has no rate"
    );
}

#[test]
fn a_counter_that_was_reset_goes_on_from_zero() {
    let read = |errors: &[f64]| vec![code("200", &[900.0, 950.0, 20.0]), code("500", errors)];
    assert_eq!(
        of_eu(errors(), read(&[50.0, 50.0, 1.0])),
        Judgement::Healthy
    );
    assert_eq!(
        of_eu(errors(), read(&[50.0, 50.0, 9.0])),
        Judgement::Unhealthy
    );
}

/// The rise of a counter in each second.
pub(super) fn rises() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0_u8..20, 2..12)
}

pub(super) fn counter(label: &str, rises: &[u8]) -> Series {
    let total = |upto: usize| rises[..=upto].iter().map(|rise| f64::from(*rise)).sum();
    let values: Vec<f64> = (0..rises.len()).map(total).collect();
    code(label, &values)
}

/// A series with values in any order, duplicates and resets.
fn any_series() -> impl Strategy<Value = Series> {
    let value = prop_oneof![8 => (0_u8..50).prop_map(f64::from), 1 => Just(f64::NAN)];
    let label = prop_oneof![Just("200"), Just("500"), Just("503")];
    (label, proptest::collection::vec(value, 0..8)).prop_map(|(label, values)| code(label, &values))
}

proptest! {
    #[test]
    fn more_errors_never_improve_the_verdict(good in rises(), bad in rises(), more in rises()) {
        let worse: Vec<u8> = bad.iter().zip(more.iter().chain(std::iter::repeat(&0))).map(|(a, b)| a + b).collect();
        let says = |bad: &[u8]| of_eu(errors(), vec![counter("200", &good), counter("500", bad)]);
        let (before, after) = (says(&bad), says(&worse));
        prop_assert!(before != Judgement::Unhealthy || after == Judgement::Unhealthy);
        prop_assert!(before != Judgement::Healthy || after != Judgement::Unknown);
    }

    #[test]
    fn order_of_series_and_samples_does_not_matter(
        (read, shuffled) in proptest::collection::vec(any_series(), 0..6)
            .prop_flat_map(|read| (Just(read.clone()), Just(read).prop_shuffle())),
        turn in any::<prop::sample::Index>(),
    ) {
        let turned = shuffled.into_iter().map(|mut series| {
            let by = turn.index(series.samples.len().max(1));
            series.samples.rotate_left(by);
            series
        });
        let of = |read: Vec<Series>| {
            let shown = Shown::default().with("requests", "job/eu", read);
            judged(errors(), shown, request(&["job/eu"], &[]))
        };
        prop_assert_eq!(of(read), of(turned.collect()));
    }

    #[test]
    fn missing_series_never_make_the_verdict_healthy(read in proptest::collection::vec(any_series(), 0..6)) {
        let mut silent = read.clone();
        silent.push(series(&[("task", "9")], &[]));
        let says = of_eu(errors(), silent);
        prop_assert_ne!(says, Judgement::Healthy);
        prop_assert_eq!(says == Judgement::Unhealthy, of_eu(errors(), read) == Judgement::Unhealthy);
    }

    #[test]
    fn where_a_counter_was_reset_does_not_matter(good in rises(), bad in rises(), at in 1_usize..11) {
        // A reset shows only if the counter falls, so start from a high value.
        let reset = |series: Series| {
            let samples = series.samples.iter().enumerate();
            let lost = series.samples.get(at.saturating_sub(1)).map_or(0.0, |sample| sample.1);
            let value = |nth: usize, value: f64| if nth >= at { value - lost } else { value + 1000.0 };
            Series { samples: samples.map(|(nth, (when, much))| (*when, value(nth, *much))).collect(), ..series }
        };
        let (good, bad) = (counter("200", &good), counter("500", &bad));
        let plain = of_eu(errors(), vec![good.clone(), bad.clone()]);
        prop_assert_eq!(plain, of_eu(errors(), vec![reset(good), reset(bad)]));
    }
}

#[test]
fn r21_a_neighbour_that_was_unhealthy_before_the_rollout_does_not_condemn_it() {
    let rising = |from: usize| -> Vec<f64> {
        let rise = |nth: usize| nth.saturating_sub(from) as f64 * 10.0;
        (0..60).map(rise).collect()
    };
    // The errors of `job/us` begin in second `from` of sixty; the rollout began in second 30.
    let says = |from, updated: &str, neighbour: &str, began: bool| {
        let us = vec![code("200", &rising(0)), code("500", &rising(from))];
        let shown = Shown::default()
            .with("requests", "job/eu", vec![code("200", &rising(0))])
            .with("requests", "job/us", us);
        let request = request(&[updated], &[neighbour]).began(began.then(|| NOW - 30.seconds()));
        judged(errors(), shown, request)
    };
    let older = says(0, "job/eu", "job/us", true);
    assert_eq!(older.judgement, Judgement::Healthy);
    let said = |text: &str| older.findings.iter().any(|it| it.summary.contains(text));
    assert!(
        said("since before the rollout began"),
        "{:?}",
        older.findings
    );
    let hurt = says(35, "job/eu", "job/us", true);
    assert_eq!(hurt.judgement, Judgement::Unhealthy);
    let unmoved = says(0, "job/eu", "job/us", false);
    assert_eq!(unmoved.judgement, Judgement::Unhealthy);
    let own = says(0, "job/us", "job/eu", true);
    assert_eq!(own.judgement, Judgement::Unhealthy, "it was updated");
}
