//! Shutting down while pushes are under way, in virtual time.

use std::sync::Mutex;

use control_plane_store::{
    owner, record,
    records::{AssetRecord, Stopped},
};
use tokio::{sync::mpsc, time::Instant};

use super::*;
use crate::Plugin;

/// A plugin with slow pushes.
#[derive(Clone)]
struct Slow {
    production: Arc<InMemoryProduction>,
    takes: Duration,
    /// Number of calls that are still to answer `InProgress` before a push is done.
    in_progress: Arc<Mutex<u32>>,
    began: mpsc::UnboundedSender<AssetId>,
    calls: Arc<Mutex<Vec<(&'static str, AssetId)>>>,
}

impl Slow {
    fn new(takes: Duration, in_progress: u32) -> (Self, mpsc::UnboundedReceiver<AssetId>) {
        let (began, told) = mpsc::unbounded_channel();
        let plugin = Self {
            production: Arc::default(),
            takes,
            in_progress: Arc::new(Mutex::new(in_progress)),
            began,
            calls: Arc::default(),
        };
        (plugin, told)
    }

    fn calls(&self, of: &str) -> Vec<&'static str> {
        let calls = self.calls.lock().unwrap();
        let of = calls.iter().filter(|(_, asset)| asset.as_str() == of);
        of.map(|(call, _)| *call).collect()
    }

    fn note(&self, call: &'static str, asset: &AssetId) {
        self.calls.lock().unwrap().push((call, asset.clone()));
    }
}

#[async_trait::async_trait]
impl AssetPlugin for Slow {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.note("diff", request.asset_id());
        self.production.diff(request).await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.note("push", request.asset_id());
        let _ = self.began.send(request.asset_id().clone());
        TokioRuntime::current().sleep(self.takes).await;
        let more = {
            let mut left = self.in_progress.lock().unwrap();
            let more = *left;
            *left = more.saturating_sub(1);
            more
        };
        match more {
            0 => self.production.push(request).await,
            _ => Ok(Pushed::InProgress {
                check_again_in: Duration::from_secs(2),
            }),
        }
    }
}

const ASSETS: [&str; 2] = ["a", "b"];

/// Enforces two assets, one push at a time, and shuts down when the first push has begun. Returns how long that took.
async fn shut_down(store: &Arc<dyn Store>, plugin: &Slow) -> Duration {
    shut_down_while(store, plugin, |_| std::future::ready(())).await
}

/// As `shut_down`; runs `then` while the enforcer waits for the first push.
async fn shut_down_while<F: Future<Output = ()>>(
    store: &Arc<dyn Store>,
    plugin: &Slow,
    then: impl FnOnce(Handle<TokioRuntime>) -> F,
) -> Duration {
    let (began, mut told) = mpsc::unbounded_channel();
    let plugin = Slow {
        began,
        ..plugin.clone()
    };
    let one_at_a_time = Plugin::new(plugin).adjust(|config| config.pushes = 1);
    let partition = PartitionId::new("test").unwrap();
    let enforcer = Enforcer::builder(TokioRuntime::current(), partition, store.clone())
        .asset_plugin::<testing::Thing>(one_at_a_time)
        .process_id("one".into())
        .build()
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let handle = enforcer.handle();
    // Like the future of a signal, it must not be polled again once it has completed.
    let running = tokio::spawn(enforcer.run(async move {
        let _ = stopped.await;
    }));
    told.recv().await.unwrap();
    let asked = Instant::now();
    drop(stop);
    TokioRuntime::current().sleep(Duration::from_secs(1)).await;
    then(handle).await;
    running.await.unwrap().unwrap();
    asked.elapsed()
}

async fn store() -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    seal(&store).await;
    store
}

async fn seal(store: &Arc<dyn Store>) {
    let first = testing::incarnation(1, ASSETS.map(testing::asset));
    let incarnations = Incarnations::new(store.clone(), first.id().partition.clone());
    incarnations.seal(&first, None, Batch::new()).await.unwrap();
}

async fn is_open(store: &Arc<dyn Store>, asset: &str) -> bool {
    let partition = PartitionId::new("test").unwrap();
    let known = record::load::<AssetRecord>(&**store, &partition, asset).await;
    known
        .unwrap()
        .is_some_and(|known| known.value.open.is_some())
}

#[tokio::test(start_paused = true)]
async fn r13_a_push_under_way_ends_and_is_recorded_before_ownership_is_given_up() {
    let store = store().await;
    let (plugin, _told) = Slow::new(Duration::from_secs(20), 0);
    let took = shut_down(&store, &plugin).await;
    assert!(
        took >= Duration::from_secs(20) && took < Duration::from_secs(21),
        "{took:?}"
    );
    let pushed = ASSETS
        .iter()
        .filter(|asset| plugin.calls(asset).contains(&"push"));
    assert_eq!(pushed.count(), 1, "no new push starts");
    for asset in ASSETS {
        assert!(!is_open(&store, asset).await, "{asset}");
        let calls = plugin.calls(asset);
        let diffs = calls.iter().filter(|call| **call == "diff").count();
        assert_eq!(diffs, 1, "{asset}");
    }
    // The next owner pushes only the other asset.
    enforced_by(&store, plugin.clone(), async |handle| {
        let all = Settle::All(IncarnationNo(1));
        handle.wait_settled(all, SOON).await.unwrap();
    })
    .await;
    for asset in ASSETS {
        let calls = plugin.calls(asset);
        let pushes = calls.iter().filter(|call| **call == "push").count();
        assert_eq!(pushes, 1, "{asset}");
    }
}

#[tokio::test(start_paused = true)]
async fn r14_push_in_progress_is_continued_while_shutting_down() {
    let store = store().await;
    let (plugin, _told) = Slow::new(Duration::from_secs(1), 2);
    let took = shut_down(&store, &plugin).await;
    assert!(
        took >= Duration::from_secs(7) && took < Duration::from_secs(8),
        "{took:?}"
    );
    for asset in ASSETS {
        assert!(!is_open(&store, asset).await, "{asset}");
    }
}

#[tokio::test(start_paused = true)]
async fn push_longer_than_the_drain_is_left_to_the_next_owner() {
    let store = store().await;
    let (plugin, _told) = Slow::new(Duration::from_secs(500), 0);
    let took = shut_down(&store, &plugin).await;
    assert!(
        took >= Duration::from_secs(30) && took < Duration::from_secs(31),
        "{took:?}"
    );
    let mut open = 0;
    for asset in ASSETS {
        open += u32::from(is_open(&store, asset).await);
    }
    assert_eq!(open, 1);
}

#[tokio::test(start_paused = true)]
async fn s5_ownership_lost_while_shutting_down_is_not_acquired_again() {
    let store = store().await;
    let (plugin, _told) = Slow::new(Duration::from_secs(20), 0);
    let taken = store.clone();
    let took = shut_down_while(&store, &plugin, async |_| {
        let partition = PartitionId::new("test").unwrap();
        let takeover = Batch::new()
            .put("process/another", "{}")
            .put(owner::key(&partition), r#"{"process":"another"}"#)
            .delete("process/one");
        taken.commit(takeover).await.unwrap();
    });
    let took = took.await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    let key = owner::key(&PartitionId::new("test").unwrap());
    let owner = store.get(&[key]).await.unwrap().remove(0).unwrap();
    assert!(String::from_utf8_lossy(&owner.value).contains("another"));
}

#[tokio::test(start_paused = true)]
async fn violation_while_shutting_down_is_durable() {
    let memory = MemoryStore::new();
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    seal(&store).await;
    let (plugin, _told) = Slow::new(Duration::from_secs(20), 0);
    let took = shut_down_while(&store, &plugin, async |handle| {
        memory.set_pause(|_| Box::pin(TokioRuntime::current().sleep(Duration::from_secs(1))));
        let breaks = Input::Kernel(crate::kernel::Event::Break);
        handle.inputs.unbounded_send(breaks).unwrap();
    });
    let took = took.await;
    assert!(took < Duration::from_secs(20), "{took:?}");
    memory.set_pause(|_| Box::pin(std::future::ready(())));
    let partition = PartitionId::new("test").unwrap();
    let stopped = record::load::<Stopped>(&*store, &partition, "").await;
    assert!(stopped.unwrap().is_some_and(|it| it.value.holds()));
}
