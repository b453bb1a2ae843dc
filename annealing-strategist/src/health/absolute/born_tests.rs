//! R106: counters that appear in the window.

use std::time::Duration;

use jiff::ToSpan;
use plugin_sdk::{Judgement, Series};
use proptest::prelude::*;

use super::{
    Absolute, Rule, of,
    tests::{NOW, Shown, code, counter, errors, judged, request, rises, series},
};

/// What is said about series that have no other samples, for every kind of rule.
fn of_young(rule: Rule, all: Vec<Series>) -> Judgement {
    let shown = Shown::young().with("requests", "job/eu", all);
    judged(rule, shown, request(&["job/eu"], &[])).judgement
}

#[test]
fn r106_counter_that_appears_while_its_metric_has_older_samples_counts_from_zero() {
    let good = || code("200", &[500.0, 560.0, 620.0]);
    let old = |mut series: Series| {
        let (_, first) = series.samples[0];
        series.samples.push((NOW - 30.minutes(), first));
        series
    };
    // 100 errors of 220 requests, all before the first scrape of their series.
    let born = || vec![old(good()), code("500", &[100.0])];
    assert_eq!(of_young(errors(), born()), Judgement::Unhealthy);
    let idle = || code("200", &[500.0, 500.0, 500.0]);
    let at_least = |of_200: bool| {
        let share = of("requests").with("code", if of_200 { "200" } else { "500" });
        let ratio = Absolute::ratio("share", share, of("requests"));
        ratio
            .at_least(0.5)
            .over(Duration::from_secs(10))
            .min_samples(1)
    };
    assert_eq!(
        of_young(at_least(true), born()),
        Judgement::Healthy,
        "120 of 220"
    );
    let few = vec![old(code("500", &[7.0, 8.0])), code("200", &[9.0, 9.0])];
    assert_eq!(of_young(at_least(true), few), Judgement::Healthy, "9 of 10");
    let most = vec![old(idle()), code("500", &[1.0, 1.0])];
    assert_eq!(
        of_young(at_least(true), most),
        Judgement::Unhealthy,
        "0 of 1"
    );
    // 100 events in the two seconds since the last scrape without the counter.
    let rate = || Absolute::rate("errors", of("requests"));
    let events = || {
        vec![
            old(code("200", &[5.0, 5.0, 5.0])),
            code("500", &[100.0, 100.0]),
        ]
    };
    let most = |bound: f64| rate().at_most(bound).min_samples(1);
    let least = |bound: f64| rate().at_least(bound).min_samples(1);
    assert_eq!(of_young(most(49.0), events()), Judgement::Unhealthy);
    assert_eq!(of_young(most(50.0), events()), Judgement::Healthy);
    assert_eq!(of_young(least(50.0), events()), Judgement::Healthy);
    assert_eq!(of_young(least(51.0), events()), Judgement::Unhealthy);
    // Gauges are no counters.
    let value = Absolute::value("queue", of("requests")).at_most(5.0);
    let young = vec![series(&[("task", "1")], &[4.0, 6.0])];
    assert_eq!(of_young(value.min_samples(1), young), Judgement::Healthy);
}

#[test]
fn r106_counter_that_was_reset_since_its_last_older_sample_counts_from_zero() {
    let mut good = code("200", &[10.0, 20.0, 30.0]);
    good.samples.push((NOW - 20.seconds(), 0.0));
    let mut bad = code("500", &[8.0, 8.0, 8.0]);
    bad.samples.push((NOW - 20.seconds(), 8.0));
    let before = vec![good.clone(), bad.clone()];
    assert_eq!(of_young(errors(), before), Judgement::Healthy);
    bad.samples[3].1 = 9.0;
    assert_eq!(of_young(errors(), vec![good, bad]), Judgement::Unhealthy);
}

#[test]
fn r106_what_a_metric_counted_before_its_first_sample_of_all_is_unknown() {
    let first = |errors: &[f64]| vec![code("200", &[120.0, 180.0, 240.0]), code("500", errors)];
    assert_eq!(
        of_young(errors(), first(&[100.0, 100.0, 100.0])),
        Judgement::Unknown
    );
    assert_eq!(
        of_young(errors(), first(&[0.0, 0.0, 0.0])),
        Judgement::Unknown
    );
    let zero = vec![
        code("200", &[0.0, 60.0, 120.0]),
        code("500", &[0.0, 1.0, 1.0]),
    ];
    assert_eq!(
        of_young(errors(), zero),
        Judgement::Healthy,
        "none is missing"
    );
    assert_eq!(
        of_young(errors(), first(&[1.0, 40.0, 80.0])),
        Judgement::Unhealthy
    );
}

#[test]
fn r106_bound_from_below_is_not_broken_by_what_is_not_known() {
    let first = |errors: &[f64]| vec![code("200", &[120.0, 180.0, 240.0]), code("500", errors)];
    let good = Absolute::ratio("good", of("requests").with("code", "200"), of("requests"));
    let good = good.at_least(0.9).min_samples(1);
    assert_eq!(
        of_young(good.clone(), first(&[1.0, 40.0, 80.0])),
        Judgement::Unknown
    );
    assert_eq!(of_young(good, first(&[1.0, 1.0, 1.0])), Judgement::Unknown);
    let busy = || vec![code("200", &[9.0, 10.0, 11.0])];
    for (rule, expected) in [
        (
            Absolute::rate("r", of("requests")).at_least(0.5),
            Judgement::Unknown,
        ),
        (
            Absolute::rate("r", of("requests")).at_least(2.0),
            Judgement::Unknown,
        ),
        (
            Absolute::rate("r", of("requests")).at_most(2.0),
            Judgement::Unknown,
        ),
        (
            Absolute::rate("r", of("requests")).at_most(0.5),
            Judgement::Unhealthy,
        ),
    ] {
        assert_eq!(of_young(rule.min_samples(1), busy()), expected);
    }
}

#[test]
fn r106_two_metrics_that_count_from_different_times_are_unknown() {
    let shown = Shown::young()
        .with("requests", "job/eu", vec![code("200", &[0.0, 9.0, 20.0])])
        .with("late", "job/eu", vec![series(&[], &[9.0, 19.0, 19.0])]);
    let late = Absolute::ratio("late", of("late"), of("requests")).at_most(0.1);
    let health = judged(late.min_samples(1), shown, request(&["job/eu"], &[]));
    assert_eq!(health.judgement, Judgement::Unknown);
    assert!(
        health.findings[0]
            .summary
            .contains("no samples from before")
    );
}

proptest! {
    /// A counter that appears is as good as one that was there before with zero.
    #[test]
    fn r106_counter_that_appears_is_judged_as_one_that_was_there_with_zero(
        good in rises(), bad in rises(), from in 1_usize..11, least in any::<bool>(), rate in any::<bool>()
    ) {
        let length = good.len().min(bad.len());
        let (whole, mut there) = (counter("200", &good[..length]), counter("500", &bad[..length]));
        let from = from.min(length - 1);
        let lost = there.samples[from - 1].1;
        for (nth, (_, value)) in there.samples.iter_mut().enumerate() {
            *value = if nth < from { 0.0 } else { *value - lost };
        }
        let mut born = there.clone();
        born.samples.drain(..from);
        let bad = of("requests").with("code", "500");
        let measure = if rate { Absolute::rate("m", of("requests")) } else { Absolute::ratio("m", bad, of("requests")) };
        let bound = if rate { 10.0 } else { 0.3 };
        let rule = if least { measure.at_least(bound) } else { measure.at_most(bound) }.min_samples(1);
        let mut older = whole;
        older.samples.push((NOW - 20.minutes(), older.samples[0].1));
        there.samples.push((NOW - 20.minutes(), 0.0));
        let before = of_young(rule.clone(), vec![older.clone(), there]);
        prop_assert_eq!(before, of_young(rule, vec![older, born]));
    }
}
