//! The program's commands, each as a process of its own, as people type them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are outside their functions, where clippy does not see that they are tests"
)]

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use shakespeare::{command::processes, model::Manifest, place::Place};

const PROGRAM: &str = env!("CARGO_BIN_EXE_shakespeare");

/// A state directory; whatever happens, no cell outlives it.
struct Town {
    dir: tempfile::TempDir,
}

/// What a command said, and whether it succeeded.
struct Said {
    good: bool,
    text: String,
}

impl Town {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// A command that ends soon, or is killed and fails.
    fn say(&self, arguments: &[&str]) -> Said {
        let output = Command::new("timeout")
            .args(["20", PROGRAM, "--state"])
            .arg(self.state())
            .args(arguments)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        Said {
            good: output.status.success(),
            text: String::from_utf8(text).unwrap(),
        }
    }

    /// Requests, without which nobody can tell whether a version is well.
    fn load(&self) -> Child {
        let mut load = Command::new(PROGRAM);
        load.arg("--state").arg(self.state()).arg("load");
        load.stdout(Stdio::null()).spawn().unwrap()
    }

    /// Says it until it fits: what it is about takes a moment to begin.
    fn until(&self, arguments: &[&str]) {
        let mut said = self.say(arguments);
        for _ in 0..200 {
            if said.good {
                return;
            }
            said = self.say(arguments);
        }
        panic!("{arguments:?}: {}", said.text);
    }

    /// Asks until the answer has these words.
    fn sees(&self, arguments: &[&str], words: &str) {
        let mut said = self.say(arguments);
        for _ in 0..200 {
            if said.text.contains(words) {
                return;
            }
            said = self.say(arguments);
        }
        panic!("{arguments:?}: no {words:?} in {}", said.text);
    }

    fn check(&self, manifest: &str) -> Said {
        let file = self.dir.path().join("edited.yaml");
        fs::write(&file, manifest).unwrap();
        self.say(&["check", file.to_str().unwrap()])
    }

    /// What a terminal is sent first by the live view of a rollout.
    fn live(&self) -> String {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize {
            ws_row: 50,
            ws_col: 400,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let other_end = ptsname(&terminal, Vec::new()).unwrap();
        let other_end = fs::File::options()
            .write(true)
            .open(other_end.to_str().unwrap());
        let live = Command::new(PROGRAM)
            .arg("--state")
            .arg(self.state())
            .arg("rollout")
            .stdout(other_end.unwrap())
            .spawn();
        let _live = Background(live.unwrap());
        let mut sent = BufReader::new(fs::File::from(terminal));
        let mut said = String::new();
        while !said.contains("paused (") {
            sent.read_line(&mut said).unwrap();
        }
        // A terminal's own line ends.
        said.replace("\r\n", "\n")
    }

    /// A running control plane, and what it says from now on.
    fn run(&self) -> (Child, impl Iterator<Item = String> + use<>) {
        let mut plane = Command::new(PROGRAM)
            .arg("--state")
            .arg(self.state())
            .arg("run")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(plane.stdout.take().unwrap()).lines();
        (plane, lines.map(Result::unwrap))
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        let place = Place::new(self.state().canonicalize().unwrap_or_default());
        for name in place.cell_names().unwrap_or_default() {
            if let Some(pid) = processes::cell(&name, &place.cell(&name)) {
                processes::kill(pid);
            }
        }
    }
}

fn alias_bomb() -> String {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..40 {
        let aliases = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    bomb + "...\n"
}

#[test]
fn each_hostile_manifest_is_one_clear_error_with_its_place_and_nothing_is_touched() {
    let good = Manifest::DEFAULT;
    let town = Town::new();
    let edited = |from: &str, to: &str| good.replacen(from, to, 1);
    for (what, manifest, says) in [
        (
            "truncated",
            good[..good.find("capacity_per").unwrap()].to_owned(),
            "manifest.yaml:27:1: the file may be cut off",
        ),
        (
            "empty",
            String::new(),
            "manifest.yaml:1:1: the file may be cut off",
        ),
        (
            "a duplicate key",
            edited("  us:", "  eu:"),
            "manifest.yaml:30:3: the key `eu` appears twice",
        ),
        (
            "over-long",
            format!("#{}\n{good}", "x".repeat(1 << 20)),
            "1048576 are allowed",
        ),
        (
            "deeply nested",
            format!("{}\n...\n", "[".repeat(200_000)),
            "nested deeper than 64 levels",
        ),
        (
            "an alias bomb",
            alias_bomb(),
            "expand to more than 16777216 bytes",
        ),
        (
            "wrongly typed",
            edited("replicas: 2", "replicas: two"),
            "manifest.yaml#0:27:15: clusters.eu.replicas: invalid type: string \"two\", expected u32",
        ),
        (
            "not a number",
            edited("replicas: 2", "replicas: .nan"),
            "manifest.yaml:27:15: .nan is not a finite number",
        ),
        (
            "an unknown field",
            edited("schema: 1", "schema: 1\nschemas: 2"),
            "manifest.yaml#0:8:1: schemas: unknown field `schemas`",
        ),
    ] {
        let said = town.check(&manifest);
        assert!(!said.good, "{what}: {}", said.text);
        assert!(said.text.contains(says), "{what}: {}", said.text);
        assert_eq!(said.text.lines().count(), 2, "{what}: {}", said.text);
    }
    assert!(town.check(good).good);
    assert!(!town.state().exists(), "nothing was touched");
}

const CANARY: &str = "canary: {count: 1, bake: 10}";

/// What is replaced in the section, with what, and the one error that this is.
const HOSTILE_ROLLOUTS: &[(&str, &str, &str)] = &[
    ("rollout:", "rollouts:", "16:1: rollouts: unknown field"),
    (
        "bake: 5",
        "hold: wait\n  emergency: {who: jane, why: CVE}",
        "rollout: payload.hold: an emergency on hold",
    ),
    (CANARY, "canary: 1", "20:11: rollout.canary: invalid type"),
    (
        CANARY,
        "canary: {}",
        "20:11: rollout.canary: missing field `count`",
    ),
    (
        CANARY,
        "canary: {count: 0}",
        "20:19: rollout.canary.count: 0: nothing would ever move",
    ),
    (
        CANARY,
        "canary: {count: -1}",
        "20:19: rollout.canary.count: invalid value: integer `-1`, expected u32",
    ),
    (
        CANARY,
        "canary: {count: 1, bake: 1e9}",
        "20:28: rollout.canary.bake: invalid type",
    ),
    (
        CANARY,
        "canary: {count: 1, bake: 18446744073709551615}",
        "20:28: rollout.canary.bake: 18446744073709551615: bake 1209600 seconds at most",
    ),
    (
        CANARY,
        "canary: {count: 1, count: 2}",
        "20:22: the key `count` appears twice",
    ),
    (
        "[eu, us]",
        "[eu, uk]",
        "18:17: rollout.domains[1]: there is no cluster `uk`",
    ),
    (
        "[eu, us]",
        "[eu, eu]",
        "18:17: rollout.domains[1]: `eu` stands twice",
    ),
    ("[eu, us]", "eu", "18:12: rollout.domains: invalid type"),
    ("bake: 5", "bake: soon", "22:9: rollout.bake: invalid type"),
    ("bake: 5", "bakes: 5", "22:3: rollout.bakes: unknown field"),
    (
        "bake: 5",
        "max_in_flight: 0",
        "22:18: rollout.max_in_flight: 0: nothing would ever move",
    ),
    (
        "bake: 5",
        "max_unavailable: 0",
        "22:20: rollout.max_unavailable: 0: nothing would ever move",
    ),
    (
        "bake: 5",
        "waves: [{percent: 101}]",
        "22:21: rollout.waves[0].percent: 101 per cent are more than all of it",
    ),
    (
        "bake: 5",
        "waves: [{count: 2}, {count: 2}]",
        "22:31: rollout.waves[1].count: each wave is at least 1, and more",
    ),
    (
        "bake: 5",
        "waves: [{count: 2, percent: 5}]",
        "22:11: rollout.waves[0]: say either `count` or `percent`",
    ),
    (
        "bake: 5",
        "hold: \"\"",
        "22:9: rollout.hold: say it in words",
    ),
    ("bake: 5", "hold: true", "22:9: rollout.hold: invalid type"),
    (
        "bake: 5",
        "hold: \"a\\nb\"",
        "22:9: rollout.hold: use one line",
    ),
    (
        "bake: 5",
        "on_unhealthy: ignore",
        "22:17: rollout.on_unhealthy: unknown variant `ignore`",
    ),
    (
        "bake: 5",
        "emergency: {who: jane}",
        "22:14: rollout.emergency: missing field `why`",
    ),
    (
        "bake: 5",
        "emergency: {who: \" \", why: CVE}",
        "22:20: rollout.emergency.who: say it in words",
    ),
];

#[test]
fn each_hostile_rollout_section_is_one_clear_error_with_line_column_and_field() {
    let town = Town::new();
    let long = format!("bake: 5\n  hold: {}", "x".repeat(501));
    let long = [("bake: 5", &*long, "23:9: rollout.hold: 501 bytes")];
    for (from, to, says) in HOSTILE_ROLLOUTS.iter().chain(&long) {
        let said = town.check(&Manifest::DEFAULT.replacen(from, to, 1));
        assert!(!said.good, "{to}: {}", said.text);
        assert!(said.text.contains(says), "{to}: {}", said.text);
        assert_eq!(said.text.lines().count(), 2, "{to}: {}", said.text);
    }
    let without = Manifest::DEFAULT.replacen("rollout:", "# ", 1);
    let said = town.check(&without);
    assert!(
        !said.good,
        "caution is not left out by accident: {}",
        said.text
    );
    assert!(!town.state().exists(), "nothing was touched");
}

#[test]
fn it_turns_up_answers_and_goes_down_without_a_trace() {
    let town = Town::new();
    assert!(!town.say(&["status"]).good, "nobody runs yet");
    let (mut plane, mut lines) = town.run();
    assert!(lines.any(|line| line == "production is as shakespeare@1 says"));
    assert!(
        !town.say(&["run"]).good,
        "one control plane per state directory"
    );

    let status = town.say(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.text).unwrap();
    assert_eq!(status["enforcement"]["unsettled"], 0);
    rollouts_are_told_and_told_to(&town, &status);
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
    checks_against_the_present_one(&town);

    assert!(town.say(&["pause", "job/eu", "--why", "a test"]).good);
    assert!(town.say(&["resume", "job/eu"]).good);
    assert!(town.say(&["pause", "job/eu", "--for", "1"]).good);
    assert!(!town.say(&["pause", "--for", "0"]).good);
    let refused = town.say(&["approve", "job/eu"]);
    assert!(
        refused.text.contains("not about to be changed"),
        "{}",
        refused.text
    );

    let down = town.say(&["down"]);
    assert!(down.good, "{}", down.text);
    assert!(plane.wait().unwrap().success());
    assert!(!town.state().exists(), "{}", down.text);
    assert!(town.say(&["down"]).good, "nothing to do");
}

/// The first turnup is over: it can be looked at, and nothing is left to say to it.
fn rollouts_are_told_and_told_to(town: &Town, status: &serde_json::Value) {
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
    for verb in ["pause", "resume", "promote", "abort", "retry", "rollback"] {
        let said = town.say(&["rollout", verb, "--who", "jane", "--why", "a test"]);
        assert!(
            !said.good && said.text.contains("`rollout` has no"),
            "{}",
            said.text
        );
    }
}

/// Running or not, a check compares with what is in force.
fn checks_against_the_present_one(town: &Town) {
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

/// What ends at the end of a test, however that ends.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn a_manifest_that_bakes_fast(town: &Town) -> (PathBuf, String) {
    let fast = Manifest::DEFAULT.replacen("bake: 10", "bake: 1", 1);
    let fast = fast.replacen("bake: 5", "bake: 1", 1);
    fs::create_dir(town.state()).unwrap();
    let manifest = town.state().join("manifest.yaml");
    fs::write(&manifest, &fast).unwrap();
    (manifest, fast)
}

#[test]
fn a_rollout_is_followed_line_by_line_and_heeds_what_people_say() {
    let town = Town::new();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let (plane, mut lines) = town.run();
    let _plane = Background(plane);
    assert!(lines.any(|line| line == "production is as shakespeare@1 says"));
    // Somebody has to read what it says.
    let reader = std::thread::spawn(move || lines.count());
    let _load = Background(town.load());
    let edit = |version: &str| {
        let edited = fast.replacen("version: \"1\"", &format!("version: {version:?}"), 1);
        fs::write(&manifest, edited).unwrap();
    };
    edit("2");
    it_is_paused_resumed_and_followed_to_its_end(&town);
    edit("4");
    it_is_rolled_back_retried_and_aborted(&town);
    an_alert_holds_what_is_new_and_a_person_lifts_that(&town, || edit("5"));
    assert!(town.say(&["down"]).good);
    reader.join().unwrap();
}

#[test]
fn a_rollout_is_followed_over_a_restart_of_the_control_plane() {
    let town = Town::new();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let (plane, mut lines) = town.run();
    let plane = Background(plane);
    assert!(lines.any(|line| line == "production is as shakespeare@1 says"));
    let reader = std::thread::spawn(move || lines.count());
    let _load = Background(town.load());
    fs::write(
        &manifest,
        fast.replacen("version: \"1\"", "version: \"2\"", 1),
    )
    .unwrap();
    town.until(&["rollout", "pause"]);
    let follower = Command::new(PROGRAM)
        .arg("--state")
        .arg(town.state())
        .arg("rollout")
        .stdout(Stdio::piped())
        .spawn();
    let mut follower = Background(follower.unwrap());
    let mut said = BufReader::new(follower.0.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("rollout 2 paused")));
    drop(plane);
    reader.join().unwrap();
    let (plane, lines) = town.run();
    let _plane = Background(plane);
    let reader = std::thread::spawn(move || lines.count());
    town.until(&["rollout", "resume"]);
    let last = said.any(|line| line.unwrap().contains("rollout 2 completed, @1 to @2"));
    assert!(last && follower.0.wait().unwrap().success());
    assert!(town.say(&["down"]).good);
    reader.join().unwrap();
}

fn it_is_paused_resumed_and_followed_to_its_end(town: &Town) {
    town.until(&["rollout", "pause", "--who", "jane", "--why", "lunch"]);
    let said = town.say(&["rollout", "status", "--once"]).text;
    assert!(said.contains("rollout 2 paused, "), "{said}");
    let paused = format!("paused ({} as jane: lunch)", me());
    assert!(said.contains(&paused), "{said}");
    assert!(town.say(&["status"]).text.contains("rollout 2 paused"));
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
    assert!(town.say(&["rollout", "resume"]).good);
    let followed = town.say(&["rollout"]);
    assert!(followed.good, "{}", followed.text);
    for line in [
        "eu before us: ",
        "errors: job/eu: 0.0000, at most 0.02",
        "rollout 2 completed, @1 to @2",
    ] {
        assert!(followed.text.contains(line), "{line}: {}", followed.text);
    }
}

fn it_is_rolled_back_retried_and_aborted(town: &Town) {
    let waited = town.say(&["rollout", "wait", "--within", "1"]);
    assert!(!waited.good, "that was the one before: {}", waited.text);
    town.until(&["rollout", "rollback", "--who", "jane", "--why", "wrong day"]);
    let followed = town.say(&["rollout"]).text;
    assert!(
        followed.contains(&format!(
            "rollout 3 rolled back: {} as jane says: wrong day",
            me()
        )),
        "{followed}"
    );
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
        explained.contains("its content failed before"),
        "{explained}"
    );
    town.until(&["rollout", "retry"]);
    town.until(&["rollout", "abort"]);
    let aborted = town.say(&["rollout", "status", "--once"]).text;
    assert!(aborted.contains("rollout 4 stopped"), "{aborted}");
}

fn an_alert_holds_what_is_new_and_a_person_lifts_that(town: &Town, edit: impl Fn()) {
    fs::write(town.state().join("alerts"), "LatencyHigh eu\n").unwrap();
    edit();
    let explain = ["explain", "job/eu"];
    town.sees(
        &explain,
        "monitoring: the alert LatencyHigh (cluster eu) fires",
    );
    let wrong = town.say(&["override", "monitoring", "--asset", "job/mars"]);
    assert!(!wrong.good, "{}", wrong.text);
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
}

/// Clears the screen, goes home, and says that all is well: with two kinds of line ends, and letters turned round.
const HOSTILE: &str =
    "\u{1b}[2J\u{1b}[H\u{9b}2J\r\nproduction is as shakespeare@9 says\u{2028}\u{202e}DELTTES LLA";

/// Whether a terminal shows this as the lines that it is made of.
fn is_plain(text: &str) -> bool {
    let hostile = |c: char| (c.is_control() && c != '\n') || "\u{2028}\u{202e}".contains(c);
    !text.contains(hostile) && !text.lines().any(|line| line.starts_with("production is"))
}

#[test]
fn r73_what_people_and_sources_write_does_not_drive_the_terminal() {
    let town = Town::new();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let (plane, mut lines) = town.run();
    let plane = Background(plane);
    assert!(lines.any(|line| line == "production is as shakespeare@1 says"));
    let reader = std::thread::spawn(move || lines.collect::<Vec<_>>().join("\n"));
    let paused = town.say(&["pause", "job/eu", "--why", HOSTILE]);
    assert!(paused.good, "{}", paused.text);
    fs::write(&manifest, fast.replacen("replicas: 2", "replicas: 3", 1)).unwrap();
    town.sees(&["explain", "job/eu"], "paused by");
    town.until(&["rollout", "pause", "--why", HOSTILE]);
    let whole = r"\u{1b}[2J\u{1b}[H\u{9b}2J\u{d}\u{a}production is";
    // What is said to a rollout is kept without line ends and escapes.
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
    // For programs it is what it was.
    let json = town.say(&["rollout", "status", "--json"]);
    assert!(is_plain(&json.text), "{:?}", json.text);
    let rolling: serde_json::Value = serde_json::from_str(&json.text).unwrap();
    let history = rolling[0]["view"]["rollout"]["history"].as_array().unwrap();
    let why = history.last().unwrap()["by"]["why"].as_str().unwrap();
    assert!(why.ends_with("\u{2028}\u{202e}DELTTES LLA"), "{why:?}");
    a_hostile_manifest_is_shown_plainly(&town);
    drop(plane);
    let said = reader.join().unwrap();
    assert!(
        is_plain(&said.replace("production is as shakespeare@1", "")),
        "{said:?}"
    );
    assert!(town.say(&["down"]).good);
}

fn a_hostile_manifest_is_shown_plainly(town: &Town) {
    let key = "  \"u\\e[2J\\nproduction is\\u202e\": 1\n  us:";
    let checked = town.check(&Manifest::DEFAULT.replacen("  us:", key, 1));
    assert!(
        !checked.good && is_plain(&checked.text),
        "{:?}",
        checked.text
    );
    assert!(
        checked.text.contains("u\\u{1b}[2J\\u{a}production is"),
        "{}",
        checked.text
    );
}

#[test]
fn r72_the_control_plane_is_reached_through_a_socket_of_its_user_alone() {
    let town = Town::new();
    let (plane, mut lines) = town.run();
    let plane = Background(plane);
    assert!(lines.any(|line| line == "production is as shakespeare@1 says"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let socket = town.state().join("control.sock");
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    assert_eq!((mode(&town.state()), mode(&socket)), (0o700, 0o600));
    let pid = plane.0.id();
    assert_eq!(tcp_listeners(pid), 0, "it listens nowhere else");
    strangers_are_refused(&town, &socket);

    drop(plane);
    assert!(socket.exists(), "left behind by kill -9");
    let said = town.say(&["status"]);
    assert!(
        !said.good && said.text.contains("no control plane is running"),
        "{}",
        said.text
    );
    let (plane, lines) = town.run();
    let _plane = Background(plane);
    let reader = std::thread::spawn(move || lines.count());
    town.until(&["status"]);
    assert!(town.say(&["down"]).good);
    reader.join().unwrap();
}

/// How many TCP sockets a process listens on.
fn tcp_listeners(pid: u32) -> usize {
    let mut listening: Vec<String> = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let rows = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let listens = rows.filter(|row| row.get(3) == Some(&"0A"));
        listening.extend(listens.map(|row| format!("socket:[{}]", row[9])));
    }
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets
        .filter(|target| listening.iter().any(|it| Path::new(it) == target))
        .count()
}

/// With the doors wide open, a process of another user gets no answer. Only root can try that.
fn strangers_are_refused(town: &Town, socket: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    open(town.dir.path(), 0o755).unwrap();
    open(&town.state(), 0o755).unwrap();
    open(socket, 0o666).unwrap();
    let program = town.dir.path().join("shakespeare");
    fs::copy(PROGRAM, &program).unwrap();
    for arguments in [&["status"][..], &["pause"], &["down"]] {
        let mut command = Command::new(&program);
        command.uid(65_534).gid(65_534).current_dir("/");
        let said = command
            .arg("--state")
            .arg(town.state())
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
        assert!(
            !said.status.success() && text.contains("uid 65534"),
            "{arguments:?}: {text}"
        );
    }
    open(socket, 0o600).unwrap();
    open(&town.state(), 0o700).unwrap();
    let status = town.say(&["status"]);
    assert!(status.good, "{}", status.text);
}

/// How the control plane calls the user that runs these tests.
fn me() -> String {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let of_uid = |line: &&str| line.split(':').nth(2) == Some(&uid);
    let line = users.lines().find(of_uid).unwrap_or_default();
    let name = line.split(':').next().unwrap_or_default();
    format!("{name} (uid {uid})").trim_start().to_owned()
}

#[test]
fn r70_the_speaker_is_the_user_of_the_process_whatever_it_says() {
    let town = Town::new();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let (plane, mut lines) = town.run();
    let _plane = Background(plane);
    assert!(lines.any(|line| line == "production is as shakespeare@1 says"));
    let reader = std::thread::spawn(move || lines.count());
    let me = me();
    assert!(
        town.say(&["pause", "job/eu", "--who", "jane", "--why", "lunch"])
            .good
    );
    fs::write(&manifest, fast.replacen("replicas: 2", "replicas: 3", 1)).unwrap();
    town.sees(&["explain", "job/eu"], &format!("{me} as jane: lunch"));
    town.until(&["rollout", "pause", "--why", "tea"]);
    town.sees(&["rollout", "status", "--once"], &format!("{me}: tea)"));
    assert!(town.say(&["down"]).good);
    reader.join().unwrap();
}

#[test]
fn a_state_directory_that_a_socket_cannot_be_in_is_refused_with_what_to_do() {
    let town = Town::new();
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
    assert!(!deep.join("store").exists(), "nothing was begun");

    let shared = town.dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let said = run(&shared, Path::new("/"));
    assert!(said.contains("chmod go-w"), "{said}");
    assert_eq!(
        fs::read_dir(&shared).unwrap().count(),
        0,
        "nothing was begun"
    );
}

#[test]
fn a_control_plane_that_was_killed_leaves_a_store_that_can_be_checked_against() {
    let town = Town::new();
    let (mut plane, mut lines) = town.run();
    assert!(lines.any(|line| line == "production is as shakespeare@1 says"));
    plane.kill().unwrap();
    plane.wait().unwrap();
    let files = listing(&town.state().join("store"));
    checks_against_the_present_one(&town);
    assert_eq!(
        listing(&town.state().join("store")),
        files,
        "nothing was touched"
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
