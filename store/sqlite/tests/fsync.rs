//! R5: a failed sync, also of a checkpoint, poisons the store permanently, and no acknowledged commit is lost.
//!
//! The tests start themselves as child processes with a preloaded library, written in C, that makes syncs fail on
//! demand.
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

/// Runs the test `test` as a child whose syncs of files named `...ending` fail, and checks the store that it leaves.
fn poisoned(test: &str, ending: &str) {
    if let Some(dir) = std::env::var_os(DIR) {
        return commit_until_poisoned(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("failing_fsync.so");
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
            return;
        }
    }
    let state = dir.path().join("state");
    let child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(DIR, &state)
        .env(ENDING, ending)
        .env(CONTROL, dir.path().join("control"))
        .env("LD_PRELOAD", &library)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    let told = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{out}\n{told}");
    assert!(told.contains("poisoned"), "{out}\n{told}");
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
