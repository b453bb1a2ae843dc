//! The world of a test: a strategist with its toy enforcer, in virtual time, and the assets that it begins with.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use annealing_strategist::{Attached, By, Handle, State, Strategist, StrategistBuilder, View};
use control_plane_runtime::{Runtime, TokioRuntime};
use control_plane_store::{MemoryStore, Store, incarnations::Incarnations};
use futures::{StreamExt, channel::mpsc};
use plugin_sdk::{Cause, Pin, testing};
use prodspec_model::{
    Asset, AssetId, AssetRef, Digest, IncarnationNo, PartitionId,
    addons::RolloutPolicyRef,
    rollout::{Canary, RolloutPolicy},
};

use crate::toy::{Toy, seal};

pub(crate) const P: &str = "policy/p";
pub(crate) const Q: &str = "policy/q";
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Lets virtual time pass.
pub(crate) async fn passes(time: Duration) {
    TokioRuntime::current().sleep(time).await;
}

pub(crate) fn id(text: &str) -> AssetId {
    AssetId::new(text).unwrap()
}

pub(crate) fn thing(policy: Option<&str>, name: &str, content: &str) -> Asset {
    let content = content.to_owned();
    let asset = testing::asset(name).edit();
    let asset = asset.payload(&testing::Thing { content }).unwrap();
    let asset = match policy {
        Some(policy) => asset.addon(&RolloutPolicyRef {
            policy: AssetRef::to(id(policy)),
        }),
        None => Ok(asset),
    };
    asset.unwrap().build().unwrap()
}

pub(crate) fn policy(name: &str, policy: &RolloutPolicy) -> Asset {
    let asset = Asset::builder(id(name)).payload(policy).unwrap();
    asset.build().unwrap()
}

pub(crate) fn canary() -> RolloutPolicy {
    let canary = Canary {
        count: 1,
        bake_secs: 600,
    };
    RolloutPolicy {
        canary: Some(canary),
        ..RolloutPolicy::default()
    }
}

pub(crate) struct World {
    pub toy: Arc<Toy>,
    pub strategist: Arc<Strategist<TokioRuntime>>,
    pub handle: Handle<TokioRuntime>,
    pub running: tokio::task::JoinHandle<()>,
}

impl World {
    pub(crate) async fn new(assets: Vec<Asset>) -> Self {
        Self::with(assets, |builder| builder).await
    }

    pub(crate) async fn with(
        assets: Vec<Asset>,
        built: impl FnOnce(StrategistBuilder<TokioRuntime>) -> StrategistBuilder<TokioRuntime>,
    ) -> Self {
        let world = Self::start(assets, built).await;
        passes(HOUR).await;
        world
    }

    pub(crate) async fn start(
        assets: Vec<Asset>,
        built: impl FnOnce(StrategistBuilder<TokioRuntime>) -> StrategistBuilder<TokioRuntime>,
    ) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let partition: PartitionId = "test".parse().unwrap();
        let incarnations = Arc::new(Incarnations::new(store.clone(), partition.clone()));
        let toy = Arc::new(Toy {
            partition: partition.clone(),
            store: store.clone(),
            incarnations: incarnations.clone(),
            state: Mutex::default(),
        });
        seal(&toy, assets, &[]).await;
        let runtime = TokioRuntime::current();
        let builder = Strategist::builder(runtime, partition, store, incarnations);
        let strategist = built(builder).build();
        let (attached, handle) = strategist.attach(toy.clone());
        let running = tokio::spawn(Attached::run(attached));
        Self {
            toy,
            strategist,
            handle,
            running,
        }
    }

    pub(crate) async fn put(&self, assets: Vec<Asset>) {
        self.edit(assets, &[]).await;
    }

    pub(crate) async fn edit(&self, assets: Vec<Asset>, gone: &[&str]) {
        seal(&self.toy, assets, gone).await;
        passes(Duration::from_secs(1)).await;
    }

    /// Ends the ownership and begins the next one.
    pub(crate) async fn take_over(&mut self) {
        self.running.abort();
        let _ = (&mut self.running).await;
        let (attached, handle) = self.strategist.attach(self.toy.clone());
        self.handle = handle;
        self.running = tokio::spawn(attached.run());
        passes(Duration::from_secs(1)).await;
    }

    pub(crate) async fn view(&self, policy: &str) -> View {
        let views = self.handle.views().await.unwrap();
        let ours = views.into_iter().find(|view| view.policy == id(policy));
        ours.unwrap()
    }

    pub(crate) async fn state(&self, policy: &str) -> State {
        self.view(policy).await.rollout.unwrap().state
    }

    /// Waits until user code has been called, and then until the view of the group contains `text`.
    pub(crate) async fn shows(&self, called: &mut mpsc::UnboundedReceiver<()>, text: &str) {
        called.next().await.unwrap();
        while !format!("{:?}", self.view(P).await).contains(text) {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn pin(&self, name: &str) -> Option<Pin> {
        self.toy.state.lock().unwrap().pins.get(&id(name)).copied()
    }

    pub(crate) fn content(&self, name: &str) -> Option<Digest> {
        self.toy.state.lock().unwrap().content(&id(name))
    }
}

pub(crate) fn at(no: u32) -> Option<Pin> {
    Some(Pin::At(IncarnationNo(no), Cause::Intent))
}

pub(crate) fn by() -> By {
    By {
        who: "me".into(),
        why: "seen".into(),
    }
}

pub(crate) fn two_groups(content: &str) -> Vec<Asset> {
    vec![
        thing(Some(P), "a", content),
        thing(Some(P), "b", content),
        thing(Some(Q), "x", content),
        thing(Some(Q), "y", content),
        policy(P, &canary()),
        policy(Q, &RolloutPolicy::default()),
    ]
}
