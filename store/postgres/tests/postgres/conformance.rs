//! The PostgreSQL backend passes the conformance suite of stores.

use std::sync::{Arc, Mutex};

use control_plane_store::{
    Batch, Expect, Store,
    conformance::{self, Factory},
};
use control_plane_store_postgres::PostgresStore;
use testing_postgres::{Database, Server};

/// A factory that creates every store in a database of its own.
struct Databases {
    server: Arc<Server>,
    made: Mutex<Vec<Database>>,
}

#[async_trait::async_trait]
impl Factory for Databases {
    type Store = PostgresStore;

    async fn create(&self) -> PostgresStore {
        let database = self.server.database();
        let url = database.url();
        self.made.lock().unwrap().push(database);
        PostgresStore::connect(&url).await.unwrap()
    }

    /// Reopens the store created last, which is the one under test. The server's processes are killed meanwhile.
    async fn reopen(&self, store: PostgresStore) -> PostgresStore {
        drop(store);
        self.server.stop();
        self.server.resume();
        let url = self.made.lock().unwrap().last().unwrap().url();
        PostgresStore::connect(&url).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms() {
    testing_postgres::needs_postgresql!();
    let databases = Databases {
        server: Server::start(),
        made: Mutex::default(),
    };
    conformance::run(&databases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_of_many_processes_are_each_counted_once() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let count = |store: PostgresStore| async move {
        for _ in 0..25 {
            loop {
                let row = store.get(&["n".into()]).await.unwrap().pop().flatten();
                let (found, n) = row.map_or((None, 0), |row| {
                    let n: u32 = String::from_utf8_lossy(&row.value).parse().unwrap();
                    (Some(row.version), n)
                });
                let batch = Batch::new().expect("n", Expect::as_found(found));
                if store
                    .commit(batch.put("n", (n + 1).to_string()))
                    .await
                    .is_ok()
                {
                    break;
                }
            }
        }
    };
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let store = PostgresStore::connect(&database.url()).await.unwrap();
        tasks.extend((0..2).map(|_| tokio::spawn(count(store.clone()))));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let n = "select value from control_plane.shown where key = 'n'";
    assert_eq!(database.run(n), "200\n");
}
