//! Tests of production on real processes, without a control plane: the properties on which a control plane relies.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are outside their functions, where clippy does not see that they are tests"
)]

use std::{
    fs,
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use control_plane::{
    prelude::{AssetId, Timestamp},
    sdk::{MetricQuery, MetricSource, Series},
};
use hyper::Method;
use shakespeare::metrics::Scraper;
use shakespeare::production::{
    api::{BalancerSpec, By, Caller, Change, JobSpec, JobView, Line, Phase, Progress, State},
    client::{Cell, Error},
    clock::now_micros,
    load::{Attempt, Load},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_shakespeare");
const JOB: &str = "frontend";

/// A temporary directory for cells. Dropping it kills all its cells.
struct Town {
    dir: tempfile::TempDir,
}

impl Town {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn cell_dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn cell(&self, name: &str) -> Cell {
        Cell::ensure(Path::new(PROGRAM), &self.cell_dir(name), name)
            .await
            .unwrap()
    }

    /// Starts a cell with a job of three tasks and a balancer in front of them.
    async fn cluster(&self, name: &str) -> Cell {
        let cell = self.cell(name).await;
        cell.put_job(JOB, &job(3, "1"), &by_hand()).await.unwrap();
        settled(&cell).await;
        cell.put_balancer(&in_front(24), &by_hand()).await.unwrap();
        balanced(&cell).await;
        cell
    }

    /// Starts the global balancer in front of these cells.
    async fn global(&self, cells: &[&str]) -> (Cell, SocketAddr) {
        let global = self.cell("global").await;
        let spec = BalancerSpec {
            max_capacity: 48,
            jobs: vec![],
            cells: cells.iter().map(|name| ((*name).to_owned(), 24)).collect(),
        };
        global.put_balancer(&spec, &by_hand()).await.unwrap();
        let address = until("the global balancer knows its cells", async || {
            let view = global.balancer(&by_hand()).await.unwrap().unwrap();
            (view.endpoints.len() == cells.len() && view.state == State::Stable)
                .then_some(view.address)
        })
        .await;
        (global, address)
    }

    fn journal(&self, name: &str) -> Vec<Line> {
        let text = fs::read_to_string(self.cell_dir(name).join("journal.jsonl")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        let dir = self.dir.path().display().to_string();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
            if line.contains("\0cell\0") && line.contains(&dir) {
                kill(process.file_name().to_str().unwrap().parse().unwrap());
            }
        }
    }
}

fn by_hand() -> Caller {
    Caller::default()
}

fn owner(token: u64, n: u64) -> Caller {
    Caller {
        token: Some(token),
        n: Some(n),
        incarnation: Some(format!("incarnation {n}")),
        after: None,
    }
}

fn job(replicas: u32, version: &str) -> JobSpec {
    JobSpec {
        replicas,
        capacity_per_task: 8,
        version: version.into(),
        schema: 1,
        flags: vec![],
    }
}

fn in_front(max_capacity: u32) -> BalancerSpec {
    BalancerSpec {
        max_capacity,
        jobs: vec![JOB.into()],
        cells: Default::default(),
    }
}

fn kill(pid: u32) {
    // The process may have exited already.
    let _ = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -9 {pid}"))
        .output();
}

fn running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Repeats `ask` until it returns a value, for at most a minute.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asking)
        .await
        .unwrap_or_else(|_| panic!("waited a minute in vain until {what}"))
}

async fn settled(cell: &Cell) -> JobView {
    until("the job is stable", async || {
        let view = cell.job(JOB, &by_hand()).await.unwrap().unwrap();
        (view.state == State::Stable).then_some(view)
    })
    .await
}

async fn balanced(cell: &Cell) -> SocketAddr {
    until("the balancer is stable", async || {
        let view = cell.balancer(&by_hand()).await.unwrap().unwrap();
        (view.state == State::Stable).then_some(view.address)
    })
    .await
}

fn hammer(address: SocketAddr) -> Load {
    Load::start(address, &Method::GET, 8, Duration::from_millis(1))
}

/// Sends `POST` requests, which a balancer may not send twice.
fn hammer_once_each(address: SocketAddr) -> Load {
    Load::start(address, &Method::POST, 8, Duration::ZERO)
}

async fn passed(load: &mut Load, requests: usize) {
    tokio::time::timeout(Duration::from_secs(60), load.passed(requests))
        .await
        .unwrap();
}

fn failures(log: &[Attempt]) -> Vec<&Attempt> {
    log.iter().filter(|attempt| attempt.failed()).collect()
}

#[tokio::test]
async fn cell_turns_up_three_tasks_and_serves() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let view = settled(&cell).await;
    assert_eq!(view.tasks.len(), 3);
    assert_eq!(view.capacity_in_force, 24);
    assert!(view.tasks.iter().all(|task| running(task.pid)));
    assert_eq!(
        cell.put_job(JOB, &job(3, "1"), &by_hand()).await.unwrap(),
        Progress::Done
    );

    let mut load = hammer(balanced(&cell).await);
    passed(&mut load, 300).await;
    let log = load.stop().await;
    assert_eq!(failures(&log), Vec::<&Attempt>::new());
    for task in view.tasks {
        let name = Some(format!("eu/frontend/{}", task.id));
        assert!(
            log.iter().any(|attempt| attempt.frontend == name),
            "{name:?}"
        );
    }
}

#[tokio::test]
async fn cell_has_one_process_which_is_found_again_and_a_second_one_exits() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    let second = Command::new(PROGRAM)
        .args(["cell", "--name", "eu", "--dir"])
        .arg(town.cell_dir("eu"))
        .output()
        .unwrap();
    assert!(!second.status.success());
    let again = town.cell("eu").await;
    assert_eq!(again.instance(), cell.instance());
    assert_eq!(again.pid(), cell.pid());
    // A process group of its own: Ctrl-C in the terminal of its parent does not reach it.
    let stat = fs::read_to_string(format!("/proc/{}/stat", cell.pid())).unwrap();
    let group = stat.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap();
    assert_eq!(group, cell.pid().to_string());
    assert!(matches!(
        Cell::connect(&town.cell_dir("eu"), "us").await,
        Err(Error::Unreachable { .. })
    ));
}

#[tokio::test]
async fn killed_frontends_are_replaced_and_no_request_fails() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let mut load = hammer(balanced(&cell).await);
    for _ in 0..3 {
        passed(&mut load, 50).await;
        let before = settled(&cell).await;
        let victim = before.tasks[0].pid;
        kill(victim);
        until("the task is replaced", async || {
            let view = settled(&cell).await;
            view.tasks
                .iter()
                .all(|task| task.pid != victim)
                .then_some(())
        })
        .await;
    }
    passed(&mut load, 50).await;
    // No exception for requests in flight on the killed frontend: the balancer repeats a GET on another endpoint.
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());
    let healed = town
        .journal("eu")
        .into_iter()
        .filter(|line| line.by == By::Heal && line.change == Change::Process)
        .count();
    assert_eq!(healed, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_balancer_is_replaced_at_the_same_address() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let address = balanced(&cell).await;
    let mut load = hammer(address);
    passed(&mut load, 50).await;
    let victim = cell
        .balancer(&by_hand())
        .await
        .unwrap()
        .unwrap()
        .pid
        .unwrap();
    let before = now_micros();
    kill(victim);
    until("the balancer is gone", async || {
        (!running(victim)).then_some(())
    })
    .await;
    // A client needs a moment to notice that a connection it holds has died.
    let after = now_micros() + 50_000;
    until("the balancer is replaced", async || {
        let view = cell.balancer(&by_hand()).await.unwrap().unwrap();
        (view.pid.is_some_and(|pid| pid != victim) && view.state == State::Stable).then_some(())
    })
    .await;
    assert_eq!(balanced(&cell).await, address);
    passed(&mut load, 200).await;
    let log = load.stop().await;
    // Only requests in flight on the balancer when it was killed may fail.
    for attempt in failures(&log) {
        assert!(attempt.in_flight_during(before, after), "{attempt:?}");
    }
}

#[tokio::test]
async fn no_request_fails_behind_the_global_balancer_when_a_clusters_balancer_is_killed() {
    let town = Town::new();
    let (eu, _us) = tokio::join!(town.cluster("eu"), town.cluster("us"));
    let (_global, address) = town.global(&["eu", "us"]).await;
    let mut load = hammer(address);
    passed(&mut load, 50).await;
    kill(eu.balancer(&by_hand()).await.unwrap().unwrap().pid.unwrap());
    passed(&mut load, 300).await;
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());
}

#[tokio::test]
async fn update_replaces_task_by_task_and_no_request_fails() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let mut load = hammer_once_each(balanced(&cell).await);
    passed(&mut load, 50).await;
    let answer = cell.put_job(JOB, &job(3, "2"), &owner(1, 1)).await.unwrap();
    assert_eq!(answer, Progress::InProgress);
    let view = settled(&cell).await;
    assert!(view.tasks.iter().all(|task| task.version == "2"));
    passed(&mut load, 100).await;
    let log = load.stop().await;
    assert_eq!(failures(&log), Vec::<&Attempt>::new());
    assert_eq!(log[0].version.as_deref(), Some("1"));
    assert_eq!(log.last().unwrap().version.as_deref(), Some("2"));
    least_serving(&town.journal("eu"), 3);
}

/// Expects that once `least` tasks serve, the journal never shows fewer.
fn least_serving(journal: &[Line], least: usize) {
    let mut serving = std::collections::BTreeSet::new();
    let mut there = false;
    for line in journal
        .iter()
        .filter(|line| line.resource.starts_with("jobs/frontend/"))
    {
        if line.to["phase"] == "serving" {
            serving.insert(&line.resource);
        } else {
            serving.remove(&line.resource);
        }
        there |= serving.len() >= least;
        assert!(!there || serving.len() >= least, "{line:?}");
    }
    assert!(there);
}

#[tokio::test]
async fn shrinking_and_growing_under_load_fails_no_request_and_keeps_capacity_above_demand() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let mut load = hammer_once_each(balanced(&cell).await);
    passed(&mut load, 50).await;
    // The safe order: the consumer shrinks first and grows last.
    cell.put_balancer(&in_front(8), &by_hand()).await.unwrap();
    balanced(&cell).await;
    cell.put_job(JOB, &job(1, "1"), &by_hand()).await.unwrap();
    assert_eq!(settled(&cell).await.tasks.len(), 1);
    passed(&mut load, 50).await;
    cell.put_job(JOB, &job(4, "1"), &by_hand()).await.unwrap();
    assert_eq!(settled(&cell).await.tasks.len(), 4);
    cell.put_balancer(&in_front(32), &by_hand()).await.unwrap();
    balanced(&cell).await;
    passed(&mut load, 50).await;
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());

    let (mut capacity, mut demand) = (0, 0);
    let mut seen = vec![];
    for line in town
        .journal("eu")
        .iter()
        .filter(|line| line.change == Change::Capacity)
    {
        let to = line.to.as_u64().unwrap();
        match line.resource.as_str() {
            "balancer" => demand = to,
            _ => capacity = to,
        }
        assert!(demand <= capacity, "{line:?}");
        seen.push((capacity, demand));
    }
    assert_eq!(
        seen,
        [(24, 0), (24, 24), (24, 8), (8, 8), (32, 8), (32, 32)]
    );
}

#[tokio::test]
async fn delisted_task_stays_until_it_has_no_request_in_flight() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    let slow = |version| JobSpec {
        flags: vec!["--work-ms=2000".into()],
        ..job(1, version)
    };
    cell.put_job(JOB, &slow("1"), &by_hand()).await.unwrap();
    settled(&cell).await;
    cell.put_balancer(&in_front(8), &by_hand()).await.unwrap();
    let load = hammer_once_each(balanced(&cell).await);
    cell.put_job(JOB, &slow("2"), &by_hand()).await.unwrap();
    until("the old task drains", async || {
        let view = cell.job(JOB, &by_hand()).await.unwrap().unwrap();
        let draining = view
            .tasks
            .iter()
            .find(|task| task.phase == Phase::Draining)?;
        assert_eq!(draining.version, "1");
        running(draining.pid).then_some(())
    })
    .await;
    settled(&cell).await;
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());
}

#[tokio::test]
async fn lower_balancer_maximum_is_in_force_only_when_the_requests_in_flight_fit() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    let slow = JobSpec {
        flags: vec!["--work-ms=400".into()],
        ..job(2, "1")
    };
    cell.put_job(JOB, &slow, &by_hand()).await.unwrap();
    settled(&cell).await;
    cell.put_balancer(&in_front(16), &by_hand()).await.unwrap();
    let mut load = Load::start(balanced(&cell).await, &Method::GET, 16, Duration::ZERO);
    passed(&mut load, 16).await;
    let asked = now_micros();
    let answer = cell.put_balancer(&in_front(4), &by_hand()).await.unwrap();
    assert_eq!(answer, Progress::InProgress);
    let shrunk = until("the maximum has shrunk", async || {
        let view = cell.balancer(&by_hand()).await.unwrap().unwrap();
        (view.max_capacity_in_force == 4).then(now_micros)
    })
    .await;
    let log = load.stop().await;
    assert_eq!(failures(&log), Vec::<&Attempt>::new());
    // A request that was admitted before the change takes 400 ms; one that had to wait takes longer.
    let let_through = |attempt: &&Attempt| {
        attempt.in_flight_during(asked, asked)
            && attempt.end_micros - attempt.start_micros < 700_000
    };
    let left = log
        .iter()
        .filter(let_through)
        .filter(|attempt| attempt.end_micros > shrunk);
    assert!(left.count() <= 4);
}

#[tokio::test]
async fn bad_version_passes_its_errors_to_the_client() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let bad = JobSpec {
        flags: vec!["--fail-percent=50".into()],
        ..job(3, "2")
    };
    cell.put_job(JOB, &bad, &by_hand()).await.unwrap();
    settled(&cell).await;
    let mut load = hammer(balanced(&cell).await);
    passed(&mut load, 200).await;
    let log = load.stop().await;
    let failed = failures(&log);
    assert!(
        failed.iter().all(|attempt| attempt.status == Some(500)),
        "{failed:?}"
    );
    let share = failed.len() as f64 / log.len() as f64;
    assert!((0.3..0.7).contains(&share), "{share}");
}

#[tokio::test]
async fn version_that_does_not_start_leaves_the_old_one_serving_and_reports_why() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let broken = JobSpec {
        flags: vec!["--no-such-flag".into()],
        ..job(3, "2")
    };
    cell.put_job(JOB, &broken, &by_hand()).await.unwrap();
    let view = until("the problem shows", async || {
        let view = cell.job(JOB, &by_hand()).await.unwrap().unwrap();
        view.problem.is_some().then_some(view)
    })
    .await;
    assert_eq!(view.state, State::Changing);
    let serving = |view: &JobView| {
        view.tasks
            .iter()
            .filter(|task| task.phase == Phase::Serving && task.version == "1")
            .count()
    };
    assert_eq!(serving(&view), 3);
    cell.put_job(JOB, &job(3, "1"), &by_hand()).await.unwrap();
    assert_eq!(serving(&settled(&cell).await), 3);
}

#[tokio::test]
async fn calls_of_an_older_owner_are_refused_even_after_a_restart_of_the_cell() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    cell.put_job(JOB, &job(1, "1"), &owner(7, 3)).await.unwrap();
    let refused =
        |answer: Result<Progress, Error>| matches!(answer, Err(Error::Fenced { seen: 7 | 8, .. }));
    assert!(refused(cell.put_job(JOB, &job(2, "1"), &owner(6, 9)).await));
    assert!(refused(cell.put_job(JOB, &job(2, "1"), &owner(7, 2)).await));
    assert!(refused(cell.delete_job(JOB, &owner(7, 2)).await));
    // A read of a new owner is enough to fence the old one.
    cell.job(JOB, &owner(8, 0)).await.unwrap().unwrap();
    assert!(refused(cell.put_job(JOB, &job(2, "1"), &owner(7, 4)).await));
    assert!(matches!(
        cell.job(JOB, &owner(7, 4)).await,
        Err(Error::Fenced { seen: 8, .. })
    ));
    // Each resource has a fence of its own.
    cell.put_balancer(&in_front(8), &owner(1, 1)).await.unwrap();

    kill(cell.pid());
    until("the cell is gone", async || {
        (!running(cell.pid())).then_some(())
    })
    .await;
    let cell = town.cell("eu").await;
    assert!(refused(cell.put_job(JOB, &job(2, "1"), &owner(7, 5)).await));
    cell.put_job(JOB, &job(1, "1"), &owner(8, 1)).await.unwrap();
}

#[tokio::test]
async fn killed_cell_loses_its_processes_and_restarts_empty_while_others_serve() {
    let town = Town::new();
    let (eu, us) = tokio::join!(town.cluster("eu"), town.cluster("us"));
    let (_global, address) = town.global(&["eu", "us"]).await;
    let mut load = hammer(address);
    passed(&mut load, 50).await;
    let mut family: Vec<u32> = settled(&eu)
        .await
        .tasks
        .iter()
        .map(|task| task.pid)
        .collect();
    family.extend(eu.balancer(&by_hand()).await.unwrap().unwrap().pid);
    assert_eq!(family.len(), 4);

    kill(eu.pid());
    until("its processes are gone", async || {
        (!family.iter().any(|pid| running(*pid))).then_some(())
    })
    .await;
    passed(&mut load, 50).await;
    let again = town.cell("eu").await;
    assert_ne!(again.instance(), eu.instance());
    assert_eq!(again.job(JOB, &by_hand()).await.unwrap(), None);
    assert_eq!(again.balancer(&by_hand()).await.unwrap(), None);

    let journal = town.journal("eu");
    assert_eq!(journal[0].instance, eu.instance());
    assert_eq!(journal.last().unwrap().instance, again.instance());

    // After a new turnup the cell serves again: the global balancer finds it without a call.
    let again = town.cluster("eu").await;
    let tasks = settled(&again).await.tasks;
    until("the cell that came back answers", async || {
        let log = load.so_far();
        let late = log.iter().rev().take(200);
        let name = format!("eu/frontend/{}", tasks[0].id);
        let back = town.journal("eu").last().unwrap().at_micros;
        late.into_iter()
            .any(|attempt| attempt.start_micros > back && attempt.frontend.as_ref() == Some(&name))
            .then_some(())
    })
    .await;
    assert!(running(us.pid()));
    // No exception for requests in flight there: the global balancer repeats a GET on another endpoint.
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());
}

#[tokio::test]
async fn changes_by_hand_are_journalled_and_calls_without_effect_are_not() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    cell.put_job(JOB, &job(2, "1"), &owner(1, 1)).await.unwrap();
    settled(&cell).await;
    cell.put_job(JOB, &job(2, "1"), &owner(1, 2)).await.unwrap();
    cell.put_job(JOB, &job(1, "1"), &by_hand()).await.unwrap();
    settled(&cell).await;
    let asked: Vec<(Option<u64>, By)> = town
        .journal("eu")
        .into_iter()
        .filter(|line| line.change == Change::Spec)
        .map(|line| (line.to["replicas"].as_u64(), line.by))
        .collect();
    let owned = By::Owner {
        token: 1,
        n: 1,
        incarnation: Some("incarnation 1".into()),
    };
    assert_eq!(asked, [(Some(2), owned), (Some(1), By::Hand)]);
}

#[tokio::test]
async fn turndown_under_load_fails_no_request_and_leaves_no_process() {
    let town = Town::new();
    let (eu, us) = tokio::join!(town.cluster("eu"), town.cluster("us"));
    let (_global, address) = town.global(&["eu", "us"]).await;
    let mut load = hammer(address);
    passed(&mut load, 50).await;
    let tasks = settled(&eu).await.tasks;
    let pid = eu.pid();
    eu.turn_down(&by_hand()).await.unwrap();
    until("the cell is gone", async || (!running(pid)).then_some(())).await;
    assert!(!tasks.iter().any(|task| running(task.pid)));
    assert!(!town.cell_dir("eu").join("address").exists());
    passed(&mut load, 50).await;
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());
    assert_eq!(settled(&us).await.tasks.len(), 3);
}

#[tokio::test]
async fn invalid_calls_are_refused() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    let invalid = |answer: Result<Progress, Error>| matches!(answer, Err(Error::Invalid(_)));
    let nothing = JobSpec {
        capacity_per_task: 0,
        ..job(1, "1")
    };
    assert!(invalid(cell.put_job(JOB, &nothing, &by_hand()).await));
    assert!(invalid(
        cell.put_job(JOB, &job(1000, "1"), &by_hand()).await
    ));
    assert!(invalid(
        cell.put_job("Not-A-Name", &job(1, "1"), &by_hand()).await
    ));
    let n_only = Caller {
        n: Some(3),
        ..by_hand()
    };
    assert!(invalid(cell.put_job(JOB, &job(1, "1"), &n_only).await));
    assert_eq!(
        cell.delete_job(JOB, &by_hand()).await.unwrap(),
        Progress::Done
    );
}

#[tokio::test]
async fn bodies_up_to_64_kib_pass_the_balancer_and_larger_ones_are_refused() {
    use http_body_util::Full;
    use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let address = balanced(&cell).await;
    for (size, expected) in [
        (65_536, StatusCode::OK),
        (65_537, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let body = Full::new(Bytes::from(vec![b'x'; size]));
        let request = Request::post("/")
            .header("host", "shakespeare")
            .body(body)
            .unwrap();
        assert_eq!(
            sender.send_request(request).await.unwrap().status(),
            expected
        );
    }
}

#[tokio::test]
async fn drained_tasks_exit_after_a_balancer_is_removed_and_created_again() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let address = balanced(&cell).await;
    cell.delete_balancer(&by_hand()).await.unwrap();
    cell.put_job(JOB, &job(1, "1"), &by_hand()).await.unwrap();
    until("the balancer is gone", async || {
        let view = cell.balancer(&by_hand()).await.unwrap();
        view.is_none().then_some(())
    })
    .await;
    cell.put_balancer(&in_front(8), &by_hand()).await.unwrap();
    assert_eq!(balanced(&cell).await, address, "the address stays the same");
    assert_eq!(settled(&cell).await.tasks.len(), 1);
}

/// Returns the request counters of an asset's processes, over all time.
async fn requests(scraper: &Scraper, asset: &str, labels: &[(&str, &str)]) -> Vec<Series> {
    let query = MetricQuery {
        metric: "http_requests_total".into(),
        labels: labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        asset: AssetId::new(asset).unwrap(),
        from: Timestamp::UNIX_EPOCH,
        to: Timestamp::MAX,
    };
    scraper.read(query).await.unwrap()
}

/// Returns the total number of answers that an asset's processes have counted; none while a process does not answer.
async fn counted(scraper: &Scraper, asset: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let series = requests(scraper, asset, labels).await;
    let last = |series: &Series| series.samples.last().map(|(_, value)| *value);
    let counts = series.iter().map(last).collect::<Option<Vec<f64>>>()?;
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[tokio::test]
async fn defective_version_gets_ready_and_a_third_of_its_answers_are_errors() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let address = balanced(&cell).await;
    cell.put_job(JOB, &job(1, "3"), &by_hand()).await.unwrap();
    let view = settled(&cell).await;
    assert_eq!((view.problem, view.tasks.len()), (None, 1));
    let mut load = hammer(address);
    passed(&mut load, 300).await;
    let log = load.stop().await;
    let failed = failures(&log);
    assert!(failed.iter().all(|attempt| attempt.status == Some(500)));
    assert_eq!(failed.len(), log.len() / 3);
    assert!(log.iter().all(|it| it.version.as_deref() == Some("3")));
}

#[tokio::test]
async fn tasks_and_balancers_count_the_answers_that_a_client_saw() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let (_global, address) = town.global(&["eu"]).await;
    cell.put_job(JOB, &job(3, "3"), &by_hand()).await.unwrap();
    settled(&cell).await;
    let scraper = Scraper::start(town.dir.path().into());
    let mut load = hammer(address);
    passed(&mut load, 300).await;
    let log = load.stop().await;
    let saw = |code: u16| {
        let same = log.iter().filter(|attempt| attempt.status == Some(code));
        same.count() as f64
    };
    assert!(saw(500) > 0.0);
    for asset in ["job/eu", "balancer/eu", "global"] {
        for code in [200, 500] {
            until("production has counted the client's answers", async || {
                let label = code.to_string();
                let labels = [("code", label.as_str())];
                let counted = counted(&scraper, asset, &labels).await;
                (counted == Some(saw(code))).then_some(())
            })
            .await;
        }
    }
    let bad = [("version", "3"), ("code", "500")];
    assert_eq!(requests(&scraper, "job/eu", &bad).await.len(), 3);
    assert_eq!(requests(&scraper, "balancer/eu", &bad).await, []);
    assert_eq!(requests(&scraper, "job/us", &[]).await, []);
}

#[tokio::test]
async fn counters_of_a_process_that_does_not_answer_are_missing_and_not_zero() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let scraper = Scraper::start(town.dir.path().into());
    let zero = [("code", "500")];
    until("both counters are zero", async || {
        let both = (
            counted(&scraper, "job/eu", &zero).await,
            counted(&scraper, "balancer/eu", &zero).await,
        );
        (both == (Some(0.0), Some(0.0))).then_some(())
    })
    .await;
    kill(cell.pid());
    until("the counters are missing", async || {
        let silent = async |asset| {
            let series = requests(&scraper, asset, &zero).await;
            series.iter().filter(|it| it.samples.is_empty()).count()
        };
        ((silent("job/eu").await, silent("balancer/eu").await) == (3, 1)).then_some(())
    })
    .await;
    // The new processes report their counters again.
    town.cluster("eu").await;
    until("the counters are known again", async || {
        let series = requests(&scraper, "job/eu", &zero).await;
        let known = series.iter().all(|it| !it.samples.is_empty());
        (known && series.len() >= 3).then_some(())
    })
    .await;
}
