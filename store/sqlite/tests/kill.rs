//! R5 with real processes: a process that is killed during its commits loses no acknowledged commit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use control_plane_store::{Batch, Key, Store};
use control_plane_store_sqlite::SqliteStore;
use futures::{StreamExt, executor::block_on, stream};

/// Environment variable that makes the test run as the child process: the directory of its store.
const DIR: &str = "STORE_DIR";

/// Name of the test below. It starts itself as the child process that it kills.
const TEST: &str = "r5_acknowledged_commits_survive_kill_9";

/// Commits from eight concurrent tasks until it is killed, and prints each acknowledged key.
fn commit_until_killed(dir: &Path) {
    let store = SqliteStore::open(dir).unwrap();
    let side = |side: usize| {
        let store = &store;
        stream::iter(0..).for_each(move |n| async move {
            let key = format!("{}/{side}/{n}", std::process::id());
            let pair = Batch::new().put(format!("a/{key}"), key.clone());
            store
                .commit(pair.put(format!("b/{key}"), key.clone()))
                .await
                .unwrap();
            let mut out = std::io::stdout().lock();
            writeln!(out, "acked {key}")
                .and_then(|()| out.flush())
                .unwrap();
        })
    };
    block_on(futures::future::join_all((0..8).map(side)));
}

/// Starts the child, kills it after `lines` acknowledgements, and returns all keys that it acknowledged.
fn run_and_kill(dir: &Path, lines: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([TEST, "--exact", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acked = Vec::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while out.read_line(&mut line).unwrap() > 0 {
        // The kill may cut off the last line.
        if let Some(key) = line
            .strip_prefix("acked ")
            .and_then(|key| key.strip_suffix('\n'))
        {
            acked.push(key.to_owned());
            if acked.len() == lines {
                child.kill().unwrap();
            }
        }
        line.clear();
    }
    child.wait().unwrap();
    acked
}

#[test]
fn r5_acknowledged_commits_survive_kill_9() {
    if let Some(dir) = std::env::var_os(DIR) {
        return commit_until_killed(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let mut acked = Vec::new();
    for lines in [1, 2, 3, 5, 8, 13, 40, 100, 300, 1000] {
        let more = run_and_kill(dir.path(), lines);
        assert!(more.len() >= lines);
        acked.extend(more);
        // The directory opens at once: a killed process holds no lock.
        let store = SqliteStore::open(dir.path()).unwrap();
        for key in &acked {
            let keys: [Key; 2] = [format!("a/{key}").into(), format!("b/{key}").into()];
            let rows = block_on(store.get(&keys)).unwrap();
            let [Some(a), Some(b)] = &rows[..] else {
                panic!("{key} was acknowledged but is missing");
            };
            assert_eq!((&a.value[..], a), (key.as_bytes(), b));
        }
    }
}
