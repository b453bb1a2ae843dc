//! Callers that wait until assets are settled: which of them a change looks at, and which answer they get.

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::*;
use crate::kernel::STANDINGS;

/// Number of assets, and of callers.
const MANY: usize = 200;

/// A plugin that finds assets in sync once they are in the set, and in progress before.
#[derive(Clone, Default)]
struct Ready(Arc<std::sync::Mutex<BTreeSet<AssetId>>>);

impl Ready {
    fn add(&self, asset: &AssetId) {
        self.0.lock().unwrap().insert(asset.clone());
    }
}

#[async_trait::async_trait]
impl AssetPlugin for Ready {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?.id();
        Ok(match self.0.lock().unwrap().contains(&asset) {
            true => Diff::in_sync(),
            false => Diff::InProgress {
                check_again_in: SOON * 10,
            },
        })
    }

    async fn push(&self, _: PushRequest) -> Result<Pushed, plugin::Error> {
        Ok(Pushed::Done)
    }
}

fn name(at: usize) -> AssetId {
    testing::asset(&format!("a{at:03}")).id()
}

type Waiting = FuturesUnordered<BoxFuture<'static, (AssetId, Result<(), AskError>)>>;

/// Lets a caller wait for `asset` at `no`.
fn wait(handle: &Handle<TokioRuntime>, asset: AssetId, no: u32, within: Duration) -> Waiting {
    let handle = handle.clone();
    let what = Settle::Asset(asset.clone(), IncarnationNo(no));
    let waiting = async move { (asset, handle.wait_settled(what, within).await) };
    [waiting.boxed()].into_iter().collect()
}

async fn look(handle: &Handle<TokioRuntime>, asset: AssetId) {
    let by = By::new("me", "seen");
    handle.tell(Command::LookNow { asset, by }).await.unwrap();
}

async fn seal_many(store: &Arc<dyn Store>) -> Incarnation {
    let assets = (0..MANY).map(|at| testing::asset(name(at).as_str()));
    let first = testing::incarnation(1, assets);
    let incarnations = Incarnations::new(store.clone(), first.id().partition.clone());
    incarnations.seal(&first, None, Batch::new()).await.unwrap();
    first
}

#[tokio::test(start_paused = true)]
async fn change_of_one_asset_looks_at_the_callers_of_that_asset_only() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    seal_many(&store).await;
    let ready = Ready::default();
    enforced_by(&store, ready.clone(), async |handle| {
        TokioRuntime::current().sleep(SOON).await;
        let each = |at| wait(&handle, name(at), 1, SOON * 5);
        let mut waiting: Waiting = (0..MANY).flat_map(each).collect();
        // Polls every caller for the incarnation, for the feed, and for the asset; their inputs are processed before the
        // question that follows.
        for _ in 0..3 {
            assert!(waiting.next().now_or_never().is_none());
            handle.status().await.unwrap();
        }
        STANDINGS.set(0);
        ready.add(&name(7));
        look(&handle, name(7)).await;
        let (asset, answer) = waiting.next().await.unwrap();
        assert_eq!(asset, name(7));
        answer.unwrap();
        let looks = STANDINGS.get();
        assert!((1..5).contains(&looks), "{looks} looks at callers");
        for at in 0..MANY {
            ready.add(&name(at));
            look(&handle, name(at)).await;
        }
        while let Some((asset, answer)) = waiting.next().await {
            assert!(answer.is_ok(), "{asset}: {answer:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn caller_is_answered_when_its_asset_comes_or_leaves() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = seal_many(&store).await;
    let ready = Ready::default();
    enforced_by(&store, ready.clone(), async |handle| {
        TokioRuntime::current().sleep(SOON).await;
        let comes = testing::asset("comes");
        let mut waiting = wait(&handle, comes.id(), 2, SOON);
        let mut unknown = wait(&handle, testing::asset("typo").id(), 2, SOON);
        let mut leaves = wait(&handle, name(1), 1, SOON);
        for each in [&mut waiting, &mut unknown, &mut leaves] {
            assert!(each.next().now_or_never().is_none(), "it waits");
        }
        ready.add(&comes.id());
        handle.publish(edited(&first, vec![comes], &[name(1)]));
        waiting.next().await.unwrap().1.unwrap();
        let (asset, by) = (name(1), By::new("me", "seen"));
        let orphan = Command::Acknowledge { asset, by };
        handle.tell(orphan).await.unwrap();
        for mut each in [unknown, leaves] {
            let answer = each.next().await.unwrap().1;
            let is_unknown = matches!(answer, Err(AskError::UnknownAsset { .. }));
            assert!(is_unknown, "{answer:?}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn callers_that_gave_up_are_not_kept() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    seal_many(&store).await;
    let ready = Ready::default();
    enforced_by(&store, ready.clone(), async |handle| {
        TokioRuntime::current().sleep(SOON).await;
        for round in 0..10 * MANY {
            let no = 1 + round as u32 % 2;
            let mut waiting = wait(&handle, name(round % MANY), no, Duration::from_millis(1));
            assert!(waiting.next().await.unwrap().1.is_err());
        }
        STANDINGS.set(0);
        for at in 0..MANY {
            ready.add(&name(at));
            look(&handle, name(at)).await;
        }
        TokioRuntime::current().sleep(SOON).await;
        let looks = STANDINGS.get();
        assert!(looks < MANY, "{looks} looks at callers that have gone");
    })
    .await;
}
