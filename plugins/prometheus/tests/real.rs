//! R108: reads the metrics and alerts of the real servers, as Debian packages them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use jiff::Timestamp;
use plugin_sdk::{
    Alert, Counter, Expression, MetricQuery, MetricReading, MetricSource, SignalSource, Signals,
    Windows,
};
use plugins_prometheus::{Alertmanager, Prometheus, Server};
use testing_programs::needs;

/// Maximum time for a server to get to a state.
const PATIENCE: Duration = Duration::from_secs(60);

const ROUTES: &str = r#"
route: {receiver: none}
receivers: [{name: none}]
inhibit_rules:
  - {source_matchers: [severity="page"], target_matchers: [severity="warn"], equal: [cluster]}
"#;

const RULES: &str = "
groups:
  - name: slo
    rules:
      - {alert: Watchdog, expr: vector(1)}
      - {alert: Slow, expr: vector(1), labels: {cluster: eu, severity: page}}
      - {alert: Down, expr: vector(1), labels: {cluster: eu, severity: warn}}
      - {alert: Early, expr: vector(1), for: 1h}
";

/// Two series that become one by the labels of the alert, which Prometheus refuses at each evaluation.
const BROKEN: &str = r#"
groups:
  - name: broken
    rules:
      - alert: Twice
        expr: label_replace(vector(1), "a", "x", "", "") or label_replace(vector(2), "a", "y", "", "")
        labels: {a: z}
"#;

/// A running server. It is killed when it is dropped.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    /// Starts a server that listens at an address, given as `--web.listen-address`.
    fn start(program: &str, dir: &Path, at: &str, arguments: &[&str]) -> Self {
        let log = fs::File::create(dir.join(format!("{program}.log"))).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .arg(format!("--web.listen-address={at}"))
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let address = format!("http://{at}");
        Self { child, address }
    }

    /// Starts a Prometheus that scrapes itself.
    fn prometheus(dir: &Path, rules: &str, alertmanagers: &str) -> Self {
        let at = free();
        let config = format!(
            "global: {{evaluation_interval: 1s, scrape_interval: 1s}}\nrule_files: [rules.yml]\n\
             scrape_configs: [{{job_name: self, static_configs: [{{targets: [{at}]}}]}}]\n\
             alerting: {{alertmanagers: [{{static_configs: [{{targets: [{alertmanagers}]}}]}}]}}\n"
        );
        fs::write(dir.join("prometheus.yml"), config).unwrap();
        fs::write(dir.join("rules.yml"), rules).unwrap();
        let arguments = [
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=metrics",
            // The first time, Prometheus has not found the Alertmanager yet. The default is a minute.
            "--rules.alert.resend-delay=1s",
        ];
        Self::start("prometheus", dir, &at, &arguments)
    }

    fn alertmanager(dir: &Path) -> Self {
        fs::write(dir.join("alertmanager.yml"), ROUTES).unwrap();
        let arguments = [
            "--config.file=alertmanager.yml",
            "--storage.path=alerts",
            "--cluster.listen-address=",
        ];
        Self::start("prometheus-alertmanager", dir, &free(), &arguments)
    }

    fn server(&self) -> Server {
        Server::at(&self.address).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address with a free port.
fn free() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

/// Reads the alerts until `is_so`, and returns the last answer.
async fn until(
    source: &impl SignalSource,
    is_so: impl Fn(&Result<Signals, String>) -> bool,
) -> Result<Signals, String> {
    let mut last = Err("not read yet".to_owned());
    let reads = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        while !is_so(&last) {
            ticks.tick().await;
            last = source.firing().await.map_err(|error| error.to_string());
        }
    };
    let ended = tokio::time::timeout(PATIENCE, reads).await;
    assert!(ended.is_ok(), "{last:?}");
    last
}

fn named<'a>(signals: &'a Signals, name: &str) -> Option<&'a Alert> {
    signals.firing.iter().find(|alert| alert.name == name)
}

#[tokio::test]
async fn r108_alerts_silences_and_inhibitions_of_the_real_servers_are_read() {
    needs!("prometheus", "prometheus");
    needs!("prometheus-alertmanager", "prometheus-alertmanager");
    let dir = tempfile::tempdir().unwrap();
    let second = Running::alertmanager(dir.path());
    let at = second.address.trim_start_matches("http://");
    let first = Running::prometheus(dir.path(), RULES, at);

    let prometheus = Prometheus::new(first.server()).unwrap();
    let fire = |read: &Result<Signals, String>| read.as_ref().is_ok_and(|it| it.firing.len() >= 3);
    let signals = until(&prometheus, fire).await.unwrap();
    let names: Vec<&str> = signals.firing.iter().map(|alert| &*alert.name).collect();
    assert_eq!(names, ["Watchdog", "Slow", "Down"]);
    assert_eq!(named(&signals, "Slow").unwrap().labels["cluster"], "eu");
    assert!(signals.firing.iter().all(|alert| alert.since.is_some()));

    let silence = [
        "silence",
        "add",
        "--author=bo",
        "--comment=a test",
        "alertname=Slow",
    ];
    let alertmanager = Alertmanager::new(second.server()).unwrap();
    until(&alertmanager, fire).await.unwrap();
    let added = Command::new("amtool")
        .args(silence)
        .arg(format!("--alertmanager.url={}", second.address))
        .output()
        .unwrap();
    assert!(added.status.success(), "{added:?}");
    let is_silenced = |read: &Result<Signals, String>| {
        let slow = read.as_ref().ok().and_then(|it| named(it, "Slow"));
        slow.is_some_and(|slow| slow.silenced.is_some())
    };
    let signals = until(&alertmanager, is_silenced).await.unwrap();
    let slow = named(&signals, "Slow").unwrap();
    assert!(
        slow.to_string().contains("silenced by bo until 20"),
        "{slow}"
    );
    let inhibited: Vec<bool> = ["Watchdog", "Slow", "Down"]
        .map(|name| named(&signals, name).unwrap().inhibited)
        .to_vec();
    assert_eq!(inhibited, [false, false, true]);
}

#[tokio::test]
async fn r108_rule_that_prometheus_cannot_evaluate_is_an_error() {
    needs!("prometheus", "prometheus");
    let dir = tempfile::tempdir().unwrap();
    let server = Running::prometheus(dir.path(), BROKEN, "");
    let prometheus = Prometheus::new(server.server()).unwrap();
    let fails = |read: &Result<Signals, String>| {
        let error = read.as_ref().err();
        error.is_some_and(|error| error.contains("same labelset"))
    };
    let error = until(&prometheus, fails).await.unwrap_err();
    assert!(
        error.starts_with("the alerting rule `Twice` of http://127.0.0.1"),
        "{error}"
    );
}

/// The values of an expression in the newest five windows of 2 s.
async fn values(prometheus: &Prometheus, text: &str) -> Result<MetricReading, String> {
    let now = prometheus
        .firing()
        .await
        .map_err(|error| error.to_string())?;
    values_at(prometheus, text, now.as_of).await
}

/// The values of an expression in the last five windows of 2 s before `now`.
async fn values_at(
    prometheus: &Prometheus,
    text: &str,
    now: Timestamp,
) -> Result<MetricReading, String> {
    let expression = Expression::new(text).by("job");
    prometheus.accepts(&expression).unwrap();
    let of = Duration::from_secs(2);
    let windows = Windows::closed(of, Duration::ZERO, now).many(5);
    let read = prometheus
        .read(MetricQuery {
            expression,
            windows,
        })
        .await;
    read.map_err(|error| error.to_string())
}

#[tokio::test]
async fn r108_metrics_of_the_real_server_are_read_per_window() {
    needs!("prometheus", "prometheus");
    let dir = tempfile::tempdir().unwrap();
    let server = Running::prometheus(dir.path(), RULES, "");
    let prometheus = Prometheus::new(server.server()).unwrap();
    // Prometheus counts its own scrapes, one in a second.
    let scrapes =
        "sum by (job) (increase(prometheus_http_requests_total{handler=\"/metrics\"}[$window]))";
    let mut last = Err("not read yet".to_owned());
    let reads = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        let full = |it: &MetricReading| it.series.first().is_some_and(|it| it.samples.len() > 2);
        while !last.as_ref().is_ok_and(full) {
            ticks.tick().await;
            last = values(&prometheus, scrapes).await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, reads).await;
    assert!(ended.is_ok(), "{last:?}");
    let reading = last.unwrap();
    assert_eq!(reading.series[0].labels["job"], "self");
    assert_eq!(reading.series.len(), 1);
    let ends: Vec<i64> = reading.series[0]
        .samples
        .iter()
        .map(|it| it.0.as_second())
        .collect();
    assert!(ends.iter().all(|end| end % 2 == 0), "{ends:?}");
    assert!(reading.series[0].samples.iter().all(|it| it.1.is_finite()));
    let commented = format!("{scrapes} # by job");
    assert!(values(&prometheus, &commented).await.is_ok());
    let nothing = values(&prometheus, "sum by (job) (missing)").await.unwrap();
    assert_eq!(nothing.series, []);
    // Two series that become one, which is known only when they are evaluated.
    let twice = "label_replace(prometheus_http_requests_total, \"handler\", \"\", \"\", \"\")";
    let refused = values(&prometheus, twice).await.unwrap_err();
    assert!(
        refused.contains(" answers 422: ") || refused.contains(" answers 400: "),
        "{refused}"
    );
}

/// Puts samples, in the text format of OpenMetrics, into the store of a Prometheus that is not running.
fn put(dir: &Path, samples: &str) {
    fs::write(dir.join("old.txt"), format!("{samples}# EOF\n")).unwrap();
    let put = Command::new("promtool")
        .args([
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            "old.txt",
            "metrics",
        ])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(put.status.success(), "{put:?}");
}

/// The time of a file system, which is that of the server.
fn now(dir: &Path) -> Timestamp {
    let now = dir.metadata().unwrap().modified().unwrap();
    Timestamp::try_from(now).unwrap()
}

#[tokio::test]
async fn r108_value_that_is_older_than_two_windows_is_none() {
    needs!("prometheus", "prometheus");
    let dir = tempfile::tempdir().unwrap();
    // Prometheus shows it for five minutes.
    let now = now(dir.path());
    let sampled = now - Duration::from_secs(120);
    let gauge = "# TYPE old gauge\nold{job=\"x\"} 1";
    put(dir.path(), &format!("{gauge} {}\n", sampled.as_second()));
    let server = Running::prometheus(dir.path(), RULES, "");
    let prometheus = Prometheus::new(server.server()).unwrap();
    let fire = |read: &Result<Signals, String>| read.is_ok();
    until(&prometheus, fire).await.unwrap();
    let soon = sampled + Duration::from_secs(3);
    let then = values_at(&prometheus, "old", soon).await.unwrap();
    assert_eq!(then.series[0].labels["job"], "x", "{then:?}");
    assert_eq!(values_at(&prometheus, "old", now).await.unwrap().series, []);
}

/// Counters of one series: a sample each 15 s, at these values. The last one is 5 s before the end of the window; the window has four.
fn scraped(series: &str, values: &[Option<u32>], end: Timestamp) -> String {
    let last = end.as_second() - 5;
    let times = (0..).map(|nth| last - 15 * nth);
    let mut samples: Vec<(i64, u32)> = times
        .zip(values.iter().rev())
        .filter_map(|(at, value)| Some((at, (*value)?)))
        .collect();
    samples.reverse();
    let line = |(at, value): &(i64, u32)| format!("requests_total{{{series}}} {value} {at}\n");
    samples.iter().map(line).collect()
}

#[tokio::test]
async fn r106_counters_that_appear_count_from_zero_where_that_is_known() {
    needs!("prometheus", "prometheus");
    let dir = tempfile::tempdir().unwrap();
    let window = Duration::from_secs(60);
    let windows = Windows::closed(window, Duration::from_secs(120), now(dir.path()));
    let good = |values: &[Option<u32>], job: &str| {
        scraped(&format!("job=\"{job}\",code=\"200\""), values, windows.last)
    };
    let bad = |values: &[Option<u32>], job: &str| {
        scraped(&format!("job=\"{job}\",code=\"503\""), values, windows.last)
    };
    let steady = [100; 8].map(Some);
    let born = [None, None, None, None, None, None, Some(7), Some(7)];
    let samples = [
        // Its errors appear with 7 in the window, and it is not known when they came.
        good(&steady, "appears"),
        bad(&born, "appears"),
        good(&steady, "none"),
        // Its errors are not scraped any more.
        good(&steady, "silent"),
        bad(
            &[Some(3), Some(3), None, None, None, None, None, None],
            "silent",
        ),
        good(&born, "new"),
        bad(&born, "new"),
        good(&steady, "reset"),
        bad(&[40, 40, 40, 40, 40, 2, 2, 2].map(Some), "reset"),
        // It is not scraped any more at all.
        good(
            &[Some(1), Some(1), None, None, None, None, None, None],
            "gone",
        ),
    ];
    let text = format!("# TYPE requests counter\n{}", samples.concat());
    put(dir.path(), &text);
    let server = Running::prometheus(dir.path(), RULES, "");
    let prometheus = Prometheus::new(server.server()).unwrap();
    until(&prometheus, |read: &Result<Signals, String>| read.is_ok())
        .await
        .unwrap();
    let errors = Counter::of("requests_total").with("code", "5..");
    let expression = Expression::counter(errors).by("job");
    prometheus.accepts(&expression).unwrap();
    let query = MetricQuery {
        expression,
        windows,
    };
    let reading = prometheus.read(query).await.unwrap();
    let mut found: Vec<(&str, i64)> = reading
        .series
        .iter()
        .map(|it| (it.labels["job"].as_str(), it.samples[0].1.round() as i64))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [("appears", 7), ("none", 0), ("reset", 3)]);
}
