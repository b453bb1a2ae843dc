//! Each fault that can be planted is noticed by the demo, in the step that is about it, and by that step alone.
//!
//! ```text
//! cargo test -p shakespeare --features planted-faults --test planted
//! ```

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests are outside their functions, where clippy does not see that they are tests"
)]

use std::process::Command;

/// Plays one step with a fault, and expects that the step with this title does not hold.
fn noticed(fault: &str, step: &str, title: &str) {
    let played = Command::new(env!("CARGO_BIN_EXE_shakespeare"))
        .args(["demo", "--seed", "1", "--only", step])
        .env("SHAKESPEARE_PLANTED", fault)
        .output()
        .unwrap();
    let said = String::from_utf8(played.stdout).unwrap();
    let table = said.rsplit_once("looked at").map_or("", |(_, table)| table);
    let broken = table.lines().filter(|line| line.contains("BROKEN"));
    let broken: Vec<&str> = broken.collect();
    assert!(!played.status.success(), "{fault}: {said}");
    assert!(
        broken.len() == 1 && broken[0].starts_with(title),
        "{fault}: {said}"
    );
}

#[test]
fn a_canary_that_is_skipped() {
    noticed("canary-skipped", "version-two", "version 2 rolls out");
}

#[test]
fn health_that_is_ignored() {
    noticed(
        "health-ignored",
        "version-three",
        "bad version 3 rolls back",
    );
}

#[test]
fn a_way_back_that_is_not_taken() {
    noticed(
        "rollback-suppressed",
        "version-three",
        "bad version 3 rolls back",
    );
}

#[test]
fn a_hold_that_holds_nothing() {
    noticed("hold-ignored", "policy-changed", "a policy changed midway");
}

#[test]
fn an_alert_that_is_ignored() {
    noticed("alert-ignored", "emergency", "an emergency under alert");
}

#[test]
fn limits_that_limit_nothing() {
    noticed("limits-ignored", "limited", "limits of what is on its way");
}

#[test]
fn waves_that_do_not_wait() {
    noticed("waves-ignored", "promoted", "waves, passed by a word");
}

#[test]
fn a_word_that_is_not_heard() {
    noticed("promote-ignored", "promoted", "waves, passed by a word");
}

#[test]
fn a_limit_that_is_told_before_it_is_in_force() {
    noticed("limit-told-early", "halved", "job and balancer halved");
}

#[test]
fn a_balancer_that_only_its_own_counters_find_bad() {
    noticed("balancer-errs", "halved", "job and balancer halved");
}
