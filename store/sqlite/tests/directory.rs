//! One process at a time can open a directory, and its content is checked at opening.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use control_plane_store::{Batch, CommitError, KeyRange, Store, owner};
use control_plane_store_sqlite::{Error, SqliteStore};
use futures::executor::block_on;

fn database(dir: &Path) -> PathBuf {
    dir.join("plane.sqlite3")
}

#[test]
fn a_second_opening_is_refused_and_names_the_first_process() {
    let dir = tempfile::tempdir().unwrap();
    let _store = SqliteStore::open(dir.path()).unwrap();
    let error = SqliteStore::open(dir.path()).unwrap_err();
    assert!(matches!(&error, Error::InUse { by, .. } if *by == std::process::id().to_string()));
}

#[test]
fn a_waiting_opening_succeeds_after_the_first_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let (opened, waits) = mpsc::channel();
    let path = dir.path().to_owned();
    let second = thread::spawn(move || {
        let store = SqliteStore::open_wait(path).unwrap();
        opened.send(()).unwrap();
        block_on(store.get(&["k".into()])).unwrap()
    });
    block_on(store.commit(Batch::new().put("k", "1"))).unwrap();
    assert!(waits.try_recv().is_err());
    drop(store);
    assert_eq!(second.join().unwrap()[0].as_ref().unwrap().value, "1");
}

#[test]
fn opening_removes_all_heartbeats() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let beat = Batch::new().put(format!("{}one", owner::heartbeats().start.as_str()), "{}");
    block_on(store.commit(beat)).unwrap();
    drop(store);
    let store = SqliteStore::open(dir.path()).unwrap();
    let page = block_on(store.scan(owner::heartbeats(), 10)).unwrap();
    assert!(page.rows.is_empty());
}

#[test]
fn s7_removing_the_directory_of_an_open_store_poisons_it() {
    let (root, put) = (tempfile::tempdir().unwrap(), || Batch::new().put("k", "1"));
    let dir = root.path().join("state");
    let poisoned = |store: &SqliteStore, file: &str| {
        let error = block_on(store.commit(put())).unwrap_err();
        let said = std::error::Error::source(&error).unwrap().to_string();
        assert!(matches!(error, CommitError::Poisoned { .. }), "{error:?}");
        assert!(
            said.contains(file) && said.contains("removed or replaced"),
            "{said}"
        );
        assert!(block_on(store.get(&["k".into()])).is_err());
    };
    let first = SqliteStore::open(&dir).unwrap();
    block_on(first.commit(put())).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    // A second process can open a new store at the path; the first one must not continue.
    let second = SqliteStore::open(&dir).unwrap();
    block_on(second.commit(put())).unwrap();
    poisoned(&first, "lock");
    block_on(second.commit(put())).unwrap();
    for file in ["plane.sqlite3", "plane.sqlite3-wal", "plane.acked"] {
        let dir = root.path().join(format!("state-{file}"));
        let store = SqliteStore::open(&dir).unwrap();
        block_on(store.commit(put())).unwrap();
        let moved = dir.join("moved");
        fs::rename(dir.join(file), &moved).unwrap();
        fs::copy(&moved, dir.join(file)).unwrap();
        poisoned(&store, file);
    }
}

#[test]
fn garbage_instead_of_a_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        database(dir.path()),
        "not a database, but long enough for a header\n".repeat(50),
    )
    .unwrap();
    let error = SqliteStore::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    let file = dir.path().join("lock");
    assert!(matches!(SqliteStore::open(file), Err(Error::Io { .. })));
}

/// Fills a store with 200 values, closes it, and returns the bytes of its database.
fn filled(dir: &Path) -> Vec<u8> {
    let store = SqliteStore::open(dir).unwrap();
    for n in 0..20 {
        let batch = (0..10).fold(Batch::new(), |batch, m| {
            batch.put(format!("key/{n}/{m}"), format!("{n}/{m}").repeat(20))
        });
        block_on(store.commit(batch)).unwrap();
    }
    drop(store);
    fs::read(database(dir)).unwrap()
}

/// Whether `bytes` are refused as a database with a suitable error. If they are accepted, all values must be there.
fn refused(bytes: &[u8]) -> bool {
    let dir = tempfile::tempdir().unwrap();
    fs::write(database(dir.path()), bytes).unwrap();
    match SqliteStore::open(dir.path()) {
        Ok(store) => {
            let page = block_on(store.scan(KeyRange::prefix("key/"), 1000)).unwrap();
            assert_eq!(page.rows.len(), 200);
            for (key, row) in page.rows {
                let value = key.as_str().strip_prefix("key/").unwrap().repeat(20);
                assert_eq!(row.value, value);
            }
            false
        }
        Err(
            Error::Damaged { .. }
            | Error::Format { .. }
            | Error::Database { .. }
            | Error::Refused { .. },
        ) => true,
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn flipped_bytes_are_refused_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = filled(dir.path());
    let step = bytes.len() / 150;
    let mut found = 0;
    for at in (0..bytes.len()).step_by(step.max(1)) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        found += u32::from(refused(&bytes));
    }
    assert!(
        found > 50,
        "{found} of 150 flips were detected; the others hit unused bytes"
    );
}

#[test]
fn a_cut_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = filled(dir.path());
    for part in 1..10 {
        assert!(refused(&bytes[..bytes.len() * part / 10]), "{part} tenths");
    }
}
