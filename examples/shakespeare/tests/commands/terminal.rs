//! R73: text of people and sources cannot control the terminal.

use std::fs;

use shakespeare::model::Manifest;
use testbed::testing::{Background, Shell};

use crate::{a_manifest_that_bakes_fast, shell};

/// Text with escape sequences that clear the screen, line ends, a forged line of output, and a change of text
/// direction.
const HOSTILE: &str =
    "\u{1b}[2J\u{1b}[H\u{9b}2J\r\nproduction matches shakespeare@9\u{2028}\u{202e}DELTTES LLA";

/// Returns true if the text contains no control characters and no forged line.
fn is_plain(text: &str) -> bool {
    let hostile = |c: char| (c.is_control() && c != '\n') || "\u{2028}\u{202e}".contains(c);
    !text.contains(hostile)
        && !text
            .lines()
            .any(|line| line.starts_with("production matches"))
}

/// The reason of the last word in the history of a rollout, which may have gone on to its next entry.
fn last_reason(rollout: &serde_json::Value) -> &str {
    let history = rollout["history"].as_array().unwrap().iter().rev();
    let mut said = history.filter_map(|entry| entry["by"]["why"].as_str());
    said.next().unwrap()
}

#[test]
fn r73_text_of_people_and_sources_cannot_control_the_terminal() {
    let town = shell();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let (plane, mut lines) = town.run();
    let plane = Background(plane);
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    let reader = std::thread::spawn(move || lines.collect::<Vec<_>>().join("\n"));
    let paused = town.say(&["pause", "job/eu", "--why", HOSTILE]);
    assert!(paused.good, "{}", paused.text);
    fs::write(&manifest, fast.replacen("replicas: 2", "replicas: 3", 1)).unwrap();
    town.sees(&["explain", "job/eu"], "paused by");
    let lifted = [
        "override",
        "monitoring",
        "--asset",
        "job/eu",
        "--why",
        HOSTILE,
    ];
    town.until(&lifted);
    for arguments in [&["status"][..], &["plan"], &["explain", "job/eu"]] {
        town.sees(arguments, "override   job/eu: monitoring");
    }
    town.until(&["rollout", "pause", "--why", HOSTILE]);
    let whole = r"\u{1b}[2J\u{1b}[H\u{9b}2J\u{d}\u{a}production matches";
    // The reason of a rollout command is stored without line ends and escape sequences.
    let turned = r"\u{2028}\u{202e}DELTTES";
    for (arguments, visible) in [
        (&["explain", "job/eu"][..], whole),
        (&["explain"], whole),
        (&["rollout", "status", "--once"], turned),
        (&["status"], ""),
        (&["plan"], ""),
    ] {
        let said = town.say(arguments);
        assert!(
            said.good && is_plain(&said.text),
            "{arguments:?}: {:?}",
            said.text
        );
        assert!(said.text.contains(visible), "{arguments:?}: {}", said.text);
    }
    let live = town.live();
    assert!(live.contains(turned) && is_plain(&live), "{live:?}");
    // As JSON, programs get the original text.
    let json = town.say(&["rollout", "status", "--json"]);
    assert!(is_plain(&json.text), "{:?}", json.text);
    let rolling: serde_json::Value = serde_json::from_str(&json.text).unwrap();
    let why = last_reason(&rolling[0]["view"]["rollout"]);
    assert!(why.ends_with("\u{2028}\u{202e}DELTTES LLA"), "{why:?}");
    a_hostile_manifest_is_shown_plainly(&town);
    drop(plane);
    let said = reader.join().unwrap();
    assert!(
        is_plain(&said.replace("production matches shakespeare@1", "")),
        "{said:?}"
    );
    town.does(&["down"]);
}

fn a_hostile_manifest_is_shown_plainly(town: &Shell) {
    let key = "  \"u\\e[2J\\nproduction matches\\u202e\": 1\n  us:";
    let checked = town.check(&Manifest::DEFAULT.replacen("  us:", key, 1));
    assert!(
        !checked.good && is_plain(&checked.text),
        "{:?}",
        checked.text
    );
    assert!(
        checked.text.contains("u\\u001b[2J\\nproduction matches"),
        "{}",
        checked.text
    );
}
