//! Runs each program to its end, and looks for the lines that it is meant to print.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

/// Runs the program at `path`. Fails unless it prints lines that begin with `expected`, in this order, perhaps with other
/// lines between them.
fn prints(path: &str, expected: &[&str]) {
    let ended = Command::new(path).output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{path}: {errors}");
    let output = String::from_utf8(ended.stdout).unwrap();
    let mut lines = output.lines();
    for line in expected {
        let found = lines.any(|printed| printed.trim().starts_with(line));
        assert!(found, "`{line}` is missing in its place:\n{output}");
    }
}

#[test]
fn first_plugin_writes_edits_and_repairs_notices() {
    let expected = [
        "pushed notice/door, because of Intent",
        "settled at notices@1",
        "pushed notice/wall, because of Intent",
        "settled at notices@2",
        "pushed notice/door, because of Drift",
        "settled at notices@2",
        "the notice says: please knock",
    ];
    prints(env!("CARGO_BIN_EXE_first_plugin"), &expected);
}

#[test]
fn check_delays_a_push_until_the_incident_is_over() {
    let expected = [
        r#"production has {"replicas":2}"#,
        "production does not follow within a second",
        "the check `incident` delays the push: ann handles an incident",
        r#"production has {"replicas":2}"#,
        "settled at shop@2",
        r#"production has {"replicas":3}"#,
    ];
    prints(env!("CARGO_BIN_EXE_check"), &expected);
}

#[test]
fn policy_moves_a_canary_and_then_one_domain_after_the_other() {
    let expected = [
        "page/a, page/b, page/c, page/d",
        "after 1 s: page/a",
        "after 121 s: page/b",
        "after 181 s: page/c, page/d",
        "after 240 s: released: true",
    ];
    prints(env!("CARGO_BIN_EXE_policy"), &expected);
}

#[test]
fn source_is_followed_by_its_hints_and_refused_with_a_place() {
    let expected = [
        "one row: queues@1",
        r#"queue/print: {"name":"print","size":5}"#,
        r#"row 1#0: size: invalid type: string "huge", expected u32 (says queues)"#,
        "in force: queues@2",
    ];
    prints(env!("CARGO_BIN_EXE_source"), &expected);
}

#[test]
fn capacity_edge_orders_growth_and_shrinking() {
    let expected = [
        "db, then web",
        "db is to carry 100 queries per second, web 90:",
        "db, then web",
        "db is to carry 40 queries per second, web 30:",
        "web, then db",
        "no incarnation can be made from the sources:",
    ];
    prints(env!("CARGO_BIN_EXE_capacity_edge"), &expected);
}

#[test]
fn health_check_rolls_a_faulty_version_back() {
    let expected = [
        "rollout 1: completed",
        "rollout 2: rolled back: errors: server/1 fails 0.2 of its requests",
        r#"server/1: {"version":12}"#,
        "rollout 3: completed",
        r#"server/3: {"version":14}"#,
    ];
    prints(env!("CARGO_BIN_EXE_health_check"), &expected);
}

#[test]
fn edit_changes_one_field_and_a_person_wins() {
    let expected = [
        "+  mail:  {size: 40} # measured in May",
        r#"production: {"size":40}"#,
        "the edit is refused:",
        "another program is refused, because the autoscaler holds the field:",
        "queues.mail.size is 20",
        "mail:  {size: 20} # measured in May",
    ];
    prints(env!("CARGO_BIN_EXE_edit"), &expected);
}

#[test]
fn workflow_goes_on_after_its_control_plane_has_ended_and_puts_its_edit_back() {
    let expected = [
        "call 1 of migration-0000000001/fill/1-",
        r#"production: {"schema":3}"#,
        "call 2 of migration-0000000001/fill/1-",
        r#"a person answers "Keep the new schema?" with yes or no"#,
        "migration-0000000001 failed",
        "texts: {schema: 2} # since May",
        r#"production: {"schema":2}"#,
    ];
    prints(env!("CARGO_BIN_EXE_workflow"), &expected);
}

#[test]
fn roll_out_sets_a_flag_beside_a_version_that_goes_back() {
    let expected = [
        "version-13: rolled back: faults: shop/ap has a fault",
        "eu: {version: 12, dark: false}",
        "ap: {version: 12, dark: true}",
        "`shops.ap.dark` in shops.yaml#0 of shops.yaml is held by rollout/dark-mode#1",
        "dark-mode: completed",
        "mars: {version: 12, dark: true}",
    ];
    prints(env!("CARGO_BIN_EXE_roll_out"), &expected);
}
