//! Tests of the program's commands. Each command runs as a process of its own, as from a shell.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are outside their functions, where clippy does not see that they are tests"
)]

mod changes;
mod manifest;
mod rollout;
mod service;
mod socket;
mod terminal;
mod workflow;

use std::{fs, path::PathBuf};

use shakespeare::model::Manifest;
use testbed::testing::Shell;

const PROGRAM: &str = env!("CARGO_BIN_EXE_shakespeare");

fn shell() -> Shell {
    Shell::new(PROGRAM)
}

fn a_manifest_that_bakes_fast(town: &Shell) -> (PathBuf, String) {
    let fast = Manifest::DEFAULT.replacen("bake: 10", "bake: 1", 1);
    let fast = fast.replacen("bake: 5", "bake: 1", 1);
    fs::create_dir(town.state()).unwrap();
    let manifest = town.state().join("manifest.yaml");
    fs::write(&manifest, &fast).unwrap();
    (manifest, fast)
}

/// Returns the text with which the control plane records the user that runs these tests.
fn me() -> String {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let of_uid = |line: &&str| line.split(':').nth(2) == Some(&uid);
    let line = users.lines().find(of_uid).unwrap_or_default();
    let name = line.split(':').next().unwrap_or_default();
    format!("{name} (uid {uid})").trim_start().to_owned()
}
