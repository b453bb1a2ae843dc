//! The SQLite backend passes the conformance suite of stores.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{path::PathBuf, sync::Mutex};

use control_plane_store::{
    Store,
    conformance::{self, Factory},
};
use control_plane_store_sqlite::SqliteStore;
use tempfile::TempDir;

/// A factory that creates every store in a directory of its own.
struct Directories {
    root: TempDir,
    made: Mutex<Vec<PathBuf>>,
}

#[async_trait::async_trait]
impl Factory for Directories {
    type Store = SqliteStore;

    async fn create(&self) -> SqliteStore {
        let mut made = self.made.lock().unwrap();
        let dir = self.root.path().join(made.len().to_string());
        made.push(dir.clone());
        SqliteStore::open(dir).unwrap()
    }

    /// Reopens the store created last, which is the one under test.
    async fn reopen(&self, store: SqliteStore) -> SqliteStore {
        drop(store);
        let dir = self.made.lock().unwrap().last().cloned().unwrap();
        SqliteStore::open(dir).unwrap()
    }
}

fn directories() -> Directories {
    Directories {
        root: tempfile::tempdir().unwrap(),
        made: Mutex::default(),
    }
}

#[test]
fn conforms() {
    futures::executor::block_on(conformance::run(&directories()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_under_tokio() {
    conformance::run(&directories()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_of_many_tasks_are_each_counted_once() {
    let directories = directories();
    let store = directories.create().await;
    let count = |store: SqliteStore| async move {
        for _ in 0..50 {
            loop {
                let row = store.get(&["n".into()]).await.unwrap().pop().flatten();
                let (found, n) = row.map_or((None, 0), |row| {
                    let n: u32 = String::from_utf8_lossy(&row.value).parse().unwrap();
                    (Some(row.version), n)
                });
                let next = (n + 1).to_string();
                let expect = control_plane_store::Expect::as_found(found);
                let batch = control_plane_store::Batch::new()
                    .expect("n", expect)
                    .put("n", next);
                if store.commit(batch).await.is_ok() {
                    break;
                }
            }
        }
    };
    let tasks: Vec<_> = (0..4).map(|_| tokio::spawn(count(store.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let n = store
        .get(&["n".into()])
        .await
        .unwrap()
        .pop()
        .flatten()
        .unwrap();
    assert_eq!(n.value, "200");
}
