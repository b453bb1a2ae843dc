//! Tests of the program's commands. Each command runs as a process of its own, as from a shell.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are outside their functions, where clippy does not see that they are tests"
)]

mod manifest;
mod rollout;
mod service;
mod socket;
mod terminal;
mod town;

use std::fs;

/// Returns the text with which the control plane records the user that runs these tests.
fn me() -> String {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let of_uid = |line: &&str| line.split(':').nth(2) == Some(&uid);
    let line = users.lines().find(of_uid).unwrap_or_default();
    let name = line.split(':').next().unwrap_or_default();
    format!("{name} (uid {uid})").trim_start().to_owned()
}
