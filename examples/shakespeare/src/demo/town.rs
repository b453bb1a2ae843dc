//! The scene: a state directory of its own, the control plane as a child process, commands as further ones. Whatever
//! happens, nothing of it outlives the demo.

use std::{fs, path::Path, process::Stdio, time::Duration};

use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::broken::{Broken, Held, broken};
use crate::{
    command::{processes, this_program},
    model::Manifest,
    place::Place,
};

/// A command answers within this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// What was killed is gone within this long.
const DEATH: Duration = Duration::from_secs(10);

/// The control plane and where it is.
#[derive(Debug)]
pub(super) struct Town {
    pub(super) place: Place,
    plane: Option<Child>,
}

impl Town {
    /// An empty state directory in `dir`, and no control plane.
    pub(super) fn new(dir: &TempDir) -> Self {
        Self {
            place: Place::new(dir.path().join("state")),
            plane: None,
        }
    }

    /// What the control plane says goes here.
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

    /// `kill -9`, and waits until it is gone.
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

    /// Saves the manifest as an editor does: whole.
    pub(super) fn save(&self, manifest: &Manifest) -> Held {
        let draft = self.place.dir().join("manifest.draft");
        fs::write(&draft, manifest.to_yaml())?;
        fs::rename(draft, self.place.manifest())?;
        Ok(())
    }

    /// Runs one of the program's commands, and hands over what it says if it succeeds.
    pub(super) async fn command(&self, arguments: &[&str]) -> Held<String> {
        let output = Command::new(this_program()?)
            .arg("--state")
            .arg(self.place.dir())
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let what = arguments.join(" ");
        let late = |_| Broken(format!("`{what}` did not end within {PATIENCE:?}"));
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

    /// What `status --json` says.
    pub(super) async fn status(&self) -> Held<serde_json::Value> {
        Ok(serde_json::from_str(
            &self.command(&["status", "--json"]).await?,
        )?)
    }

    /// The assets that `status` lists as orphans.
    pub(super) async fn orphans(&self) -> Held<Vec<String>> {
        let status = self.status().await?;
        Ok(serde_json::from_value(
            status["enforcement"]["orphans"].clone(),
        )?)
    }
}

/// Ends every cell beneath a state directory, and with each its tasks and balancer.
pub(super) async fn sweep(state: &Path) {
    let place = Place::new(state.canonicalize().unwrap_or_else(|_| state.to_owned()));
    let victims = kill_cells(&place);
    let waiting = async {
        while victims.iter().any(|pid| processes::running(*pid)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // What does not go then never will.
    let _ = tokio::time::timeout(DEATH, waiting).await;
}

/// Kills the cells. Their children exit when their standard input closes.
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
