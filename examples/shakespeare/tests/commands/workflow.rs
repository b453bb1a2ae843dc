//! The commands about workflows and schedules.

use std::fs;

use testbed::testing::Shell;

use crate::{a_manifest_that_bakes_fast, shell};

const START: [&str; 5] = ["workflow", "start", "season", "--key", "2027"];

#[test]
fn season_is_started_explained_answered_and_restarted() {
    let town = shell();
    let (mut plane, mut lines) = town.run();
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    let start = [&START[..], &["--input", r#"{"works":["lear"]}"#]].concat();
    let id = "season-0000000001";
    assert_eq!(town.say(&start).text, format!("{id} started\n"));
    let again = town.say(&start).text;
    assert_eq!(again, format!("{id} was started before by this key\n"));
    let other = town.say(&[&START[..], &["--input", "{}"]].concat());
    assert!(
        !other.good && other.text.contains("use another key"),
        "{}",
        other.text
    );

    town.sees(&["workflow", "list"], "Open the season?");
    let early = town.say(&["workflow", "replay", id, "go"]);
    assert!(
        !early.good && early.text.contains("does not fit"),
        "{}",
        early.text
    );
    let waits = [
        "go           waiting",
        "undo-posters",
        "does not begin",
        "posters: printed",
    ];
    explains(&town, id, &waits);
    let answer = ["workflow", "answer", id, "go", "no", "--why", "it rains"];
    assert!(town.say(&answer).good);
    town.sees(&["workflow", "explain", id], &format!("{id} failed"));
    explains(&town, id, &["answer go with no, by ", "it rains"]);
    let posters = town.state().join("press/posters");
    assert_eq!(fs::read_dir(&posters).unwrap().count(), 0);

    assert!(
        town.say(&["workflow", "restart", id, "posters", "tickets"])
            .good
    );
    town.sees(&["workflow", "list"], "Open the season?");
    assert!(town.say(&["workflow", "cancel", id]).good);
    town.sees(&["workflow", "explain", id], &format!("{id} cancelled"));
    assert_eq!(
        town.say(&["workflow", "list"]).text,
        "no execution is live\n"
    );
    let gone = town.say(&["workflow", "explain", "season-0000000009"]);
    assert!(
        !gone.good && gone.text.contains("workflow list"),
        "{}",
        gone.text
    );
    assert!(town.say(&["down"]).good);
    assert!(plane.wait().unwrap().success());
    assert!(!town.state().exists(), "the press is gone too");
}

/// Checks that the explanation of an execution has these words.
fn explains(town: &Shell, id: &str, words: &[&str]) {
    let explained = town.say(&["workflow", "explain", id]).text;
    for words in words {
        assert!(explained.contains(words), "{words}: {explained}");
    }
}

#[test]
fn schedules_are_listed_with_their_next_slots() {
    let town = shell();
    let (manifest, text) = a_manifest_that_bakes_fast(&town);
    let nightly = "schedules: {nightly: {cron: \"30 3 * * *\", secs: 5}}\nglobal:\n";
    fs::write(manifest, text.replacen("global:\n", nightly, 1)).unwrap();
    let (mut plane, mut lines) = town.run();
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    let listed = town.say(&["schedules"]).text;
    assert!(
        listed.starts_with("cron/nightly: 30 3 * * * UTC, next "),
        "{listed}"
    );
    assert!(town.say(&["down"]).good);
    assert!(plane.wait().unwrap().success());
}
