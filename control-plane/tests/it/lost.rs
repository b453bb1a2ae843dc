//! The store is lost or fails.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use control_plane::{
    prelude::*,
    runtime::{Runtime, TokioRuntime},
    sdk::{FencingToken, testing::InMemoryProduction, with_causes},
    store::{Batch, Version, memory::Fault},
};
use futures::FutureExt;

use crate::world::{LONG, Model, Production, Running, Service, Text, ann, id, plane};

/// A production that remembers the newest token and refuses older ones.
#[derive(Clone, Default)]
struct Guarded {
    production: Production,
    seen: Arc<Mutex<FencingToken>>,
}

impl Guarded {
    fn admit(&self, token: FencingToken) -> Result<(), plugin::Error> {
        let mut seen = self.seen.lock().unwrap();
        if token < *seen {
            return Err(plugin::Error::fenced_by("an older owner", *seen));
        }
        *seen = token;
        Ok(())
    }
}

#[async_trait]
impl AssetPlugin for Guarded {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.admit(request.token)?;
        self.production.diff(request).await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.admit(request.token)?;
        self.production.push(request).await
    }
}

fn guarded(production: &Guarded, store: &MemoryStore, text: &Text) -> Running {
    let plane = ControlPlane::builder("world")
        .generator(Model)
        .asset_plugin::<Service>(Plugin::new(production.clone()).guarded())
        .modelled_only::<crate::world::Group>()
        .store(store.clone())
        .source(text.clone())
        .build();
    Running::start(plane.unwrap())
}

#[tokio::test(start_paused = true)]
async fn s5_after_a_lost_store_tokens_are_above_those_production_has_seen() {
    let (production, store) = (Guarded::default(), MemoryStore::new());
    let text = Text::new("services: {eu: {size: 1}, us: {size: 1}}");
    let worn = Batch::new().above(Version(1_000_000));
    store.commit(worn).await.unwrap();
    let first = guarded(&production, &store, &text);
    first.handle.settle(LONG).await.unwrap();
    first.stop().await;
    let seen = *production.seen.lock().unwrap();
    assert!(seen > FencingToken(1_000_000));

    text.edit("services: {eu: {size: 2}, us: {size: 1}}");
    let second = guarded(&production, &MemoryStore::new(), &text);
    second.handle.settle(LONG).await.unwrap();
    assert_eq!(production.production.size("eu"), Some(2));
    assert!(*production.seen.lock().unwrap() > seen);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn s5_a_restored_store_does_not_reuse_an_earlier_token() {
    let production = InMemoryProduction::new();
    let text = Text::new("services: {eu: {size: 1}, us: {size: 1}}");
    let start = |store: MemoryStore| {
        let plane = ControlPlane::builder("world")
            .generator(Model)
            .asset_plugin::<Service>(Plugin::new(production.clone()).guarded())
            .modelled_only::<crate::world::Group>()
            .store(store)
            .source(text.clone());
        Running::start(plane.build().unwrap())
    };
    // The first owner makes many calls under its token; the second store gives out the same token.
    let first = start(MemoryStore::new());
    first.handle.settle(LONG).await.unwrap();
    let eu = id("eu");
    for _ in 0..100 {
        first.handle.look_now(&eu, ann()).await.unwrap();
        TokioRuntime::current().sleep(Duration::from_secs(1)).await;
    }
    first.stop().await;
    text.edit("services: {eu: {size: 2}, us: {size: 1}}");
    let second = start(MemoryStore::new());
    second.handle.settle(LONG).await.unwrap();
    let there = production.payload(&eu);
    assert_eq!(there.as_deref(), Some(r#"{"size":2}"#));
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r5_a_poisoned_store_ends_run_of_owner_and_waiting_processes_with_its_cause() {
    let (store, production) = (MemoryStore::new(), Production::default());
    let text = Text::new("services: {eu: {size: 1}}");
    let build = |name: &str| {
        let plane = plane(&production).store(store.clone()).source(text.clone());
        plane.process_id(name.into()).build().unwrap()
    };
    let owner = build("one");
    let handle = owner.handle();
    let owner = tokio::spawn(owner.run(futures::future::pending()));
    handle.settle(LONG).await.unwrap();
    let waits = tokio::spawn(build("two").run(futures::future::pending()));
    TokioRuntime::current().sleep(Duration::from_secs(30)).await;
    assert!(!owner.is_finished() && !waits.is_finished());

    // Everything is settled, so only heartbeats are written.
    store.inject(Fault::Poison { kept: false });
    for running in [owner, waits] {
        let ended = tokio::time::timeout(LONG, running.map(Result::unwrap));
        let error = ended.await.unwrap().unwrap_err();
        let said = with_causes(&error);
        let cause = ["injected", "syncing failed"]
            .iter()
            .any(|cause| said.contains(cause));
        assert!(said.contains("medium failed") && cause, "{said}");
    }
}
