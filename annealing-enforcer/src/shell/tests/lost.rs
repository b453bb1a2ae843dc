//! Owners that were declared dead, or whose heartbeats fail: they start no call.

use control_plane_store::owner;
use tokio::time::Instant;

use super::*;
use crate::{
    Config,
    kernel::Event,
    shell::{TERM, pulse::Pulse},
};

/// A plugin that notes the times of its calls.
#[derive(Clone, Default)]
struct Looked {
    production: Arc<InMemoryProduction>,
    at: Arc<std::sync::Mutex<Vec<Instant>>>,
}

impl Looked {
    fn since(&self, then: Instant) -> usize {
        let at = self.at.lock().unwrap();
        at.iter().filter(|at| **at > then).count()
    }
}

#[async_trait::async_trait]
impl AssetPlugin for Looked {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.at.lock().unwrap().push(Instant::now());
        self.production.diff(request).await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.at.lock().unwrap().push(Instant::now());
        self.production.push(request).await
    }
}

/// Starts an owner that diffs its asset every second.
async fn owner_of(store: &MemoryStore, plugin: Looked) -> tokio::task::JoinHandle<()> {
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    sealed(&shared).await;
    let config = Config::default().drift_period(Duration::from_secs(1));
    let enforcer = Enforcer::builder(TokioRuntime::current(), "test".parse().unwrap(), shared)
        .asset_plugin::<testing::Thing>(plugin)
        .config(config)
        .process_id("one".into())
        .build()
        .unwrap();
    tokio::spawn(async {
        enforcer.run(std::future::pending()).await.unwrap();
    })
}

#[tokio::test(start_paused = true)]
async fn s5_an_owner_that_was_declared_dead_starts_nothing() {
    let (store, plugin) = (MemoryStore::new(), Looked::default());
    let running = owner_of(&store, plugin.clone()).await;
    let runtime = TokioRuntime::current();
    runtime.sleep(TERM * 2).await;
    assert!(plugin.since(Instant::now() - TERM) > 3, "it diffs");
    // The commit of another process that takes over.
    let partition = "test".parse().unwrap();
    let takeover = Batch::new()
        .put("process/another", "{}")
        .put(owner::key(&partition), r#"{"process":"another"}"#)
        .delete("process/one");
    store.commit(takeover).await.unwrap();
    // Its next heartbeat notices that. The other process counts as alive for a term from its first heartbeat.
    runtime.sleep(TERM / 3 + TERM / 15).await;
    let told = Instant::now();
    runtime.sleep(TERM / 2).await;
    assert_eq!(plugin.since(told), 0);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn s5_owner_without_heartbeats_starts_nothing_after_its_lease() {
    let (store, plugin) = (MemoryStore::new(), Looked::default());
    let running = owner_of(&store, plugin.clone()).await;
    let runtime = TokioRuntime::current();
    runtime.sleep(TERM * 2).await;
    store.set_pause(|_| Box::pin(std::future::pending()));
    runtime.sleep(TERM * 2 / 3 + TERM / 15).await;
    let ended = Instant::now();
    runtime.sleep(TERM * 4).await;
    assert_eq!(plugin.since(ended), 0);
    running.abort();
}

/// The inputs that the enforcer of process `one` gets while another process declares `one` dead.
#[tokio::test(start_paused = true)]
async fn s5_process_declared_dead_loses_its_partitions_before_its_next_lease() {
    let store = MemoryStore::new();
    let (runtime, shared) = (TokioRuntime::current(), Arc::new(store.clone()));
    let member = ProcessLease::join(runtime.clone(), shared, "one".into(), TERM);
    let partition: PartitionId = "test".parse().unwrap();
    runtime.sleep(TERM / 15).await;
    let acquired = member.acquire(&partition).await.unwrap();
    assert!(matches!(acquired, owner::Acquire::Acquired { .. }));
    let (events, mut heard) = futures::channel::mpsc::unbounded();
    member.enrol(&partition, events, Pulse::default());
    let lease = member.lease_until().await;
    let dead = Batch::new().delete("process/one");
    store.commit(dead).await.unwrap();
    runtime.sleep(TERM / 3 + TERM / 15).await;
    assert!(
        runtime.now().mono < lease,
        "the old lease has not ended by itself"
    );
    let lost = loop {
        match heard.try_recv() {
            Ok(Input::Lost) => break true,
            // From a heartbeat before the other process declared this one dead.
            Ok(Input::Kernel(Event::Renewed(until))) if until <= lease => {}
            Ok(_) | Err(_) => break false,
        }
    };
    assert!(lost, "the loss arrives before the next lease");
}
