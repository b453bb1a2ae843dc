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
    let input = ["--label", "year=2027", "--input", r#"{"works":["lear"]}"#];
    let start = [&START[..], &input].concat();
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
    refuses_words_that_do_not_fit(&town, id);
    is_paused_and_resumed(&town, id);
    is_listed_by_workflow_and_label(&town, id);
    let waits = [
        "go           waiting",
        "undo-posters",
        "do not begin: --all says why",
        "posters: printed",
        &format!("cause      {id} go: a person answers"),
    ];
    explains_live(&town, id, &waits);
    let answer = ["workflow", "answer", id, "go", "no", "--why", "it rains"];
    town.does(&answer);
    town.sees(&["workflow", "explain", id], &format!("{id} failed"));
    explains(&town, id, &["answer go with no, by ", "it rains"]);
    let posters = town.state().join("press/posters");
    assert_eq!(fs::read_dir(&posters).unwrap().count(), 0);

    town.does(&["workflow", "restart", id, "posters", "tickets"]);
    town.sees(&["workflow", "list"], "Open the season?");
    town.does(&["workflow", "cancel", id]);
    town.sees(&["workflow", "explain", id], &format!("{id} cancelled"));
    assert_eq!(
        town.say(&["workflow", "list"]).text,
        "no execution is live\n"
    );
    let ended = town.say(&["workflow", "list", "--ended"]).text;
    assert!(ended.starts_with(&format!("{id} cancelled")), "{ended}");
    let gone = town.say(&["workflow", "explain", "season-0000000009"]);
    assert!(
        !gone.good && gone.text.contains("workflow list"),
        "{}",
        gone.text
    );
    is_drained(&town);
    town.does(&["down"]);
    assert!(plane.wait().unwrap().success());
    assert!(!town.state().exists(), "the press is gone too");
}

/// Gives words that do not fit a season that waits for an answer. No execution has ended yet.
fn refuses_words_that_do_not_fit(town: &Shell, id: &str) {
    let ended = town.say(&["workflow", "list", "--ended"]).text;
    assert_eq!(ended, "no ended execution is kept\n");
    let settled = town.say(&["workflow", "settle", id, "go", "yes"]);
    assert!(
        !settled.good && settled.text.contains("does not fit"),
        "{}",
        settled.text
    );
    let again = town.say(&["workflow", "again", id, "go"]);
    assert!(
        !again.good && again.text.contains("does not fit"),
        "{}",
        again.text
    );
    let without = town.say(&["workflow", "settle", id, "go"]);
    assert!(
        !without.good && without.text.contains("<OUTCOME>"),
        "{}",
        without.text
    );
    let asking = town.say(&["workflow", "list", "--only", "asking"]).text;
    assert!(asking.starts_with(id), "{asking}");
    let parked = town.say(&["workflow", "list", "--only", "parked"]).text;
    assert_eq!(parked, "no execution fits\n");
    let skipped = town.say(&["workflow", "skip", id, "go", "perhaps"]);
    assert!(
        !skipped.good && skipped.text.contains("perhaps"),
        "{}",
        skipped.text
    );
    let early = town.say(&["workflow", "replay", id, "go"]);
    assert!(
        !early.good && early.text.contains("does not fit"),
        "{}",
        early.text
    );
}

/// Pauses a season that waits for an answer, and resumes it.
fn is_paused_and_resumed(town: &Shell, id: &str) {
    let pause = ["workflow", "pause", id, "--why", "the curtain is stuck"];
    let resume = ["workflow", "resume", id, "--why", "the curtain moves"];
    let refuses = |word: &[&str], why: &str| {
        let said = town.say(word);
        assert!(!said.good && said.text.contains(why), "{}", said.text);
    };
    refuses(&resume, "it is not paused");
    town.does(&pause);
    refuses(&pause, "it is paused already");
    let listed = town.say(&["workflow", "list"]).text;
    assert!(listed.contains(", paused by "), "{listed}");
    town.does(&resume);
    let listed = town.say(&["workflow", "list"]).text;
    assert!(!listed.contains(", paused by "), "{listed}");
    let words = ["the curtain is stuck", "resume, by ", "the curtain moves"];
    explains(town, id, &words);
}

/// Drains a workflow, and ends that.
fn is_drained(town: &Shell) {
    let why = ["--why", "the press is replaced"];
    let tell = |verb: &str, name: &str| {
        let word = [&["workflow", verb, name][..], &why].concat();
        town.say(&word)
    };
    assert!(tell("drain", "season").good);
    let start = ["workflow", "start", "season", "--key", "drained"];
    town.does(&start);
    let listed = town.say(&["workflow", "list"]).text;
    assert!(listed.starts_with("season is drained by "), "{listed}");
    assert!(listed.contains("the press is replaced"), "{listed}");
    let waits = listed.contains("  start ") && listed.contains("`season` is drained by ");
    assert!(waits, "{listed}");
    let unknown = tell("drain", "seson");
    assert!(!unknown.good && unknown.text.contains("no workflow is named seson"));
    assert!(tell("undrain", "season").good);
    let listed = town.say(&["workflow", "list"]).text;
    assert!(!listed.contains("is drained by"), "{listed}");
}

/// Lists the only live execution by what it is, and by what it is not.
fn is_listed_by_workflow_and_label(town: &Shell, id: &str) {
    let list = |more: &[&str]| {
        let list = [&["workflow", "list"][..], more].concat();
        town.say(&list).text
    };
    let its = list(&["--workflow", "season", "--label", "year=2027"]);
    assert!(its.starts_with(id), "{its}");
    for other in [["--workflow", "tour"], ["--label", "year=2026"]] {
        assert_eq!(list(&other), "no execution fits\n");
    }
}

/// As [`explains`], of an execution with machines that do not begin: `--all` says why.
fn explains_live(town: &Shell, id: &str, words: &[&str]) {
    explains(town, id, words);
    let whole = town.say(&["workflow", "explain", id, "--all"]).text;
    assert!(whole.contains("    does not begin: "), "{whole}");
}

/// Checks that the explanation of an execution has these words.
fn explains(town: &Shell, id: &str, words: &[&str]) {
    let explained = town.say(&["workflow", "explain", id]).text;
    for words in words {
        assert!(explained.contains(words), "{words}: {explained}");
    }
    assert!(!explained.contains("does not begin: "), "{explained}");
}

#[test]
fn operation_is_explained_with_the_assets_that_it_waits_for() {
    let town = shell();
    let (mut plane, mut lines) = town.run();
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    // Nothing is pushed, so that the operation waits for production.
    town.does(&["pause", "--why", "ann looks first"]);
    let operation = r#"{
        "pipeline": [
            {"name": "resize", "function": "resize", "input": {"cluster": "eu", "percent": 150}},
            {"name": "fit", "function": "fit"}
        ],
        "may": [{"edit": {"source": "manifest.yaml", "under": "clusters.*"}}],
        "settle_secs": 600
    }"#;
    let start = [&START[..2], &["premiere", "--key", "2027"]].concat();
    let start = [&start[..], &["--operation", operation]].concat();
    let id = "premiere-0000000001";
    assert_eq!(town.say(&start).text, format!("{id} started\n"));
    town.sees(&["workflow", "explain", id], "asset      job/eu ");
    town.sees(&["workflow", "explain", id], "; changes ");
    town.does(&["down"]);
    assert!(plane.wait().unwrap().success());
}

#[test]
fn schedules_and_watches_are_listed_paused_and_acknowledged() {
    let town = shell();
    let (manifest, text) = a_manifest_that_bakes_fast(&town);
    let nightly = "schedules: {nightly: {cron: \"30 3 * * *\", secs: 5}}\nglobal:\n";
    let notices = "notices: {out_of_sync_secs: 60}\n";
    let wanted = text.replacen("global:\n", &format!("{notices}{nightly}"), 1);
    fs::write(&manifest, wanted).unwrap();
    let (mut plane, mut lines) = town.run();
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    let listed = town.say(&["schedules"]).text;
    assert!(
        listed.starts_with("cron/nightly: 30 3 * * * UTC, next "),
        "{listed}"
    );
    let listed = town.say(&["watches"]).text;
    assert!(listed.starts_with("watch/notices\n"), "{listed}");

    for (list, asset) in [("schedules", "cron/nightly"), ("watches", "watch/notices")] {
        let timed = town.say(&["pause", asset, "--for", "5"]);
        assert!(!timed.good && timed.text.contains("until `resume`"));
        town.does(&["pause", asset]);
        town.sees(&[list], "  paused     by ");
        town.does(&["resume", asset]);
        assert!(!town.say(&[list]).text.contains("paused     by"));
        assert!(!town.say(&["acknowledge", asset]).good, "it is in intent");
    }
    fs::write(&manifest, text).unwrap();
    for (list, asset) in [("schedules", "cron/nightly"), ("watches", "watch/notices")] {
        town.sees(&[list], "  orphaned   since ");
        town.does(&["acknowledge", asset]);
        town.sees(&[list], &format!("there are no {list}"));
    }
    town.does(&["down"]);
    assert!(plane.wait().unwrap().success());
}
