//! R5: a failed sync, also of a checkpoint, poisons the store permanently, and no acknowledged commit is lost. A commit
//! costs one sync. A commit for which the log has no room is refused, and does not appear later.
//!
//! The tests start themselves as child processes with a preloaded library, written in C, that makes syncs and writes fail
//! on demand, and records writes and syncs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test"
)]

use std::{
    error::Error as _,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use control_plane_store::{Batch, CommitError, Error, Store};
use control_plane_store_sqlite::SqliteStore;
use futures::executor::block_on;

/// Environment variables of the child: the directory of its store, and the end of the file name whose syncs fail.
const DIR: &str = "STORE_DIR";
const ENDING: &str = "FAIL_ENDING";
/// Environment variable of the library: a file whose content is the end of the file names whose syncs fail.
const CONTROL: &str = "FAIL_FSYNC";
/// Environment variable of the library: the same for writes.
const FULL: &str = "FAIL_WRITE";
/// Environment variable of the library: a file to which it appends the path of each file that is written or synced.
const TRACE: &str = "TRACE_FSYNC";

/// Number of commits: enough for several checkpoints.
const MANY: u32 = 3_000;

/// Commits until a commit reports that the store is poisoned, and checks that it stays poisoned.
fn commit_until_poisoned(dir: &Path) {
    let (control, ending) = (var(CONTROL), var(ENDING));
    let store = SqliteStore::open(dir).unwrap();
    let put = |n: u32| Batch::new().put(format!("k/{n:04}"), vec![b'x'; 20_000]);
    block_on(store.commit(put(0))).unwrap();
    fs::write(&control, ending).unwrap();
    for n in 1..MANY {
        match block_on(store.commit(put(n))) {
            Ok(_) => fs::write(dir.join("acked"), n.to_string()).unwrap(),
            Err(error) => {
                assert!(matches!(error, CommitError::Poisoned { .. }), "{error:?}");
                let cause = error.source().unwrap();
                let causes = [Some(cause), cause.source()].map(|cause| format!("{cause:?}"));
                // Syncs succeed again, but the store stays poisoned.
                fs::remove_file(&control).unwrap();
                let again = block_on(store.commit(put(n))).unwrap_err();
                assert!(matches!(again, CommitError::Poisoned { .. }), "{again:?}");
                let read = block_on(store.get(&["k/0000".into()])).unwrap_err();
                assert!(matches!(read, Error::Poisoned { .. }), "{read:?}");
                eprintln!("poisoned {causes:?}");
                return;
            }
        }
    }
    panic!("no commit of {MANY} reported the failed sync");
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap()
}

/// Runs the test `test` as a child with the library, and returns what the child wrote to its error stream. `None` means
/// that there is no C compiler.
fn run(test: &str, dir: &Path, ending: &str) -> Option<String> {
    let library = dir.join("failing_fsync.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failing_fsync.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "{} does not compile", source.display()),
        Err(error) => {
            eprintln!(
                "skipped: a C compiler is needed to make syncs fail, but `cc` cannot be run: {error}"
            );
            return None;
        }
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(DIR, dir.join("state"))
        .env(ENDING, ending)
        .env(CONTROL, dir.join("control"))
        .env(FULL, dir.join("full"))
        .env(TRACE, dir.join("trace"))
        .env("LD_PRELOAD", &library)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    let told = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{out}\n{told}");
    Some(told.into_owned())
}

/// Runs the test `test` as a child whose syncs of files named `...ending` fail, and checks the store that it leaves.
fn poisoned(test: &str, ending: &str) {
    if let Some(dir) = std::env::var_os(DIR) {
        return commit_until_poisoned(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(told) = run(test, dir.path(), ending) else {
        return;
    };
    assert!(told.contains("poisoned"), "{told}");
    let state = dir.path().join("state");
    let acked = fs::read_to_string(state.join("acked")).map_or(0, |n| n.parse().unwrap());
    let store = SqliteStore::open(&state).unwrap();
    for n in 0..=acked {
        let row = block_on(store.get(&[format!("k/{n:04}").into()])).unwrap();
        assert!(
            row[0].is_some(),
            "commit {n} was acknowledged but is missing"
        );
    }
}

#[test]
fn r5_a_failed_sync_of_the_log_poisons_the_store() {
    poisoned(
        "r5_a_failed_sync_of_the_log_poisons_the_store",
        "plane.sqlite3-wal",
    );
}

#[test]
fn r5_a_failed_sync_of_a_checkpoint_poisons_the_store() {
    poisoned(
        "r5_a_failed_sync_of_a_checkpoint_poisons_the_store",
        "plane.sqlite3",
    );
}

#[test]
fn r5_a_failed_sync_of_the_record_poisons_the_store() {
    poisoned(
        "r5_a_failed_sync_of_the_record_poisons_the_store",
        "plane.acked",
    );
}

/// What the child wrote and synced, in order: `write` or `sync` and the name of a file. Repeated writes are one.
fn trace(dir: &Path) -> Vec<String> {
    let trace = fs::read_to_string(dir.join("trace")).unwrap();
    let named = |line: &str| {
        let (what, path) = line.split_once(' ').unwrap();
        format!("{what} {}", path.rsplit('/').next().unwrap())
    };
    let mut trace: Vec<_> = trace.lines().map(named).collect();
    trace.dedup_by(|next, last| next == last && next.starts_with("write"));
    trace
}

/// Number of small commits of a child that counts its syncs: four laps of the records.
const COUNTED: usize = 4 * 17;

/// Makes small and then large commits, and marks their beginnings in the trace by a sync of another file.
fn commit_and_mark(dir: &Path) {
    let mark = |name: &str| {
        fs::File::create(dir.join(name))
            .unwrap()
            .sync_all()
            .unwrap();
    };
    let store = SqliteStore::open(dir).unwrap();
    mark("small");
    for n in 0..COUNTED {
        block_on(store.commit(Batch::new().put(format!("k/{}", n % 3), "value"))).unwrap();
    }
    mark("large");
    for n in 0..3 {
        block_on(store.commit(Batch::new().put(format!("k/{n}"), vec![b'x'; 300_000]))).unwrap();
    }
    mark("end");
}

#[test]
fn r5_a_commit_costs_one_sync_and_the_log_is_forced_once_per_lap() {
    if let Some(dir) = std::env::var_os(DIR) {
        return commit_and_mark(Path::new(&dir));
    }
    let test = "r5_a_commit_costs_one_sync_and_the_log_is_forced_once_per_lap";
    let dir = tempfile::tempdir().unwrap();
    if run(test, dir.path(), "").is_none() {
        return;
    }
    let trace = trace(dir.path());
    let at = |name: &str| trace.iter().position(|it| it == name).unwrap();
    let [small, large, end] = ["sync small", "sync large", "sync end"].map(at);
    let log = ["write plane.sqlite3-wal", "sync plane.sqlite3-wal"];
    let record = ["write plane.acked", "sync plane.acked"];
    let forced = [log, record].concat();
    // The opening ends with a commit that forces the log. Each of the next 16 commits syncs its record, and is visible to
    // readers after that. The one behind them forces the log before its record overwrites the first one.
    assert_eq!(trace[small - 4..small], forced);
    let lap = [[record[0], record[1], log[0]].repeat(16), forced.clone()].concat();
    let mut laps = lap.repeat(COUNTED / 17);
    // The writes to the log of the last two commits of a lap follow each other.
    laps.dedup();
    assert_eq!(trace[small + 1..large], laps);
    // Large commits are in the log before they are recorded.
    assert_eq!(trace[large + 1..end], forced.repeat(3));
}

/// Files of a store, and the directory beside it with a copy of them after a refused commit.
const FILES: [&str; 3] = ["plane.sqlite3", "plane.sqlite3-wal", "plane.acked"];
const REFUSED: &str = "refused";

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in FILES {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

/// Makes a commit, then one for which the log has no room, then one more. Ends without closing the store.
fn commit_without_room(dir: &Path) {
    let store = SqliteStore::open(dir).unwrap();
    block_on(store.commit(Batch::new().put("a", "1"))).unwrap();
    let full = var(FULL);
    fs::write(&full, var(ENDING)).unwrap();
    let refused = block_on(store.commit(Batch::new().put("a", "2"))).unwrap_err();
    assert!(
        matches!(refused, CommitError::Unavailable { .. }),
        "{refused:?}"
    );
    fs::remove_file(full).unwrap();
    copy(dir, &dir.with_file_name(REFUSED));
    block_on(store.commit(Batch::new().put("b", "3"))).unwrap();
    std::process::exit(0);
}

#[test]
fn r5_a_commit_for_which_the_log_has_no_room_does_not_appear_later() {
    if let Some(dir) = std::env::var_os(DIR) {
        return commit_without_room(Path::new(&dir));
    }
    let test = "r5_a_commit_for_which_the_log_has_no_room_does_not_appear_later";
    let dir = tempfile::tempdir().unwrap();
    if run(test, dir.path(), "plane.sqlite3-wal").is_none() {
        return;
    }
    for (state, want) in [
        (REFUSED, [Some("1"), None]),
        ("state", [Some("1"), Some("3")]),
    ] {
        // Once with the log, and once after a loss of all of it.
        let state = dir.path().join(state);
        let cut = state.with_extension("cut");
        copy(&state, &cut);
        fs::write(cut.join("plane.sqlite3-wal"), "").unwrap();
        for state in [state, cut] {
            let store = SqliteStore::open(state).unwrap();
            let rows = block_on(store.get(&["a".into(), "b".into()])).unwrap();
            let values = rows
                .iter()
                .map(|row| row.as_ref().map(|row| row.value.clone()));
            let want = want.map(|value| value.map(|value| value.to_owned().into()));
            assert_eq!(values.collect::<Vec<_>>(), want);
        }
    }
}
