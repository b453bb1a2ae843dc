//! Starts cells and the press. Separate from the clients, because only this module creates processes.

use std::{fs, io, path::Path, process::Stdio, time::Duration};

use tokio::process::{Child, Command};

use super::client::{Cell, Error};

/// Maximum time from the start of a process until it answers.
const START: Duration = Duration::from_secs(15);
/// Pause between two attempts to connect to a process that is starting.
const REST: Duration = Duration::from_millis(20);

impl Cell {
    /// Connects to the cell `name` in `dir`. If it is not running, starts `program` as that cell.
    ///
    /// The cell gets a process group of its own, so that it outlives this process and gets no Ctrl-C of its terminal.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] when the cell cannot be started, or does not answer within 15 seconds.
    pub async fn ensure(program: &Path, dir: &Path, name: &str) -> Result<Self, Error> {
        let connect = || async move { Self::connect(dir, name).await.ok() };
        let started = ensure(connect, || spawn(program, dir, &["cell", "--name", name])).await;
        started.map_err(|source| Error::Start {
            cell: name.into(),
            log: dir.join("log"),
            source,
        })
    }
}

/// Connects to a process. If it is not running, starts it, and connects when it answers.
pub(super) async fn ensure<T, F: Future<Output = Option<T>>>(
    connect: impl Fn() -> F,
    start: impl Fn() -> io::Result<Child>,
) -> io::Result<T> {
    if let Some(there) = connect().await {
        return Ok(there);
    }
    let mut child = start()?;
    let started = tokio::time::timeout(START, async {
        loop {
            if let Some(there) = connect().await {
                return Ok(there);
            }
            tokio::time::sleep(REST).await;
            // The new process exits if another process holds its lock: one that starts too and answers soon, or one
            // that is about to exit. So start again after a pause.
            if child.try_wait()?.is_some() {
                tokio::time::sleep(10 * REST).await;
                child = start()?;
            }
        }
    })
    .await
    .unwrap_or_else(|late| Err(io::Error::new(io::ErrorKind::TimedOut, late)));
    // Reap the process when it ends, so that it does not stay as a zombie.
    tokio::spawn(async move { child.wait().await });
    started
}

/// Starts `program` with these arguments and `--dir DIR`, in a process group of its own, with a log in `dir`.
pub(super) fn spawn(program: &Path, dir: &Path, arguments: &[&str]) -> io::Result<Child> {
    fs::create_dir_all(dir)?;
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("log"))?;
    Command::new(program)
        .args(arguments)
        .arg("--dir")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
}
