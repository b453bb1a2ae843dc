//! R50: a primary, a hot standby of it, and changes of roles that leave old connections where they are.

use std::sync::Arc;

use control_plane_store::{Batch, CommitError, Error as ReadError, KeyRange, Store, Version};
use control_plane_store_postgres::{Error, Options, PostgresStore};
use futures::StreamExt;
use testing_postgres::{Database, Server};

use crate::{
    proxy::{Fate, Proxy},
    rival::Rival,
};

/// Two servers, and a proxy before them that leads to the primary at first.
struct Pair {
    primary: Arc<Server>,
    standby: Arc<Server>,
    database: Database,
    copy: Database,
    proxy: Proxy,
}

impl Pair {
    fn start() -> Self {
        let primary = Server::start();
        let database = primary.database();
        let standby = primary.standby();
        Self {
            copy: database.on(&standby),
            proxy: Proxy::before(&database),
            primary,
            standby,
            database,
        }
    }

    async fn store(&self, connections: usize) -> PostgresStore {
        let options = Options::new(self.proxy.url()).connections(connections);
        options.connect().await.unwrap()
    }

    /// Promotes the standby once it has everything, and leads new connections there. The old primary goes on.
    fn flip(&self) {
        self.standby.catch_up(&self.primary);
        self.standby.promote();
        self.proxy.redirect(&self.copy);
    }

    /// Ends all connections through the proxy to the old primary.
    async fn end_sessions(&self) {
        Rival::of(&self.database).await.end("true").await;
    }
}

fn put(key: &str, value: &str) -> Batch {
    Batch::new().put(key, value.to_owned())
}

async fn value(store: &PostgresStore, key: &str) -> Result<Option<String>, ReadError> {
    let row = store.get(&[key.into()]).await?.pop().flatten();
    Ok(row.map(|row| String::from_utf8(row.value.to_vec()).unwrap()))
}

/// Submits until the outcome is certain.
async fn certain(store: &PostgresStore, batch: Batch) -> Result<Version, CommitError> {
    loop {
        match store.commit(batch.clone()).await {
            Err(CommitError::Unknown { .. }) => {}
            certain => return certain,
        }
    }
}

/// The old primary is made read-only, as orchestrators do it before a change of roles, and keeps its connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r50_reads_and_hints_follow_a_change_of_roles_under_open_connections() {
    testing_postgres::needs_postgresql!();
    let pair = Pair::start();
    let store = pair.store(2).await;
    store.commit(put("a", "1")).await.unwrap();
    assert_eq!(value(&store, "a").await.unwrap().as_deref(), Some("1"));
    pair.primary
        .configure("default_transaction_read_only", "on");
    pair.flip();
    // Another process knows the new primary only.
    let other = PostgresStore::connect(&pair.copy.url()).await.unwrap();
    other.commit(put("a", "2")).await.unwrap();

    let mut hints = store.watch("head".into());
    assert_eq!(value(&store, "a").await.unwrap().as_deref(), Some("2"));
    let page = store.scan(KeyRange::prefix("a"), 10).await.unwrap();
    assert_eq!(page.rows[0].1.value, "2");
    assert_eq!(hints.next().await, Some(()), "woken by the new connection");
    store.commit(put("b", "1")).await.unwrap();
    other.commit(put("c", "1").announce("head")).await.unwrap();
    assert_eq!(hints.next().await, Some(()));
}

/// A commit comes first: nothing was written by the read-only server, so it is made on the new primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r50_commit_refused_by_a_read_only_server_is_made_on_the_new_primary() {
    testing_postgres::needs_postgresql!();
    let pair = Pair::start();
    let store = pair.store(2).await;
    let first = store.commit(put("a", "1")).await.unwrap();
    pair.primary
        .configure("default_transaction_read_only", "on");
    pair.flip();
    let second = store.commit(put("a", "2")).await.unwrap();
    assert!(second > first);
    assert_eq!(value(&store, "a").await.unwrap().as_deref(), Some("2"));
}

/// The old primary is not fenced. A second connection for commits is opened to the new one, and the first ones stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r50_read_sees_every_commit_that_the_process_was_acknowledged() {
    testing_postgres::needs_postgresql!();
    let pair = Pair::start();
    let store = pair.store(2).await;
    store.commit(put("a", "1")).await.unwrap();
    assert_eq!(value(&store, "b").await.unwrap(), None);
    pair.flip();
    let mut rival = Rival::of(&pair.database).await;
    rival.hold("held").await;
    let held = tokio::spawn({
        let store = store.clone();
        async move { store.commit(put("held", "1")).await }
    });
    rival.waiting(1).await;
    store.commit(put("b", "1")).await.unwrap();
    assert_eq!(value(&store, "b").await.unwrap().as_deref(), Some("1"));
    let page = store.scan(KeyRange::all(), 10).await.unwrap();
    assert_eq!(page.rows.len(), 2);

    // The commit that waits on the old primary is acknowledged, and is not on the new one: it is lost.
    rival.run("rollback").await;
    held.await.unwrap().unwrap();
    assert!(value(&store, "b").await.unwrap_err().is_poisoned());
}

/// A commit on a connection that stayed behind is not made beside those of the new primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r50_commit_is_not_made_on_a_server_that_lacks_acknowledged_ones() {
    testing_postgres::needs_postgresql!();
    let pair = Pair::start();
    let store = pair.store(2).await;
    store.commit(put("a", "1")).await.unwrap();
    pair.flip();
    let mut rival = Rival::of(&pair.database).await;
    rival.hold("held").await;
    let held = tokio::spawn({
        let store = store.clone();
        async move { store.commit(put("held", "1")).await }
    });
    rival.waiting(1).await;
    store.commit(put("a", "2")).await.unwrap();
    // Refused there, because the batch expects what only the old primary has, so that its session stays behind.
    rival.run("rollback").await;
    drop(held);
    let _ = store.commit(put("c", "1")).await;
    assert_eq!(
        pair.database
            .run("select count(*) from control_plane.shown where key = 'c'"),
        "0\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r50_standby_that_lags_is_a_lost_connection_and_no_loss() {
    testing_postgres::needs_postgresql!();
    let pair = Pair::start();
    let store = pair.store(2).await;
    store.commit(put("a", "1")).await.unwrap();
    pair.standby.catch_up(&pair.primary);
    pair.standby.cut_off();
    for n in 0..100 {
        store.commit(put("a", &n.to_string())).await.unwrap();
    }
    pair.proxy.redirect(&pair.copy);
    pair.end_sessions().await;
    // Of unknown outcome, until the ends of the connections are noticed.
    let refused = loop {
        match store.commit(put("b", "1")).await {
            Err(CommitError::Unknown { .. }) => {}
            certain => break certain,
        }
    };
    assert!(
        matches!(refused, Err(CommitError::Unavailable { .. })),
        "{refused:?}"
    );
    let refused = value(&store, "a").await;
    assert!(
        matches!(refused, Err(ReadError::Unavailable { .. })),
        "{refused:?}"
    );
    let refused = PostgresStore::connect(&pair.copy.url()).await;
    assert!(matches!(refused, Err(Error::Standby { .. })), "{refused:?}");
    pair.proxy.redirect(&pair.database);
    assert_eq!(value(&store, "a").await.unwrap().as_deref(), Some("99"));
    certain(&store, put("b", "1")).await.unwrap();
}

/// A sequence is logged 32 numbers ahead, so it would not show this loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r50_loss_of_a_single_acknowledged_commit_poisons_the_store() {
    testing_postgres::needs_postgresql!();
    let pair = Pair::start();
    let store = pair.store(2).await;
    store.commit(put("a", "1")).await.unwrap();
    pair.standby.catch_up(&pair.primary);
    pair.standby.cut_off();
    store.commit(put("a", "2")).await.unwrap();
    pair.standby.promote();
    pair.proxy.redirect(&pair.copy);
    pair.end_sessions().await;
    let refused = certain(&store, put("b", "1")).await;
    assert!(
        matches!(refused, Err(CommitError::Poisoned { .. })),
        "{refused:?}"
    );
    assert!(value(&store, "a").await.unwrap_err().is_poisoned());
    // A new process goes on with what is there.
    let other = PostgresStore::connect(&pair.proxy.url()).await.unwrap();
    assert_eq!(value(&other, "a").await.unwrap().as_deref(), Some("1"));
}

/// A batch whose answer was lost counts as acknowledged once it is submitted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r50_loss_of_a_commit_that_was_acknowledged_late_poisons_the_store() {
    testing_postgres::needs_postgresql!();
    let pair = Pair::start();
    let store = pair.store(1).await;
    store.commit(put("a", "1")).await.unwrap();
    pair.standby.catch_up(&pair.primary);
    pair.standby.cut_off();
    pair.proxy.set(Fate::LoseAnswer);
    certain(&store, put("b", "1")).await.unwrap();
    pair.standby.promote();
    pair.proxy.redirect(&pair.copy);
    pair.end_sessions().await;
    let refused = certain(&store, put("c", "1")).await;
    assert!(
        matches!(refused, Err(CommitError::Poisoned { .. })),
        "{refused:?}"
    );
}
