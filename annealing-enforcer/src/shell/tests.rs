//! An enforcer in its shell, over a store in memory, from one start to the next.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::channel::oneshot;
use plane_runtime::TokioRuntime;
use plane_store::{Batch, MemoryStore, Store, incarnations::Incarnations};
use plugin_sdk::testing::{self, InMemoryProduction};
use prodspec_model::{
    AssetId, Incarnation, IncarnationId, IncarnationNo, PartitionId, incarnation::Header,
};

use super::{Handle, Settle};
use crate::{Command, Enforcer};

const SOON: Duration = Duration::from_secs(60);

/// Enforces what the store has, until everything is settled at `no` and `then` is done.
async fn enforced<T, F: Future<Output = T>>(
    store: &Arc<dyn Store>,
    no: u32,
    then: impl FnOnce(Handle<TokioRuntime>) -> F,
) -> T {
    let partition = PartitionId::new("test").unwrap();
    let enforcer = Enforcer::builder(TokioRuntime::current(), partition, store.clone())
        .asset_plugin::<testing::Thing>(InMemoryProduction::new())
        .build()
        .unwrap();
    let (handle, (stop, stopped)) = (enforcer.handle(), oneshot::channel::<()>());
    let running = tokio::spawn(enforcer.run(async move {
        let _ = stopped.await;
    }));
    let all = Settle::All(IncarnationNo(no));
    handle.wait_settled(all, SOON).await.unwrap();
    let found = then(handle).await;
    drop(stop);
    running.await.unwrap().unwrap();
    found
}

/// The newest incarnation without an asset.
fn without(latest: &Incarnation, asset: &AssetId) -> Incarnation {
    let no = latest.no().next();
    let gone = std::slice::from_ref(asset);
    let snapshot = latest.snapshot().edit(no, Vec::new(), gone);
    let header = Header {
        id: IncarnationId::new(latest.id().partition.clone(), no),
        digest: snapshot.digest(),
        parent: Some(latest.no()),
        sealed_at: testing::NOW,
        sources: BTreeMap::new(),
        assets: snapshot.len() as u64,
    };
    Incarnation::new(header, snapshot)
}

async fn orphans(handle: Handle<TokioRuntime>) -> Vec<AssetId> {
    handle.status().await.unwrap().orphans
}

#[tokio::test(start_paused = true)]
async fn r15_an_orphan_that_is_known_about_is_not_listed_after_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let asset = |name| testing::asset(name);
    let first = testing::incarnation(1, [asset("a"), asset("b"), asset("c")]);
    let partition = first.id().partition.clone();
    let incarnations = Incarnations::new(store.clone(), partition);
    let head = incarnations.seal(&first, None, Batch::new()).await.unwrap();
    assert!(enforced(&store, 1, orphans).await.is_empty());
    let (a, b) = (asset("a").id(), asset("b").id());
    let latest = incarnations.latest().await.unwrap().unwrap();
    let second = without(&latest, &a);
    let head = incarnations
        .seal(&second, Some(&head), Batch::new())
        .await
        .unwrap();
    let latest = incarnations.latest().await.unwrap().unwrap();
    let third = without(&latest, &b);
    incarnations
        .seal(&third, Some(&head), Batch::new())
        .await
        .unwrap();
    let both = [a.clone(), b.clone()];
    assert_eq!(enforced(&store, 3, orphans).await, both, "unseen");
    let left = enforced(&store, 3, async |handle| {
        handle.tell(Command::Acknowledge(a)).await.unwrap();
        orphans(handle).await
    });
    assert_eq!(left.await, std::slice::from_ref(&b));
    assert_eq!(enforced(&store, 3, orphans).await, [b], "and no other");
}
