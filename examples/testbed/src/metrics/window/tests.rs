//! Tests of missing, zero and removed series.

use control_plane::prelude::AssetId;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn task(id: u32, serving: bool) -> MetricsTarget {
    MetricsTarget {
        resource: format!("jobs/frontend/{id}"),
        pid: Some(100 + id),
        address: ([127, 0, 0, 1], 1).into(),
        version: Some("2".into()),
        serving,
    }
}

fn balancer() -> MetricsTarget {
    MetricsTarget {
        resource: "balancer".into(),
        version: None,
        ..task(9, true)
    }
}

fn requests(code: &str, value: f64) -> Sample {
    Sample {
        metric: "requests_total".into(),
        labels: [("code".to_owned(), code.to_owned())].into(),
        value,
    }
}

fn read(window: &Window, asset: &str, from: i64, to: i64) -> Vec<(usize, Option<f64>)> {
    let found = window.read(&query(asset, from, to));
    let rise = |series: &Series| (series.samples.len(), series.increase());
    found.iter().map(rise).collect()
}

fn query(asset: &str, from: i64, to: i64) -> SampleQuery {
    SampleQuery {
        metric: "requests_total".into(),
        labels: Labels::new(),
        asset: AssetId::new(asset).unwrap(),
        from: at(from),
        to: at(to),
    }
}

#[test]
fn series_have_the_asset_and_the_labels_of_their_process() {
    let mut window = Window::default();
    for cell in ["eu", "global"] {
        window.listed(cell, at(0), &[task(1, true), balancer()]);
        window.scraped(cell, &task(1, true), at(0), vec![requests("200", 1.0)]);
        window.scraped(cell, &balancer(), at(0), vec![requests("200", 1.0)]);
    }
    for asset in ["job/eu", "balancer/eu", "global"] {
        assert_eq!(read(&window, asset, 0, 9), [(1, None)], "{asset}");
    }
    let labels = &window.read(&query("job/eu", 0, 9))[0].labels;
    let is = |name: &str| labels[name].as_str();
    assert_eq!(
        (is("asset"), is("cluster"), is("version")),
        ("job/eu", "eu", "2")
    );
    assert_eq!(
        (is("task"), is("process"), is("code")),
        ("frontend/1", "101", "200")
    );
    let mut other = query("job/eu", 0, 9);
    other.labels.insert("code".into(), "500".into());
    assert_eq!(window.read(&other), []);
}

#[test]
fn silent_process_gives_an_empty_series_and_idle_process_gives_zero() {
    let mut window = Window::default();
    assert_eq!(read(&window, "job/eu", 0, 9), []);
    window.listed("eu", at(0), &[task(1, true), task(2, true)]);
    for second in 0..3 {
        window.scraped("eu", &task(1, true), at(second), vec![requests("200", 0.0)]);
        window.silent("eu", &task(2, true));
    }
    assert_eq!(read(&window, "job/eu", 0, 9), [(3, Some(0.0)), (0, None)]);
    window.scraped("eu", &task(2, true), at(3), vec![requests("200", 0.0)]);
    assert_eq!(read(&window, "job/eu", 0, 9), [(3, Some(0.0)), (1, None)]);
    window.lost("eu", at(4));
    let missing = read(&window, "job/eu", 4, 9);
    assert_eq!(missing, [(0, None), (0, None)]);
    let mut errors = query("job/eu", 0, 9);
    errors.labels.insert("code".into(), "500".into());
    assert_eq!(
        window.read(&errors).len(),
        2,
        "a silent process may have this series"
    );
}

#[test]
fn draining_process_is_not_missing_and_gone_process_is_kept_for_a_while() {
    let mut window = Window::default();
    window.listed("eu", at(0), &[task(1, true)]);
    for second in 0..2 {
        let much = 10.0 * second as f64;
        window.scraped(
            "eu",
            &task(1, true),
            at(second),
            vec![requests("200", much)],
        );
    }
    window.listed("eu", at(2), &[task(1, false)]);
    window.silent("eu", &task(1, false));
    assert_eq!(read(&window, "job/eu", 0, 9), [(2, Some(10.0))]);
    window.listed("eu", at(3), &[]);
    assert_eq!(read(&window, "job/eu", 0, 9), [(2, Some(10.0))]);
    assert_eq!(
        read(&window, "job/eu", 1, 9),
        [],
        "one sample shows no increase"
    );
    window.listed("eu", at(302), &[]);
    assert!(window.cells["eu"].processes.is_empty());
}

#[test]
fn new_counter_has_risen_from_zero_if_it_is_known_to_have_been_absent() {
    let mut window = Window::default();
    window.listed("eu", at(0), &[task(1, true)]);
    window.scraped("eu", &task(1, true), at(0), vec![requests("200", 900.0)]);
    assert_eq!(
        read(&window, "job/eu", 0, 9),
        [(1, None)],
        "unknown since when it counts"
    );
    let later = vec![requests("200", 900.0), requests("500", 4.0)];
    window.scraped("eu", &task(1, true), at(1), later);
    assert_eq!(
        read(&window, "job/eu", 0, 9),
        [(2, Some(0.0)), (2, Some(4.0))]
    );
    window.listed("eu", at(2), &[task(1, true), task(2, true)]);
    window.scraped("eu", &task(2, true), at(2), vec![requests("200", 7.0)]);
    assert_eq!(
        read(&window, "job/eu", 0, 9)[2],
        (2, Some(7.0)),
        "a new task"
    );
}

#[test]
fn window_is_bounded_in_time_and_in_samples() {
    let mut window = Window::default();
    let mut longest = 0;
    for second in 0..1000 {
        window.listed("eu", at(second), &[task(1, true)]);
        window.scraped("eu", &task(1, true), at(second), vec![requests("200", 1.0)]);
        window.scraped("eu", &task(1, true), at(second), vec![requests("200", 1.0)]);
        longest = longest.max(read(&window, "job/eu", 0, 2000)[0].0);
    }
    assert_eq!(longest, 301);
}
