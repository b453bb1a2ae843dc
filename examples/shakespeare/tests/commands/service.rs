//! The life of the service: turnup, commands, state directory and removal.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use shakespeare::model::Manifest;
use testbed::testing::Shell;

use crate::{PROGRAM, shell};

#[test]
fn service_turns_up_answers_commands_and_goes_down_completely() {
    let town = shell();
    assert!(
        !town.say(&["status"]).good,
        "no control plane is running yet"
    );
    let (mut plane, mut lines) = town.run();
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    assert!(
        !town.say(&["run"]).good,
        "one control plane per state directory"
    );

    let status = town.say(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.text).unwrap();
    assert_eq!(status["enforcement"]["unsettled"], 0);
    completed_rollout_is_shown_and_takes_no_commands(&town, &status);
    assert!(
        town.say(&["plan"])
            .text
            .contains("0 now, 0 in turn, 0 held, 0 leaves, 0 destroys; 6 in sync")
    );
    assert!(town.say(&["explain", "job/eu"]).text.contains("settled"));
    assert!(
        town.say(&["explain", "cluster/eu"])
            .text
            .contains("modelled only")
    );
    assert!(!town.say(&["explain", "job/mars"]).good);
    checks_against_the_incarnation_in_force(&town);

    town.does(&["pause", "job/eu", "--why", "a test"]);
    town.does(&["resume", "job/eu"]);
    town.does(&["pause", "job/eu", "--for", "1"]);
    assert!(!town.say(&["pause", "--for", "0"]).good);
    let refused = town.say(&["approve", "job/eu"]);
    assert!(
        refused.text.contains("has no pending change"),
        "{}",
        refused.text
    );

    let down = town.say(&["down"]);
    assert!(down.good, "{}", down.text);
    assert!(plane.wait().unwrap().success());
    assert!(!town.state().exists(), "{}", down.text);
    assert!(town.say(&["down"]).good, "nothing to do");
}

/// The rollout of the first turnup is shown as completed and refuses all commands.
fn completed_rollout_is_shown_and_takes_no_commands(town: &Shell, status: &serde_json::Value) {
    assert_eq!(status["rollouts"][0]["policy"], "rollout");
    let json = town.say(&["rollout", "status", "--json"]);
    let rolling: serde_json::Value = serde_json::from_str(&json.text).unwrap();
    assert_eq!(rolling[0]["view"]["rollout"]["state"], "completed");
    assert_eq!(
        rolling[0]["view"]["rollout"]["from"],
        serde_json::Value::Null
    );
    let waited = town.say(&["rollout", "wait", "--within", "20"]);
    assert!(
        waited.good && waited.text == "rollout 1 completed\n",
        "{}",
        waited.text
    );
    for arguments in [&["rollout"][..], &["rollout", "status", "--once"]] {
        let said = town.say(arguments);
        let first = "rollout 1 completed, nothing to @1";
        assert!(said.good && said.text.contains(first), "{}", said.text);
        assert!(said.text.contains("began with 5 targets"), "{}", said.text);
    }
    assert!(
        town.say(&["status"])
            .text
            .contains("rollout    rollout 1 completed")
    );
    let explained = town.say(&["explain", "job/eu"]);
    let governed = "governed by rollout: rollout 1 completed";
    assert!(explained.text.contains(governed), "{}", explained.text);
    for verb in [
        "pause", "resume", "promote", "abort", "retry", "rollback", "handover",
    ] {
        let said = town.say(&["rollout", verb, "--who", "jane", "--why", "a test"]);
        assert!(
            !said.good && said.text.contains("`rollout` has no"),
            "{}",
            said.text
        );
    }
}

/// `check` compares with the incarnation in force, whether or not a control plane is running.
fn checks_against_the_incarnation_in_force(town: &Shell) {
    let same = town.check(Manifest::DEFAULT);
    assert!(
        same.good && same.text.contains("@1:\n  none"),
        "{}",
        same.text
    );
    let edited = Manifest::DEFAULT.replacen("replicas: 2", "replicas: 3", 1);
    let more = town.check(&edited);
    assert!(
        more.good && more.text.contains("@1:\n  ~ job/eu"),
        "{}",
        more.text
    );
    let less = Manifest::DEFAULT.replacen("balancer_capacity: 16", "balancer_capacity: 17", 1);
    assert!(town.check(&less).text.contains("is meant to have 16"));
}

#[test]
fn unusable_state_directory_is_refused_with_advice() {
    let town = shell();
    let deep = town.dir.path().join("d".repeat(100));
    let run = |state: &Path, from: &Path| {
        let mut command = Command::new("timeout");
        command
            .args(["20", PROGRAM, "--state"])
            .arg(state)
            .arg("run");
        let output = command.current_dir(from).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let said = run(&deep, Path::new("/"));
    assert!(
        said.contains("at most 107 bytes") && said.contains("--state"),
        "{said}"
    );
    assert!(!deep.join("store").exists(), "no store was created");

    let shared = town.dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let said = run(&shared, Path::new("/"));
    assert!(said.contains("chmod go-w"), "{said}");
    assert_eq!(
        fs::read_dir(&shared).unwrap().count(),
        0,
        "no file was created"
    );
}

#[test]
fn check_works_with_the_store_of_a_killed_control_plane() {
    let town = shell();
    let (mut plane, mut lines) = town.run();
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    plane.kill().unwrap();
    plane.wait().unwrap();
    let files = listing(&town.state().join("store"));
    checks_against_the_incarnation_in_force(&town);
    assert_eq!(
        listing(&town.state().join("store")),
        files,
        "`check` changes no file of the store"
    );
    let down = town.say(&["down"]);
    assert!(down.good && !town.state().exists(), "{}", down.text);
}

fn listing(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(dir).unwrap().flatten();
    let mut all: Vec<_> = files
        .map(|file| (file.path(), fs::read(file.path()).unwrap()))
        .collect();
    all.sort();
    all
}
