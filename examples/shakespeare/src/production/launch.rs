//! Starting a cell that is not there: apart from talking to one, because only this makes processes.

use std::{fs, io, path::Path, process::Stdio, time::Duration};

use tokio::process::{Child, Command};

use super::client::{Cell, Error};

/// A started cell answers within this long.
const START: Duration = Duration::from_secs(15);
/// Between two looks for a cell that is starting.
const REST: Duration = Duration::from_millis(20);

impl Cell {
    /// Connects to the cell in `dir`; if nobody is there, starts `program` as one, in a process group of its own, so
    /// that it outlives this process and whatever is typed at its terminal.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
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
                // The lock may be another's who answers soon, or one's who is on the way out.
                if child.try_wait()?.is_some() {
                    tokio::time::sleep(10 * REST).await;
                    child = spawn(program, dir, name)?;
                }
            }
        })
        .await
        .unwrap_or_else(|late| Err(io::Error::new(io::ErrorKind::TimedOut, late)));
        // Whenever it ends, it must not stay behind as a zombie.
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
