//! Calls of users' code beside the loop: calls that block, calls that queue too long, and the heartbeat meanwhile.

use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use control_plane_runtime::TokioRuntime;
use futures::{FutureExt, future::BoxFuture};
use plugin_sdk::{
    BoxError, CheckInfo, CheckPlugin, CheckRequest, Mono, Now, Verdict, service::CheckLayer,
};
use tokio::sync::mpsc;

use super::*;
use crate::{Plugin, shell::ProcessLease};

/// Maximum time of a test: one that takes longer hangs.
const HANGS: Duration = Duration::from_secs(120);

/// The kind of call that blocks its thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Diff,
    Check,
    Push,
}

/// A plugin and a check whose calls of one kind, for some assets, block their thread until `let_go` is called.
#[derive(Clone)]
struct Blocking {
    production: Arc<InMemoryProduction>,
    at: Stage,
    blocks: Vec<AssetId>,
    free: Arc<(Mutex<bool>, Condvar)>,
    entered: mpsc::UnboundedSender<AssetId>,
}

impl Blocking {
    fn new(blocks: &[&str]) -> (Self, mpsc::UnboundedReceiver<AssetId>) {
        Self::in_calls_of(Stage::Diff, blocks)
    }

    fn in_calls_of(at: Stage, blocks: &[&str]) -> (Self, mpsc::UnboundedReceiver<AssetId>) {
        let (entered, told) = mpsc::unbounded_channel();
        let plugin = Self {
            production: Arc::default(),
            at,
            blocks: blocks
                .iter()
                .map(|name| testing::asset(name).id())
                .collect(),
            free: Arc::default(),
            entered,
        };
        (plugin, told)
    }

    /// Blocks the calling thread if calls of this kind for this asset do.
    fn block(&self, at: Stage, asset: &AssetId) {
        if self.at == at && self.blocks.contains(asset) {
            let _ = self.entered.send(asset.clone());
            let mut free = self.free.0.lock().unwrap();
            while !*free {
                free = self.free.1.wait(free).unwrap();
            }
        }
    }

    fn let_go(&self) {
        *self.free.0.lock().unwrap() = true;
        self.free.1.notify_all();
    }
}

#[async_trait::async_trait]
impl AssetPlugin for Blocking {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.block(Stage::Diff, request.asset_id());
        self.production.diff(request).await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.block(Stage::Push, request.asset_id());
        self.production.push(request).await
    }
}

#[async_trait::async_trait]
impl CheckPlugin for Blocking {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("blocking")
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        self.block(Stage::Check, request.asset_id());
        Ok(request.proceed())
    }
}

/// Seals the first incarnation of a partition, with assets of these names.
pub(super) async fn sealed_in(
    store: &Arc<dyn Store>,
    partition: &str,
    names: &[&str],
) -> PartitionId {
    let partition: PartitionId = partition.parse().unwrap();
    let first = testing::incarnation(1, names.iter().map(|name| testing::asset(name)));
    let id = IncarnationId::new(partition.clone(), first.no());
    let snapshot = first.snapshot().clone();
    let first = Incarnation::new(Header::new(id, None, &snapshot, testing::NOW), snapshot);
    let incarnations = Incarnations::new(store.clone(), partition.clone());
    incarnations.seal(&first, None, Batch::new()).await.unwrap();
    partition
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s9_diffs_that_block_their_threads_stop_no_other_asset() {
    stops_no_other_asset(Stage::Diff).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s9_checks_that_block_their_threads_stop_no_other_asset() {
    stops_no_other_asset(Stage::Check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s9_pushes_that_block_their_threads_stop_no_other_asset() {
    stops_no_other_asset(Stage::Push).await;
}

/// The calls of three assets block three threads; the fourth asset settles meanwhile.
async fn stops_no_other_asset(at: Stage) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let partition = sealed_in(&store, "test", &["a", "b", "c", "d"]).await;
    let (plugin, mut entered) = Blocking::in_calls_of(at, &["a", "b", "c"]);
    let check = plugin.clone();
    let enforcer = Enforcer::builder(TokioRuntime::current(), partition, store)
        .asset_plugin::<testing::Thing>(plugin.clone())
        .checks(|base| {
            tower::ServiceBuilder::new()
                .layer(CheckLayer::new(check))
                .service(base)
        })
        .build()
        .unwrap();
    let (handle, (stop, stopped)) = (enforcer.handle(), oneshot::channel::<()>());
    let running = tokio::spawn(enforcer.run(stopped.map(|_| ())));
    let test = async {
        for _ in 0..3 {
            entered.recv().await.unwrap();
        }
        let other = Settle::Asset(testing::asset("d").id(), IncarnationNo(1));
        handle.wait_settled(other, HANGS).await.unwrap();
        assert_eq!(handle.status().await.unwrap().unsettled, 3);
        plugin.let_go();
        let all = Settle::All(IncarnationNo(1));
        handle.wait_settled(all, HANGS).await.unwrap();
    };
    let in_time = tokio::time::timeout(HANGS, test).await;
    plugin.let_go();
    assert!(in_time.is_ok(), "a blocking call stops the partition");
    drop(stop);
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diff_that_blocks_its_thread_is_reported_at_its_deadline() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let partition = sealed_in(&store, "test", &["a"]).await;
    let (plugin, mut entered) = Blocking::new(&["a"]);
    let registered = Plugin::new(plugin.clone())
        .adjust(|config| config.diff_deadline = Duration::from_millis(50));
    let enforcer = Enforcer::builder(TokioRuntime::current(), partition, store)
        .asset_plugin::<testing::Thing>(registered)
        .build()
        .unwrap();
    let handle = enforcer.handle();
    let running = tokio::spawn(enforcer.run(std::future::pending()));
    entered.recv().await.unwrap();
    let a = testing::asset("a").id();
    let told = async {
        loop {
            let said = handle.explain(&a).await.unwrap();
            let said = serde_json::to_string(&said.chain).unwrap();
            if said.contains("passed its deadline") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let in_time = tokio::time::timeout(HANGS, told).await;
    plugin.let_go();
    assert!(in_time.is_ok());
    running.abort();
}

/// A runtime that holds the `nth` call back until `let_go` is called.
#[derive(Clone)]
struct Queues {
    real: TokioRuntime,
    nth: usize,
    calls: Arc<AtomicUsize>,
    kept: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
}

impl Queues {
    fn new(nth: usize) -> Self {
        Self {
            real: TokioRuntime::current(),
            nth,
            calls: Arc::default(),
            kept: Arc::default(),
        }
    }

    fn let_go(&self) {
        let kept = self.kept.lock().unwrap().take();
        self.real.spawn(kept.expect("a call is kept"));
    }
}

impl Runtime for Queues {
    fn now(&self) -> Now {
        self.real.now()
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()> {
        self.real.sleep_until(at)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.real.spawn(task);
    }

    fn spawn_call(&self, call: BoxFuture<'static, ()>) {
        if self.calls.fetch_add(1, Ordering::SeqCst) == self.nth {
            *self.kept.lock().unwrap() = Some(call);
        } else {
            self.real.spawn(call);
        }
    }
}

/// A plugin that notes the times of its calls.
#[derive(Clone)]
struct Timed {
    production: Arc<InMemoryProduction>,
    calls: Arc<Mutex<Vec<(&'static str, tokio::time::Instant)>>>,
    pushes: Arc<AtomicU32>,
}

impl Timed {
    fn new() -> Self {
        Self {
            production: Arc::default(),
            calls: Arc::default(),
            pushes: Arc::default(),
        }
    }

    fn note(&self, call: &'static str) {
        let now = tokio::time::Instant::now();
        self.calls.lock().unwrap().push((call, now));
    }
}

#[async_trait::async_trait]
impl AssetPlugin for Timed {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.note("diff");
        self.production.diff(request).await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.note("push");
        self.pushes.fetch_add(1, Ordering::SeqCst);
        self.production.push(request).await
    }
}

/// The index of the push among the calls, after a diff and a check.
const PUSH: usize = 2;

#[tokio::test(start_paused = true)]
async fn r10_push_queued_beyond_the_age_of_its_evidence_does_not_begin() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let partition = sealed_in(&store, "test", &["a"]).await;
    let (runtime, plugin) = (Queues::new(PUSH), Timed::new());
    let enforcer = Enforcer::builder(runtime.clone(), partition, store)
        .asset_plugin::<testing::Thing>(plugin.clone())
        .build()
        .unwrap();
    let handle = enforcer.handle();
    let running = tokio::spawn(enforcer.run(std::future::pending()));
    runtime.sleep(Duration::from_secs(61)).await;
    assert_eq!(plugin.pushes.load(Ordering::SeqCst), 0);
    runtime.let_go();
    let all = Settle::All(IncarnationNo(1));
    handle.wait_settled(all, SOON).await.unwrap();
    let calls = plugin.calls.lock().unwrap().clone();
    let names: Vec<_> = calls.iter().map(|(call, _)| *call).collect();
    assert_eq!(names, ["diff", "diff", "push", "diff"]);
    let age = calls[2].1 - calls[1].1;
    assert!(age < SOON, "the evidence was {age:?} old");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn s5_push_queued_beyond_the_lease_does_not_begin() {
    let store = MemoryStore::new();
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let partition = sealed_in(&shared, "test", &["a"]).await;
    let (runtime, plugin) = (Queues::new(PUSH), Timed::new());
    let enforcer = Enforcer::builder(runtime.clone(), partition, shared)
        .asset_plugin::<testing::Thing>(plugin.clone())
        .build()
        .unwrap();
    let running = tokio::spawn(enforcer.run(std::future::pending()));
    runtime.sleep(Duration::from_secs(1)).await;
    // The store answers no heartbeat from now on.
    store.set_pause(|_| Box::pin(std::future::pending()));
    runtime.sleep(super::super::TERM).await;
    runtime.let_go();
    runtime.sleep(Duration::from_secs(1)).await;
    assert_eq!(plugin.pushes.load(Ordering::SeqCst), 0);
    running.abort();
}

/// Two partitions of one process; in the first, a plugin that is declared to answer from memory blocks the loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s9_loop_that_does_not_answer_loses_only_its_own_partition() {
    let term = Duration::from_millis(300);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let one = sealed_in(&store, "one", &["a"]).await;
    let two = sealed_in(&store, "two", &["a"]).await;
    let (plugin, mut entered) = Blocking::new(&["a"]);
    let runtime = TokioRuntime::current();
    let member = ProcessLease::join(runtime.clone(), store.clone(), "p".into(), term);
    let enforcer = |partition: &PartitionId, plugin: Plugin| {
        Enforcer::builder(runtime.clone(), partition.clone(), store.clone())
            .asset_plugin::<testing::Thing>(plugin)
            .lease_term(term)
    };
    let stuck = enforcer(&one, Plugin::new(plugin.clone()).in_memory());
    let well = enforcer(&two, Plugin::new(InMemoryProduction::new()));
    let well = well.process_lease(member.clone()).build().unwrap();
    let handle = well.handle();
    let mut running = vec![tokio::spawn(well.run(std::future::pending()))];
    let all = Settle::All(IncarnationNo(1));
    handle.wait_settled(all, HANGS).await.unwrap();
    let stuck = stuck.process_lease(member.clone()).build().unwrap();
    drop(member);
    running.push(tokio::spawn(stuck.run(std::future::pending())));
    entered.recv().await.unwrap();

    let (tell, mut owned) = mpsc::unbounded_channel();
    for partition in [&one, &two] {
        let (tell, id) = (tell.clone(), partition.clone());
        let other = enforcer(partition, Plugin::new(InMemoryProduction::new()));
        let other = other.while_owner(move |_, _| {
            let _ = tell.send(id.clone());
            std::future::pending()
        });
        let other = other.build().unwrap();
        running.push(tokio::spawn(other.run(std::future::pending())));
    }
    let taken = tokio::time::timeout(HANGS, owned.recv()).await;
    let answers = handle.status().await;
    plugin.let_go();
    running.iter().for_each(tokio::task::JoinHandle::abort);
    assert_eq!(
        taken.expect("the silent loop keeps its partition"),
        Some(one)
    );
    assert!(answers.is_ok(), "the other loop goes on");
}

/// A plugin whose first diff never ends, or panics. The others find nothing to do.
#[derive(Clone)]
struct First {
    diffs: Arc<AtomicU32>,
    panics: bool,
}

#[async_trait::async_trait]
impl AssetPlugin for First {
    async fn diff(&self, _: DiffRequest) -> Result<Diff, plugin::Error> {
        if self.diffs.fetch_add(1, Ordering::SeqCst) == 0 {
            assert!(!self.panics, "on purpose");
            return std::future::pending().await;
        }
        Ok(Diff::in_sync())
    }

    async fn push(&self, _: PushRequest) -> Result<Pushed, plugin::Error> {
        panic!("nothing differs")
    }
}

#[tokio::test(start_paused = true)]
async fn diff_in_place_that_is_not_ready_or_panics_is_made_again() {
    for panics in [false, true] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let partition = sealed_in(&store, "one", &["a"]).await;
        let diffs = Arc::default();
        let plugin = First { diffs, panics };
        let runtime = TokioRuntime::current();
        let enforcer = Enforcer::builder(runtime, partition, store)
            .asset_plugin::<testing::Thing>(Plugin::new(plugin.clone()).in_memory())
            .build()
            .unwrap();
        let handle = enforcer.handle();
        let running = tokio::spawn(enforcer.run(std::future::pending()));
        let all = Settle::All(IncarnationNo(1));
        handle.wait_settled(all, HANGS).await.unwrap();
        assert_eq!(plugin.diffs.load(Ordering::SeqCst), 2, "panics: {panics}");
        running.abort();
    }
}
