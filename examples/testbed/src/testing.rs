//! A program with a control plane as tests use it: each command is a process of its own, as from a shell. Panics where a
//! test fails.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is code of tests, which fail by a panic"
)]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::{place::Place, processes};

/// A shell for a program with a temporary state directory. Dropping it kills all its cells.
#[derive(Debug)]
pub struct Shell {
    program: &'static str,
    /// The temporary directory, in which the state directory will be.
    pub dir: tempfile::TempDir,
}

/// The output of a command, and whether it succeeded.
#[derive(Debug)]
pub struct Said {
    /// True if the command succeeded.
    pub good: bool,
    /// Standard output, followed by standard error.
    pub text: String,
}

impl Shell {
    /// Creates a shell for the program at this path. The state directory does not exist yet.
    pub fn new(program: &'static str) -> Self {
        Self {
            program,
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// Returns the path of the state directory.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Runs a command that must succeed.
    pub fn does(&self, arguments: &[&str]) {
        let said = self.say(arguments);
        assert!(said.good, "{arguments:?}: {}", said.text);
    }

    /// Runs a command. It is killed and counts as failed if it takes more than 60 seconds.
    pub fn say(&self, arguments: &[&str]) -> Said {
        let output = Command::new("timeout")
            .args(["60", self.program, "--state"])
            .arg(self.state())
            .args(arguments)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        Said {
            good: output.status.success(),
            text: String::from_utf8(text).unwrap(),
        }
    }

    /// Starts to send requests. Without requests, the health of a version is unknown.
    pub fn load(&self) -> Child {
        let mut load = Command::new(self.program);
        load.arg("--state").arg(self.state()).arg("load");
        load.stdout(Stdio::null()).spawn().unwrap()
    }

    /// Repeats a command until it succeeds: for instance, until the rollout that it is about has begun.
    pub fn until(&self, arguments: &[&str]) {
        let mut said = self.say(arguments);
        for _ in 0..200 {
            if said.good {
                return;
            }
            said = self.say(arguments);
        }
        panic!("{arguments:?}: {}", said.text);
    }

    /// Repeats a command until its output contains `words`.
    pub fn sees(&self, arguments: &[&str], words: &str) {
        let mut said = self.say(arguments);
        for _ in 0..200 {
            if said.text.contains(words) {
                return;
            }
            said = self.say(arguments);
        }
        panic!("{arguments:?}: no {words:?} in {}", said.text);
    }

    /// Runs `check` on a file with this manifest.
    pub fn check(&self, manifest: &str) -> Said {
        let file = self.dir.path().join("edited.yaml");
        fs::write(&file, manifest).unwrap();
        self.say(&["check", file.to_str().unwrap()])
    }

    /// Returns the first output of the live view of a rollout in a terminal.
    pub fn live(&self) -> String {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize {
            ws_row: 50,
            ws_col: 400,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let other_end = ptsname(&terminal, Vec::new()).unwrap();
        let other_end = fs::File::options()
            .write(true)
            .open(other_end.to_str().unwrap());
        let live = Command::new(self.program)
            .arg("--state")
            .arg(self.state())
            .arg("rollout")
            .stdout(other_end.unwrap())
            .spawn();
        let _live = Background(live.unwrap());
        let mut sent = BufReader::new(fs::File::from(terminal));
        let mut said = String::new();
        while !said.contains("paused (") {
            sent.read_line(&mut said).unwrap();
        }
        // A terminal turns each line end into two characters.
        said.replace("\r\n", "\n")
    }

    /// Starts a control plane. Returns its process and the lines of its output.
    pub fn run(&self) -> (Child, impl Iterator<Item = String> + use<>) {
        let mut plane = Command::new(self.program)
            .arg("--state")
            .arg(self.state())
            .arg("run")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(plane.stdout.take().unwrap()).lines();
        (plane, lines.map(Result::unwrap))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let place = Place::new(self.state().canonicalize().unwrap_or_default());
        for name in place.cell_names().unwrap_or_default() {
            if let Some(pid) = processes::cell(&name, &place.cell(&name)) {
                processes::kill(pid);
            }
        }
        let press = processes::press(&place.press());
        press.into_iter().for_each(processes::kill);
    }
}

/// A process that is killed at the end of a test, even if the test fails.
#[derive(Debug)]
pub struct Background(
    /// The process that runs in the background.
    pub Child,
);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
