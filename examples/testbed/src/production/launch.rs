//! Starts cells. Separate from the client, because only this module creates processes.

use std::{fs, io, path::Path, process::Stdio, time::Duration};

use tokio::process::{Child, Command};

use super::client::{Cell, Error};

/// Maximum time from the start of a cell until it answers.
const START: Duration = Duration::from_secs(15);
/// Pause between two attempts to connect to a cell that is starting.
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
        if let Ok(cell) = Self::connect(dir, name).await {
            return Ok(cell);
        }
        let failed = |source| Error::Start {
            cell: name.into(),
            log: dir.join("log"),
            source,
        };
        let mut child = spawn(program, dir, name).map_err(failed)?;
        let started = tokio::time::timeout(START, async {
            loop {
                if let Ok(cell) = Self::connect(dir, name).await {
                    return Ok(cell);
                }
                tokio::time::sleep(REST).await;
                // The new process exits if another process holds the cell's lock: one that starts too and answers soon,
                // or one that is about to exit. So start again after a pause.
                if child.try_wait()?.is_some() {
                    tokio::time::sleep(10 * REST).await;
                    child = spawn(program, dir, name)?;
                }
            }
        })
        .await
        .unwrap_or_else(|late| Err(io::Error::new(io::ErrorKind::TimedOut, late)));
        // Reap the process when it ends, so that it does not stay as a zombie.
        tokio::spawn(async move { child.wait().await });
        started.map_err(failed)
    }
}

fn spawn(program: &Path, dir: &Path, name: &str) -> io::Result<Child> {
    fs::create_dir_all(dir)?;
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("log"))?;
    Command::new(program)
        .arg("cell")
        .arg("--name")
        .arg(name)
        .arg("--dir")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
}
