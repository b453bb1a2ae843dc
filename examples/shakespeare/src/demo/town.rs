//! The environment of the session: a state directory of its own, the control plane as a child process, and each command
//! as another one. All processes end with the demo, however it ends.

use std::{fs, path::Path, process::Stdio, time::Duration};

use tempfile::TempDir;
use testbed::{place::Place, processes};
use tokio::process::{Child, Command};

use super::broken::{Broken, Held, broken};
use crate::{command::this_program, model::Manifest};

/// Maximum time for a command.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum time for killed processes to exit.
const DEATH: Duration = Duration::from_secs(10);

/// The state directory and the process of the control plane.
#[derive(Debug)]
pub(super) struct Town {
    pub(super) place: Place,
    plane: Option<Child>,
}

impl Town {
    /// Creates a town with a new state directory in `dir` and no control plane.
    pub(super) fn new(dir: &TempDir) -> Self {
        Self {
            place: Place::new(dir.path().join("state")),
            plane: None,
        }
    }

    /// Returns the path of the file with the control plane's output.
    pub(super) fn log(&self) -> std::path::PathBuf {
        self.place.dir().with_file_name("control-plane.log")
    }

    /// Starts the control plane.
    pub(super) fn start_plane(&mut self) -> Held {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())?;
        let child = Command::new(this_program()?)
            .arg("--state")
            .arg(self.place.dir())
            .arg("run")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        self.plane = Some(child);
        Ok(())
    }

    /// Kills the control plane with SIGKILL and waits until it has exited.
    pub(super) async fn kill_plane(&mut self) -> Held {
        let Some(mut child) = self.plane.take() else {
            return broken("no control plane is running");
        };
        if let Some(pid) = child.id() {
            processes::kill(pid);
        }
        child.wait().await?;
        Ok(())
    }

    /// Replaces the manifest atomically.
    pub(super) fn save(&self, manifest: &Manifest) -> Held {
        let draft = self.place.dir().join("manifest.draft");
        fs::write(&draft, manifest.to_yaml())?;
        fs::rename(draft, self.place.manifest())?;
        Ok(())
    }

    /// Runs a command of the program and returns its output. Fails if the command fails.
    pub(super) async fn command(&self, arguments: &[&str]) -> Held<String> {
        let output = Command::new(this_program()?)
            .arg("--state")
            .arg(self.place.dir())
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let what = arguments.join(" ");
        let late = |_| Broken(format!("`{what}` did not finish within {PATIENCE:?}"));
        let output = tokio::time::timeout(PATIENCE, output)
            .await
            .map_err(late)??;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        broken(format_args!("`{what}` failed: {said}{complaint}"))
    }

    /// Returns the output of `status --json`.
    pub(super) async fn status(&self) -> Held<serde_json::Value> {
        Ok(serde_json::from_str(
            &self.command(&["status", "--json"]).await?,
        )?)
    }

    /// Returns the assets that `status` lists as orphans.
    pub(super) async fn orphans(&self) -> Held<Vec<String>> {
        let status = self.status().await?;
        Ok(serde_json::from_value(
            status["enforcement"]["orphans"].clone(),
        )?)
    }
}

/// Kills every cell of a state directory, together with its tasks and balancer.
pub(super) async fn sweep(state: &Path) {
    let place = Place::new(state.canonicalize().unwrap_or_else(|_| state.to_owned()));
    let victims = kill_cells(&place);
    let waiting = async {
        while victims.iter().any(|pid| processes::running(*pid)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Processes that are still running after this time are given up.
    let _ = tokio::time::timeout(DEATH, waiting).await;
}

/// Kills the cells; their children exit when their standard input is closed. Returns the ids of all these processes.
fn kill_cells(place: &Place) -> Vec<u32> {
    let mut victims = Vec::new();
    for name in place.cell_names().unwrap_or_default() {
        if let Some(pid) = processes::cell(&name, &place.cell(&name)) {
            victims.extend(processes::children(pid).into_iter().map(|child| child.0));
            processes::kill(pid);
            victims.push(pid);
        }
    }
    victims
}
