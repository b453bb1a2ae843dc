//! Tests of an enforcer with a store in memory, including restarts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use control_plane_runtime::{Runtime, TokioRuntime};
use control_plane_store::{Batch, MemoryStore, Store, incarnations::Incarnations};
use futures::channel::oneshot;
use plugin_sdk::{
    Actuation, Actuator, AssetPlugin, By, Cause, Diff, DiffRequest, Pin, PushRequest, Pushed,
    plugin,
    testing::{self, InMemoryProduction},
};
use prodspec_model::{
    Asset, AssetId, Digest, Incarnation, IncarnationId, IncarnationNo, PartitionId,
    incarnation::Header,
};

use super::{AskError, Handle, ProcessLease, Settle, input::Input};
use crate::{Command, Enforcer};

mod attached;
mod calls;
mod drain;
mod halt;
mod lost;
mod plan;
mod settled;
mod start;
mod told;

const SOON: Duration = Duration::from_secs(60);

/// Runs an enforcer on `store` until all assets are settled at `no` and `then` is done.
async fn enforced<T, F: Future<Output = T>>(
    store: &Arc<dyn Store>,
    no: u32,
    then: impl FnOnce(Handle<TokioRuntime>) -> F,
) -> T {
    let settled = async |handle: Handle<TokioRuntime>| {
        let all = Settle::All(IncarnationNo(no));
        handle.wait_settled(all, SOON).await.unwrap();
        then(handle).await
    };
    enforced_by(store, InMemoryProduction::new(), settled).await
}

/// Runs an enforcer on `store` with `plugin` until `then` is done.
async fn enforced_by<T, F: Future<Output = T>>(
    store: &Arc<dyn Store>,
    plugin: impl AssetPlugin,
    then: impl FnOnce(Handle<TokioRuntime>) -> F,
) -> T {
    let partition = PartitionId::new("test").unwrap();
    let enforcer = Enforcer::builder(TokioRuntime::current(), partition, store.clone())
        .asset_plugin::<testing::Thing>(plugin)
        .build()
        .unwrap();
    let (handle, (stop, stopped)) = (enforcer.handle(), oneshot::channel::<()>());
    let running = tokio::spawn(enforcer.run(async move {
        let _ = stopped.await;
    }));
    let found = then(handle).await;
    drop(stop);
    running.await.unwrap().unwrap();
    found
}

/// The incarnation after `latest`, without one asset.
fn without(latest: &Incarnation, asset: &AssetId) -> Incarnation {
    edited(latest, Vec::new(), std::slice::from_ref(asset))
}

/// The incarnation after `latest`, with the assets `put` and without the assets `gone`.
fn edited(latest: &Incarnation, put: Vec<Asset>, gone: &[AssetId]) -> Incarnation {
    let no = latest.no().next();
    let snapshot = latest.snapshot().edit(no, put, gone);
    let id = IncarnationId::new(latest.id().partition.clone(), no);
    let header = Header::new(id, Some(latest.no()), &snapshot, testing::NOW);
    Incarnation::new(header, snapshot)
}

async fn orphans(handle: Handle<TokioRuntime>) -> Vec<AssetId> {
    handle.status().await.unwrap().orphans
}

#[tokio::test(start_paused = true)]
async fn r15_acknowledged_orphan_is_not_listed_after_a_restart() {
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
    assert_eq!(
        enforced(&store, 3, orphans).await,
        both,
        "both left while no owner ran"
    );
    let left = enforced(&store, 3, async |handle| {
        let by = By::new("me", "seen");
        let word = Command::Acknowledge { asset: a, by };
        handle.tell(word).await.unwrap();
        orphans(handle).await
    });
    assert_eq!(left.await, std::slice::from_ref(&b));
    assert_eq!(
        enforced(&store, 3, orphans).await,
        [b],
        "the other is acknowledged"
    );
}

/// A plugin whose pushes all fail with a very long error.
struct Talkative(InMemoryProduction);

#[async_trait::async_trait]
impl AssetPlugin for Talkative {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.0.diff(request).await
    }

    async fn push(&self, _: PushRequest) -> Result<Pushed, plugin::Error> {
        Err(plugin::Error::permanent("<p>".repeat(700_000)))
    }
}

/// Seals a first incarnation with the one asset `a`.
async fn sealed(store: &Arc<dyn Store>) -> AssetId {
    let first = testing::incarnation(1, [testing::asset("a")]);
    let incarnations = Incarnations::new(store.clone(), first.id().partition.clone());
    incarnations.seal(&first, None, Batch::new()).await.unwrap();
    testing::asset("a").id()
}

#[tokio::test(start_paused = true)]
async fn s9_plugin_with_very_long_errors_stops_no_asset() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let a = sealed(&store).await;
    let explained = enforced_by(
        &store,
        Talkative(InMemoryProduction::new()),
        async |handle| {
            TokioRuntime::current().sleep(SOON).await;
            handle.explain(&a).await.unwrap()
        },
    );
    let said = serde_json::to_string(&explained.await).unwrap();
    assert!(said.contains("<p><p>") && said.len() < 100_000);
}

#[tokio::test(start_paused = true)]
async fn command_with_texts_that_are_too_long_is_refused() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let a = sealed(&store).await;
    let word = |check: usize, why: usize| Command::Override {
        asset: a.clone(),
        change: Digest([0; 32]),
        check: "c".repeat(check).as_str().into(),
        until: None,
        by: By::new("me", "w".repeat(why)),
    };
    enforced(&store, 1, async |handle| {
        // The texts are short enough; the command is refused because the asset has no such change.
        let refused = handle.tell(word(256, 16 << 10)).await;
        assert!(matches!(refused, Err(AskError::Refused { .. })));
        for (check, why) in [(257, 1), (1, (16 << 10) + 1)] {
            let refused = handle.tell(word(check, why)).await;
            assert!(
                matches!(refused, Err(AskError::TooLong { .. })),
                "{refused:?}"
            );
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_unknown_asset_is_an_error() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    sealed(&store).await;
    enforced(&store, 1, async |handle| {
        let typo = Settle::Asset(AssetId::new("typo").unwrap(), IncarnationNo(1));
        let refused = handle.wait_settled(typo, SOON).await;
        assert!(
            matches!(refused, Err(AskError::UnknownAsset { .. })),
            "{refused:?}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r5_pins_to_incarnations_being_removed_are_refused() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let [a, b, c] = ["a", "b", "c"].map(testing::asset);
    let one = testing::incarnation(1, [a.clone()]);
    let two = edited(&one, vec![b], &[]);
    let three = edited(&two, vec![c], &[]);
    let incarnations = Incarnations::new(store.clone(), one.id().partition.clone());
    let mut head = None;
    for next in [&one, &two, &three] {
        let sealed = incarnations.seal(next, head.as_ref(), Batch::new()).await;
        head = Some(sealed.unwrap());
    }
    let pin = |to: &Incarnation| Pin::At(to.clone(), Cause::Intent);
    let old = || BTreeSet::from([one.no(), two.no()]);
    enforced(&store, 3, async |handle| {
        handle.pin(&a.id(), pin(&two)).await.unwrap();
        let free = handle.retire(old()).await.unwrap();
        assert_eq!(free, [one.no()].into(), "the other one is pinned");
        let refused = handle.pin(&a.id(), pin(&one)).await;
        assert!(
            matches!(refused, Err(AskError::Retired { .. })),
            "{refused:?}"
        );

        handle.pin(&a.id(), pin(&three)).await.unwrap();
        let settled = Settle::Asset(a.id(), three.no());
        handle.wait_settled(settled, SOON).await.unwrap();
        assert_eq!(handle.retire(old()).await.unwrap(), old());
        let moves = vec![(a.id(), pin(&two))];
        let step = Actuation {
            moves,
            ..Actuation::default()
        };
        let refused = handle.actuate(step).await.unwrap_err();
        assert!(
            matches!(refused.downcast_ref(), Some(AskError::Retired { .. })),
            "{refused:?}"
        );
    })
    .await;
}
