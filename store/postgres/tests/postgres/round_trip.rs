//! R50: a commit is one round trip.

use control_plane_store::{Batch, CommitError, KeyRange, Store};
use control_plane_store_postgres::Options;
use testing_postgres::Server;

use crate::proxy::Proxy;

/// The types of messages, as text.
fn types(messages: &[(char, Vec<u8>)]) -> String {
    messages.iter().map(|(tag, _)| *tag).collect()
}

#[tokio::test]
async fn r50_commit_is_one_round_trip() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let proxy = Proxy::before(&database);
    let options = Options::new(proxy.url()).connections(1);
    let store = options.connect().await.unwrap();
    proxy.sent();
    let first = Batch::new().put("a", "1").put("r/1", "1").announce("t");
    let first = store.commit(first).await.unwrap();
    let (messages, turns) = proxy.sent();
    assert_eq!((&*types(&messages), turns), ("BECS", 1), "the first one");

    let all = Batch::new()
        .expect_at("a", first)
        .expect_absent("none")
        .put("a", "2")
        .delete("absent")
        .delete_range(KeyRange::prefix("r/"))
        .put("b", vec![b'x'; 1 << 20])
        .announce("t");
    store.commit(all).await.unwrap();
    let (messages, turns) = proxy.sent();
    // Bind, execute, close the portal, and the end of the transaction: sent together, and answered once.
    assert_eq!((&*types(&messages), turns), ("BECS", 1));

    let late = store
        .commit(Batch::new().expect_at("a", first).put("a", "3"))
        .await;
    assert!(
        matches!(late, Err(CommitError::Conflict { .. })),
        "{late:?}"
    );
    let (messages, turns) = proxy.sent();
    assert_eq!((&*types(&messages), turns), ("BECS", 1));

    store.get(&["a".into()]).await.unwrap();
    proxy.sent();
    store.get(&["a".into()]).await.unwrap();
    let (messages, turns) = proxy.sent();
    assert_eq!(
        (&*types(&messages), turns),
        ("BECS", 1),
        "a read, with its proof"
    );
}
