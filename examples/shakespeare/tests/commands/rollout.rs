//! Rollouts as a person follows and steers them.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use testbed::testing::{Background, Shell};

use crate::{PROGRAM, a_manifest_that_bakes_fast, me, shell};

#[test]
fn rollout_is_shown_and_obeys_commands() {
    let town = shell();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let (plane, mut lines) = town.run();
    let _plane = Background(plane);
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    // Read the output, so that the pipe does not fill up and block the control plane.
    let reader = std::thread::spawn(move || lines.count());
    let _load = Background(town.load());
    let edit = |version: &str| {
        let edited = fast.replacen("version: \"1\"", &format!("version: {version:?}"), 1);
        fs::write(&manifest, edited).unwrap();
    };
    edit("2");
    rollout_is_paused_resumed_and_followed_to_its_end(&town);
    edit("4");
    rollout_is_rolled_back_retried_and_aborted(&town);
    alert_delays_a_change_until_the_check_is_overridden(&town, || edit("5"));
    town.does(&["down"]);
    reader.join().unwrap();
}

#[test]
fn rollout_is_shown_once_and_awaited_over_a_restart_of_the_control_plane() {
    let town = shell();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let (plane, mut lines) = town.run();
    let plane = Background(plane);
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    let reader = std::thread::spawn(move || lines.count());
    let _load = Background(town.load());
    fs::write(
        &manifest,
        fast.replacen("version: \"1\"", "version: \"2\"", 1),
    )
    .unwrap();
    town.until(&["rollout", "pause"]);
    // The output is no terminal: asking ends, although the rollout goes on.
    let shown = town.say(&["rollout"]);
    assert!(
        shown.good && shown.text.contains("rollout 2 paused"),
        "{}",
        shown.text
    );
    let waiter = Command::new(PROGRAM)
        .arg("--state")
        .arg(town.state())
        .args(["rollout", "wait"])
        .stdout(Stdio::piped())
        .spawn();
    let mut waiter = Background(waiter.unwrap());
    let mut said = BufReader::new(waiter.0.stdout.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    assert!(first.starts_with("waits for rollout 2 paused"), "{first}");
    drop(plane);
    reader.join().unwrap();
    let (plane, lines) = town.run();
    let _plane = Background(plane);
    let reader = std::thread::spawn(move || lines.collect::<Vec<_>>());
    town.until(&["rollout", "resume"]);
    let last = said.map(Result::unwrap).last();
    assert_eq!(last.as_deref(), Some("rollout 2 completed"));
    assert!(waiter.0.wait().unwrap().success());
    town.does(&["down"]);
    let lines = reader.join().unwrap();
    let told = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(told("goes on: rollout 2 "), 1, "{lines:?}");
    assert_eq!(told("began with"), 0, "nothing is told again: {lines:?}");
}

fn rollout_is_paused_resumed_and_followed_to_its_end(town: &Shell) {
    town.until(&["rollout", "pause", "--who", "jane", "--why", "lunch"]);
    let said = town.say(&["rollout", "status", "--once"]).text;
    assert!(said.contains("rollout 2 paused, "), "{said}");
    let paused = format!("paused ({} as jane: lunch)", me());
    assert!(said.contains(&paused), "{said}");
    let status = town.say(&["status"]).text;
    assert!(status.contains("rollout 2 paused"), "{status}");
    let awaits = format!("waits for a command: paused by {} as jane: lunch", me());
    assert!(status.contains(&awaits), "{status}");
    assert!(
        town.say(&["explain", "job/us"])
            .text
            .contains("rollout 2 paused, here waiting")
    );
    let again = town.say(&["rollout", "pause"]);
    assert!(
        !again.good && again.text.contains("is paused"),
        "{}",
        again.text
    );
    let waited = town.say(&["rollout", "wait", "--within", "1"]);
    assert!(
        !waited.good && waited.text.contains("was not over within 1s"),
        "{}",
        waited.text
    );
    town.does(&["rollout", "resume"]);
    let waited = town.say(&["rollout", "wait", "--within", "20"]);
    assert!(waited.good, "{}", waited.text);
    let followed = town.say(&["rollout"]);
    assert!(followed.good, "{}", followed.text);
    for line in [
        "  us, canary",
        "errors: job/eu: 0.0000, at most 0.02",
        "rollout 2 completed, @1 to @2",
    ] {
        assert!(followed.text.contains(line), "{line}: {}", followed.text);
    }
}

fn rollout_is_rolled_back_retried_and_aborted(town: &Shell) {
    let waited = town.say(&["rollout", "wait", "--within", "1"]);
    assert!(
        !waited.good,
        "the previous rollout must not count: {}",
        waited.text
    );
    town.until(&["rollout", "rollback", "--who", "jane", "--why", "wrong day"]);
    let back = format!("rollout 3 rolled back: {} as jane says: wrong day", me());
    town.sees(&["rollout"], &back);
    let ended = town.say(&["rollout", "wait"]);
    assert!(
        !ended.good
            && ended
                .text
                .contains(&format!("rollout 3 rolled back: {}", me())),
        "{}",
        ended.text
    );
    let explained = town.say(&["explain", "job/eu"]).text;
    assert!(
        explained.contains("failed in an earlier rollout"),
        "{explained}"
    );
    town.until(&["rollout", "retry"]);
    town.until(&["rollout", "abort"]);
    let aborted = town.say(&["rollout", "status", "--once"]).text;
    assert!(aborted.contains("rollout 4 stopped"), "{aborted}");
}

fn alert_delays_a_change_until_the_check_is_overridden(town: &Shell, edit: impl Fn()) {
    fs::write(town.state().join("alerts"), "LatencyHigh eu\n").unwrap();
    edit();
    let explain = ["explain", "job/eu"];
    town.sees(
        &explain,
        "monitoring: the alert LatencyHigh (cluster eu) fires",
    );
    let wrong = town.say(&["override", "monitoring", "--asset", "job/mars"]);
    assert!(!wrong.good, "{}", wrong.text);
    let of_no_guard = town.say(&["override", "typo", "--change", &"0".repeat(64)]);
    assert!(
        !of_no_guard.good && of_no_guard.text.contains("nothing to override"),
        "{}",
        of_no_guard.text
    );
    let lifted = [
        "override",
        "monitoring",
        "--asset",
        "job/eu",
        "--who",
        "jane",
    ];
    town.until(&[&lifted[..], &["--why", "a false alarm"]].concat());
    town.sees(&explain, "rollout 5 running, here updated");
    town.sees(&explain, "allowed by override of monitoring");
}
