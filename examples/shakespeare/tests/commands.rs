//! Tests of the program's commands. Each command runs as a process of its own, as from a shell.

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

/// A temporary state directory. Dropping it kills all its cells.
struct Town {
    dir: tempfile::TempDir,
}

/// The output of a command, and whether it succeeded.
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

    /// Runs a command. It is killed and counts as failed if it takes more than 20 seconds.
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

    /// Starts to send requests. Without requests, the health of a version is unknown.
    fn load(&self) -> Child {
        let mut load = Command::new(PROGRAM);
        load.arg("--state").arg(self.state()).arg("load");
        load.stdout(Stdio::null()).spawn().unwrap()
    }

    /// Repeats a command until it succeeds: for instance, until the rollout that it is about has begun.
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

    /// Repeats a command until its output contains `words`.
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

    /// Returns the first output of the live view of a rollout in a terminal.
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
        // A terminal turns each line end into two characters.
        said.replace("\r\n", "\n")
    }

    /// Starts a control plane. Returns its process and the lines of its output.
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
fn hostile_manifest_is_one_clear_error_with_its_place_and_changes_nothing() {
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
    assert!(!town.state().exists(), "`check` creates no state");
}

const CANARY: &str = "canary: {count: 1, bake: 10}";

/// Replacements in the section `rollout`, and the error that each must give: old text, new text, error.
const HOSTILE_ROLLOUTS: &[(&str, &str, &str)] = &[
    ("rollout:", "rollouts:", "16:1: rollouts: unknown field"),
    (
        "bake: 5",
        "hold: wait\n  emergency: {who: jane, why: CVE}",
        "rollout: payload.hold: a hold also stops an emergency",
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
        "20:19: rollout.canary.count: 0: no asset would ever be updated",
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
        "20:28: rollout.canary.bake: 18446744073709551615: use at most 1209600 seconds",
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
        "18:17: rollout.domains[1]: `eu` is listed twice",
    ),
    ("[eu, us]", "eu", "18:12: rollout.domains: invalid type"),
    ("bake: 5", "bake: soon", "22:9: rollout.bake: invalid type"),
    ("bake: 5", "bakes: 5", "22:3: rollout.bakes: unknown field"),
    (
        "bake: 5",
        "max_in_flight: 0",
        "22:18: rollout.max_in_flight: 0: no asset would ever be updated",
    ),
    (
        "bake: 5",
        "max_unavailable: 0",
        "22:20: rollout.max_unavailable: 0: no asset would ever be updated",
    ),
    (
        "bake: 5",
        "waves: [{percent: 101}]",
        "22:21: rollout.waves[0].percent: 101: use at most 100 percent",
    ),
    (
        "bake: 5",
        "waves: [{count: 2}, {count: 2}]",
        "22:31: rollout.waves[1].count: each wave must be at least 1, and larger",
    ),
    (
        "bake: 5",
        "waves: [{count: 2, percent: 5}]",
        "22:11: rollout.waves[0]: give exactly one of `count` and `percent`",
    ),
    (
        "bake: 5",
        "hold: \"\"",
        "22:9: rollout.hold: the text is empty",
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
        "22:20: rollout.emergency.who: the text is empty",
    ),
];

#[test]
fn hostile_rollout_section_is_one_clear_error_with_line_column_and_field() {
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
        "a manifest without a rollout section is refused: {}",
        said.text
    );
    assert!(!town.state().exists(), "`check` creates no state");
}

#[test]
fn service_turns_up_answers_commands_and_goes_down_completely() {
    let town = Town::new();
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

    assert!(town.say(&["pause", "job/eu", "--why", "a test"]).good);
    assert!(town.say(&["resume", "job/eu"]).good);
    assert!(town.say(&["pause", "job/eu", "--for", "1"]).good);
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
fn completed_rollout_is_shown_and_takes_no_commands(town: &Town, status: &serde_json::Value) {
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

/// `check` compares with the incarnation in force, whether or not a control plane is running.
fn checks_against_the_incarnation_in_force(town: &Town) {
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

/// A process that is killed at the end of a test, even if the test fails.
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
fn rollout_is_followed_line_by_line_and_obeys_commands() {
    let town = Town::new();
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
    assert!(town.say(&["down"]).good);
    reader.join().unwrap();
}

#[test]
fn rollout_is_followed_over_a_restart_of_the_control_plane() {
    let town = Town::new();
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

fn rollout_is_paused_resumed_and_followed_to_its_end(town: &Town) {
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

fn rollout_is_rolled_back_retried_and_aborted(town: &Town) {
    let waited = town.say(&["rollout", "wait", "--within", "1"]);
    assert!(
        !waited.good,
        "the previous rollout must not count: {}",
        waited.text
    );
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
        explained.contains("failed in an earlier rollout"),
        "{explained}"
    );
    town.until(&["rollout", "retry"]);
    town.until(&["rollout", "abort"]);
    let aborted = town.say(&["rollout", "status", "--once"]).text;
    assert!(aborted.contains("rollout 4 stopped"), "{aborted}");
}

fn alert_delays_a_change_until_the_check_is_overridden(town: &Town, edit: impl Fn()) {
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

#[test]
fn r73_text_of_people_and_sources_cannot_control_the_terminal() {
    let town = Town::new();
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
    let history = rolling[0]["view"]["rollout"]["history"].as_array().unwrap();
    let why = history.last().unwrap()["by"]["why"].as_str().unwrap();
    assert!(why.ends_with("\u{2028}\u{202e}DELTTES LLA"), "{why:?}");
    a_hostile_manifest_is_shown_plainly(&town);
    drop(plane);
    let said = reader.join().unwrap();
    assert!(
        is_plain(&said.replace("production matches shakespeare@1", "")),
        "{said:?}"
    );
    assert!(town.say(&["down"]).good);
}

fn a_hostile_manifest_is_shown_plainly(town: &Town) {
    let key = "  \"u\\e[2J\\nproduction matches\\u202e\": 1\n  us:";
    let checked = town.check(&Manifest::DEFAULT.replacen("  us:", key, 1));
    assert!(
        !checked.good && is_plain(&checked.text),
        "{:?}",
        checked.text
    );
    assert!(
        checked.text.contains("u\\u{1b}[2J\\u{a}production matches"),
        "{}",
        checked.text
    );
}

#[test]
fn r72_control_plane_is_reached_only_through_a_socket_of_its_user() {
    let town = Town::new();
    let (plane, mut lines) = town.run();
    let plane = Background(plane);
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let socket = town.state().join("control.sock");
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    assert_eq!((mode(&town.state()), mode(&socket)), (0o700, 0o600));
    let pid = plane.0.id();
    assert_eq!(tcp_listeners(pid), 0, "it must not listen on TCP");
    other_users_are_refused(&town, &socket);

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

/// Returns the number of TCP sockets on which a process listens.
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

/// Even if all file modes allow it, a process of another user gets no answer. Only root can run this part of the test.
fn other_users_are_refused(town: &Town, socket: &Path) {
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

/// Returns the text with which the control plane records the user that runs these tests.
fn me() -> String {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let of_uid = |line: &&str| line.split(':').nth(2) == Some(&uid);
    let line = users.lines().find(of_uid).unwrap_or_default();
    let name = line.split(':').next().unwrap_or_default();
    format!("{name} (uid {uid})").trim_start().to_owned()
}

#[test]
fn r70_command_is_recorded_with_the_user_of_the_process_and_the_given_name() {
    let town = Town::new();
    let (manifest, fast) = a_manifest_that_bakes_fast(&town);
    let (plane, mut lines) = town.run();
    let _plane = Background(plane);
    assert!(lines.any(|line| line == "production matches shakespeare@1"));
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
fn unusable_state_directory_is_refused_with_advice() {
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
    let town = Town::new();
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
