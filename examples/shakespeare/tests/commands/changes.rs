//! Changes and trains, as a person begins and follows them.

use std::fs;

use testbed::testing::{Background, Shell};

use crate::{a_manifest_that_bakes_fast, shell};

/// The policy of changes, and a train that offers nothing yet.
const SECTIONS: &str = "policies: {ride: {}}
train:
  carries: version
  stages:
    - {name: eu, targets: {under: job/eu}, policy: {$asset: policy/ride}}
    - {name: all, targets: {under: job/}, policy: {$asset: policy/ride}}
";

/// The last line of each cluster, before and after the change.
const LAST: &str = "balancer_capacity: 16\n";
const FLAGGED: &str = "balancer_capacity: 16\n    work_ms: 3\n";

#[test]
fn changes_and_trains_are_begun_followed_and_refused() {
    let town = shell();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let sections = format!("{SECTIONS}rollout:\n  update: edits\n");
    let by_edits = fast.replacen("rollout:\n", &sections, 1);
    fs::write(&manifest, &by_edits).unwrap();
    let (plane, mut lines) = town.run();
    let _plane = Background(plane);
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    let reader = std::thread::spawn(move || lines.count());
    let _load = Background(town.load());

    town.until(&of_jobs("slower", "work_ms=3"));
    town.does(&["rollout", "wait", "--of", "rollout/slower"]);
    let edited = by_edits.replace(LAST, FLAGGED);
    let text = || fs::read_to_string(&manifest).unwrap();
    assert_eq!(text(), edited, "only the fields were added");
    town.sees(&["rollout", "status", "--once"], "policy/ride");
    refused(&town, &of_jobs("slower", "work_ms=4"), "`slower` was used");
    refused(&town, &of_jobs("two", "version=2"), "expected a string");
    refused(
        &town,
        &of_jobs("x", "work_ms"),
        "give a field, `=` and a value",
    );
    let nothing = ["rollout", "pause", "--of", "rollout/nothing"];
    refused(&town, &nothing, "rollout/nothing");
    assert_eq!(text(), edited, "nothing was changed");

    town.does(&["train", "offer", "1.1", "--why", "a test"]);
    refused(&town, &["train", "offer", "1.1"], "1.1");
    refused(&town, &["train", "hold", "us"], "us");
    town.until(&["rollout", "wait", "--of", "rollout/train/all"]);
    town.sees(&["train"], "all        has 1.1");
    assert_eq!(text().matches("    version: ").count(), 2, "{}", text());
    town.does(&["down"]);
    reader.join().unwrap();
}

/// The command that begins a change of all jobs.
fn of_jobs<'a>(name: &'a str, set: &'a str) -> [&'a str; 9] {
    let [policy, jobs] = ["policy/ride", "job/"];
    [
        "rollout", "begin", name, "--policy", policy, "--on", jobs, "--set", set,
    ]
}

fn refused(town: &Shell, arguments: &[&str], why: &str) {
    let said = town.say(arguments);
    let is_refused = !said.good && said.text.contains(why);
    assert!(is_refused, "{arguments:?}: {}", said.text);
}
