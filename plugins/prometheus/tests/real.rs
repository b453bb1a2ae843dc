//! R108: reads the alerts of the real servers, as Debian packages them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use plugin_sdk::{Alert, SignalSource, Signals};
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
    /// Starts a server that listens on a free port, given as `--web.listen-address`.
    fn start(program: &str, dir: &Path, arguments: &[&str]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = free.local_addr().unwrap().to_string();
        drop(free);
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

    fn prometheus(dir: &Path, rules: &str, alertmanagers: &str) -> Self {
        let config = format!(
            "global: {{evaluation_interval: 1s}}\nrule_files: [rules.yml]\n\
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
        Self::start("prometheus", dir, &arguments)
    }

    fn alertmanager(dir: &Path) -> Self {
        fs::write(dir.join("alertmanager.yml"), ROUTES).unwrap();
        let arguments = [
            "--config.file=alertmanager.yml",
            "--storage.path=alerts",
            "--cluster.listen-address=",
        ];
        Self::start("prometheus-alertmanager", dir, &arguments)
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

/// Reads the alerts until `is_so`, and returns the last answer.
async fn until(
    source: &impl SignalSource,
    is_so: impl Fn(&Result<Signals, String>) -> bool,
) -> Result<Signals, String> {
    let mut last = Err("not asked yet".to_owned());
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
