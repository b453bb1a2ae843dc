//! The environment of the session: a state directory of its own, the control plane as a child process, and each command
//! as another one. All processes end with the demo, however it ends.

use std::{fs, path::Path, process::Stdio, time::Duration};

use tokio::process::{Child, Command};

use super::broken::{Broken, Held, broken, ensure, until};
use crate::{place::Place, processes, program::this_program};

/// Maximum time for a command.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than a change takes to begin if it is not held.
const SOME_TIME: Duration = Duration::from_secs(4);
/// Maximum time for killed processes to exit.
const DEATH: Duration = Duration::from_secs(10);

/// The state directory and the process of the control plane.
#[derive(Debug)]
pub struct Town {
    /// The state directory of the town.
    pub place: Place,
    plane: Option<Child>,
}

impl Town {
    /// Creates a town with a new state directory in `dir` and no control plane.
    pub fn new(dir: &Path) -> Self {
        Self {
            place: Place::new(dir.join("state")),
            plane: None,
        }
    }

    /// Returns the path of the file with the control plane's output.
    pub fn log(&self) -> std::path::PathBuf {
        self.place.dir().with_file_name("control-plane.log")
    }

    /// Starts the control plane.
    pub fn start_plane(&mut self) -> Held {
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
    pub async fn kill_plane(&mut self) -> Held {
        let Some(mut child) = self.plane.take() else {
            return broken("no control plane is running");
        };
        if let Some(pid) = child.id() {
            processes::kill(pid);
        }
        child.wait().await?;
        Ok(())
    }

    /// Starts the control plane again if it has died by itself. Returns true if it had.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn revive(&mut self) -> Held<bool> {
        let died = match &mut self.plane {
            Some(child) => child.try_wait()?.is_some(),
            None => true,
        };
        if died {
            self.start_plane()?;
        }
        Ok(died)
    }

    /// Replaces the manifest atomically by this text.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, manifest: &str) -> Held {
        let draft = self.place.dir().join("manifest.draft");
        fs::write(&draft, manifest)?;
        fs::rename(draft, self.place.manifest())?;
        Ok(())
    }

    /// Runs a command of the program and returns its output. Fails if the command fails.
    pub async fn command(&self, arguments: &[&str]) -> Held<String> {
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
    pub async fn status(&self) -> Held<serde_json::Value> {
        Ok(serde_json::from_str(
            &self.command(&["status", "--json"]).await?,
        )?)
    }

    /// Returns the assets that `status` lists as orphans.
    pub async fn orphans(&self) -> Held<Vec<String>> {
        let status = self.status().await?;
        Ok(serde_json::from_value(
            status["enforcement"]["orphans"].clone(),
        )?)
    }

    /// Waits until the control plane refuses the manifest with a problem that contains `words`. Returns the problems.
    pub async fn refuses(&self, words: &str) -> Held<String> {
        until("the manifest is refused", async || {
            let problems = self.status().await?["generation"]["problems"].to_string();
            ensure(problems.contains(words), || {
                format!("the problems are {problems}")
            })?;
            Ok(problems)
        })
        .await
    }

    /// Waits until the control plane reports no problems of the manifest.
    pub async fn accepts(&self) -> Held {
        until("the manifest is accepted", async || {
            let problems = self.status().await?["generation"]["problems"].clone();
            ensure(problems == serde_json::json!([]), || {
                format!("the problems are {problems}")
            })
        })
        .await
    }

    /// Waits until `status` lists exactly these assets as orphans.
    pub async fn lists_orphans(&self, mut wanted: Vec<String>) -> Held {
        wanted.sort();
        until("the orphans are listed", async || {
            let mut orphans = self.orphans().await?;
            orphans.sort();
            ensure(orphans == wanted, || {
                format!("the listed orphans are {orphans:?}")
            })
        })
        .await
    }

    /// Waits until the control plane reports that a change of the asset waits for an approval.
    pub async fn wants_approval(&self, asset: &str) -> Held {
        until("`explain` asks for an approval", async || {
            let said = self.command(&["explain", asset]).await?;
            ensure(said.contains("approve change"), || said)
        })
        .await
    }

    /// Approves the pending change of the asset, with this reason. Waits until there is one.
    pub async fn approve(&self, asset: &str, why: &str) -> Held {
        until("the change is approved", async || {
            let command = ["approve", asset, "--who", "jane", "--why", why];
            self.command(&command).await.map(|_| ())
        })
        .await
    }

    /// Expects that `evidence` holds for some time, and that the command `question` prints `words`. The second part
    /// shows that the change is held, and not only slow.
    pub async fn stays(&self, question: &str, words: &str, evidence: impl Fn() -> Held) -> Held {
        tokio::time::sleep(SOME_TIME).await;
        evidence()?;
        until(
            "the control plane reports what the change waits for",
            async || {
                let question: Vec<&str> = question.split(' ').collect();
                let said = self.command(&question).await?;
                ensure(said.contains(words), || said)
            },
        )
        .await?;
        evidence()
    }

    /// Waits until no rollout is under way and all assets are settled, so that the next step begins from there. It uses
    /// the status of the control plane, which is not evidence here.
    ///
    /// # Errors
    /// When this takes too long.
    pub async fn rests(&self) -> Held {
        until("no rollout is under way", async || {
            let status = self.status().await?;
            let rollouts = status["rollouts"].as_array().cloned().unwrap_or_default();
            let at_rest = !rollouts.is_empty() && rollouts.iter().all(|view| view["live"] == false);
            ensure(at_rest && status["enforcement"]["unsettled"] == 0, || {
                format!("{rollouts:?}")
            })
        })
        .await
    }
}

/// Returns the last sequence of 64 hexadecimal digits in a text.
pub fn digest_in(text: &str) -> Option<String> {
    let digest = |word: &&str| word.len() == 64;
    let mut words = text.split(|c: char| !c.is_ascii_hexdigit()).filter(digest);
    words.next_back().map(str::to_owned)
}

/// Kills the press and every cell of a state directory, together with its tasks and balancer.
pub async fn sweep(state: &Path) {
    let place = Place::new(state.canonicalize().unwrap_or_else(|_| state.to_owned()));
    let mut victims = kill_cells(&place);
    let press = processes::press(&place.press());
    press.into_iter().for_each(processes::kill);
    victims.extend(press);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_found_in_a_text() {
        let digest = "0f".repeat(32);
        let text = format!("override shrink-guard for {digest}\"");
        assert_eq!(digest_in(&text), Some(digest));
        assert_eq!(digest_in("none, abc"), None);
    }
}
