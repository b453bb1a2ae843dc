//! Changes and trains, as a person begins and follows them.

use std::fs;

use testbed::testing::Background;

use crate::{a_manifest_that_bakes_fast, shell};

/// The policy of changes, and a train that offers nothing yet.
const SECTIONS: &str = "policies: {ride: {}}
train:
  carries: version
  stages:
    - {name: eu, targets: {under: job/eu}, policy: {$asset: policy/ride}}
    - {name: all, targets: {under: job/}, policy: {$asset: policy/ride}}
";

#[test]
fn changes_and_trains_are_begun_followed_and_refused() {
    let town = shell();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let by_edits = fast.replacen(
        "rollout:\n",
        &format!("{SECTIONS}rollout:\n  update: edits\n"),
        1,
    );
    fs::write(&manifest, &by_edits).unwrap();
    let (plane, mut lines) = town.run();
    let _plane = Background(plane);
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    let reader = std::thread::spawn(move || lines.count());
    let _load = Background(town.load());
    let text = || fs::read_to_string(&manifest).unwrap();

    let begin = ["rollout", "begin", "slower", "--policy", "policy/ride"];
    let with = |more: &[&'static str]| [&begin[..], more].concat();
    town.until(&with(&["--on", "job/", "--set", "work_ms=3"]));
    town.does(&["rollout", "wait", "--of", "rollout/slower"]);
    let edited = by_edits.replace(
        "balancer_capacity: 16\n",
        "balancer_capacity: 16\n    work_ms: 3\n",
    );
    assert_eq!(text(), edited, "only the fields were added");
    let shown = town.say(&["rollout", "status", "--once"]).text;
    assert!(shown.contains("policy/ride"), "{shown}");

    let refused = |arguments: &[&str], why: &str| {
        let said = town.say(arguments);
        assert!(
            !said.good && said.text.contains(why),
            "{arguments:?}: {}",
            said.text
        );
    };
    refused(
        &with(&["--on", "job/", "--set", "work_ms=4"]),
        "the name `slower` was used",
    );
    refused(
        &["rollout", "pause", "--of", "rollout/nothing"],
        "rollout/nothing",
    );
    let number = [
        "rollout",
        "begin",
        "two",
        "--policy",
        "policy/ride",
        "--on",
        "job/",
        "--set",
    ];
    refused(&[&number[..], &["version=2"]].concat(), "version");
    refused(
        &[
            "rollout",
            "begin",
            "x",
            "--policy",
            "policy/ride",
            "--set",
            "a",
        ],
        "=",
    );
    assert_eq!(text(), edited, "nothing was changed");

    town.does(&["train", "offer", "1.1", "--why", "a test"]);
    refused(&["train", "offer", "1.1"], "1.1");
    refused(&["train", "hold", "us"], "us");
    while text().matches("version: \"1.1\"").count() + text().matches("version: '1.1'").count() < 2
    {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let shown = town.say(&["train"]).text;
    assert!(
        shown.contains("train: version") && shown.contains("1.1"),
        "{shown}"
    );
    town.does(&["down"]);
    reader.join().unwrap();
}
