//! The demo notices each planted fault, in the step that tests the faulty feature and in no other step.
//!
//! ```text
//! cargo test -p shakespeare --features planted-faults --test planted
//! ```

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests are outside their functions, where clippy does not see that they are tests"
)]

use std::process::Command;

/// Plays `step` with a fault planted in the control plane, and expects that only the step with this title fails.
fn noticed(fault: &str, step: &str, title: &str) {
    planted("SHAKESPEARE_PLANTED", fault, step, title);
}

/// The same for a fault planted in production.
fn noticed_in_production(fault: &str, step: &str, title: &str) {
    planted("TESTBED_PLANTED", fault, step, title);
}

fn planted(variable: &str, fault: &str, step: &str, title: &str) {
    let played = Command::new(env!("CARGO_BIN_EXE_shakespeare"))
        .args(["demo", "--seed", "1", "--only", step])
        .env(variable, fault)
        .output()
        .unwrap();
    let said = String::from_utf8(played.stdout).unwrap();
    let table = said
        .rsplit_once("time  evidence")
        .map_or("", |(_, table)| table);
    let broken = table.lines().filter(|line| line.contains("BROKEN"));
    let broken: Vec<&str> = broken.collect();
    assert!(!played.status.success(), "{fault}: {said}");
    assert!(
        broken.len() == 1 && broken[0].starts_with(title),
        "{fault}: {said}"
    );
}

#[test]
fn skipped_canary_is_noticed() {
    noticed("canary-skipped", "version-two", "version 2 rolls out");
}

#[test]
fn ignored_health_is_noticed() {
    noticed(
        "health-ignored",
        "version-three",
        "bad version 3 rolls back",
    );
}

#[test]
fn suppressed_rollback_is_noticed() {
    noticed(
        "rollback-suppressed",
        "version-three",
        "bad version 3 rolls back",
    );
}

#[test]
fn ignored_hold_is_noticed() {
    noticed("hold-ignored", "policy-changed", "a policy changed midway");
}

#[test]
fn ignored_alert_is_noticed() {
    noticed("alert-ignored", "emergency", "an emergency under alert");
}

#[test]
fn ignored_limits_are_noticed() {
    noticed("limits-ignored", "limited", "limits on assets in flight");
}

#[test]
fn ignored_waves_are_noticed() {
    noticed("waves-ignored", "promoted", "waves, promoted by command");
}

#[test]
fn ignored_promotion_is_noticed() {
    noticed("promote-ignored", "promoted", "waves, promoted by command");
}

#[test]
fn limit_acknowledged_too_early_is_noticed() {
    noticed_in_production("limit-told-early", "halved", "job and balancer halved");
}

#[test]
fn errors_in_a_balancers_own_counters_are_noticed() {
    noticed_in_production("balancer-errs", "halved", "job and balancer halved");
}

#[test]
fn forgotten_keys_of_the_press_are_noticed() {
    noticed_in_production("press-forgets", "printed", "a season printed");
}
