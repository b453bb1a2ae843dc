//! The town of the tests: cells as real processes of this machine, in a temporary directory, and how tests talk to
//! them.

use std::{
    fs,
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::Method;
pub(crate) use testbed::processes::{kill, running};
use testbed::production::{
    JOB,
    api::{BalancerSpec, Caller, JobSpec, JobView, Line, State},
    client::Cell,
    load::{Attempt, Load},
};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_testbed");

/// A temporary directory for cells. Dropping it kills all its cells.
pub(crate) struct Town {
    pub(crate) dir: tempfile::TempDir,
}

impl Town {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn cell_dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) async fn cell(&self, name: &str) -> Cell {
        Cell::ensure(Path::new(PROGRAM), &self.cell_dir(name), name)
            .await
            .unwrap()
    }

    /// Starts a cell with a job of three tasks and a balancer in front of them.
    pub(crate) async fn cluster(&self, name: &str) -> Cell {
        let cell = self.cell(name).await;
        cell.put_job(JOB, &job(3, "1"), &by_hand()).await.unwrap();
        settled(&cell).await;
        cell.put_balancer(&in_front(24), &by_hand()).await.unwrap();
        balanced(&cell).await;
        cell
    }

    /// Starts the global balancer in front of these cells.
    pub(crate) async fn global(&self, cells: &[&str]) -> (Cell, SocketAddr) {
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

    pub(crate) fn journal(&self, name: &str) -> Vec<Line> {
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

pub(crate) fn by_hand() -> Caller {
    Caller::default()
}

pub(crate) fn owner(token: u64, n: u64) -> Caller {
    Caller {
        token: Some(token),
        n: Some(n),
        incarnation: Some(format!("incarnation {n}")),
        after: None,
    }
}

pub(crate) fn job(replicas: u32, version: &str) -> JobSpec {
    JobSpec {
        replicas,
        capacity_per_task: 8,
        version: version.into(),
        schema: 1,
        flags: vec![],
    }
}

pub(crate) fn in_front(max_capacity: u32) -> BalancerSpec {
    BalancerSpec {
        max_capacity,
        jobs: vec![JOB.into()],
        cells: Default::default(),
    }
}

pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
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

pub(crate) async fn settled(cell: &Cell) -> JobView {
    until("the job is stable", async || {
        let view = cell.job(JOB, &by_hand()).await.unwrap().unwrap();
        (view.state == State::Stable).then_some(view)
    })
    .await
}

pub(crate) async fn balanced(cell: &Cell) -> SocketAddr {
    until("the balancer is stable", async || {
        let view = cell.balancer(&by_hand()).await.unwrap().unwrap();
        (view.state == State::Stable).then_some(view.address)
    })
    .await
}

pub(crate) fn hammer(address: SocketAddr) -> Load {
    Load::start(address, &Method::GET, 8, Duration::from_millis(1))
}

/// Sends `POST` requests, which a balancer may not send twice.
pub(crate) fn hammer_once_each(address: SocketAddr) -> Load {
    Load::start(address, &Method::POST, 8, Duration::ZERO)
}

pub(crate) async fn passed(load: &mut Load, requests: usize) {
    tokio::time::timeout(Duration::from_secs(60), load.passed(requests))
        .await
        .unwrap();
}

pub(crate) fn failures(log: &[Attempt]) -> Vec<&Attempt> {
    log.iter().filter(|attempt| attempt.failed()).collect()
}
