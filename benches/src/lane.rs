//! A lane of workflows without an enforcer beside it: an ownership that lasts until the scenario ends it, of incarnations
//! that the scenario hands in.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use control_plane::{
    runtime::{Runtime, TokioRuntime},
    sdk::{Edits, Enforcement, Feed, FeedItem, FencingToken, Guard, Mono},
    store::{Batch, Store, owner},
    store_sqlite::SqliteStore,
    workflow::{ExecutionQuery, FunctionInfo, Repeat},
    workflows::{End, Handle, Workflows, WorkflowsBuilder},
};
use futures::{StreamExt, channel::mpsc, stream};
use prodspec_model::{Incarnation, PartitionId, Snapshot};
use tokio::task::JoinHandle;

use crate::{Error, ours::incarnation};

/// The enforcement of an ownership whose lease lasts for ever. It tells each incarnation that the scenario hands in.
#[derive(Clone)]
pub(crate) struct Owned(Arc<Told>);

struct Told {
    latest: Mutex<Incarnation>,
    feeds: Mutex<Vec<mpsc::UnboundedSender<FeedItem>>>,
}

impl Owned {
    /// Enforcement of an incarnation without assets.
    pub(crate) fn empty() -> Result<Self, Error> {
        Ok(Self::of(incarnation(None, Snapshot::empty())?))
    }

    /// Enforcement that has taken in `latest`.
    pub(crate) fn of(latest: Incarnation) -> Self {
        Self(Arc::new(Told {
            latest: Mutex::new(latest),
            feeds: Mutex::default(),
        }))
    }

    /// Takes in the next incarnation.
    pub(crate) fn take(&self, next: &Incarnation) {
        *lock(&self.0.latest) = next.clone();
        let took = || FeedItem::Took(next.clone());
        lock(&self.0.feeds).retain(|feed| feed.unbounded_send(took()).is_ok());
    }
}

impl Enforcement for Owned {
    fn feed(&self) -> Feed {
        let (sender, items) = mpsc::unbounded();
        let begin = [
            FeedItem::Lease(Mono(u64::MAX)),
            FeedItem::Took(lock(&self.0.latest).clone()),
        ];
        lock(&self.0.feeds).push(sender);
        Feed::new(stream::iter(begin).chain(items), drop)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running lane. It ends when this is dropped, as if the process had died.
pub(crate) struct Lane<R: Runtime = TokioRuntime> {
    /// The handle to its executions.
    pub(crate) handle: Handle<R>,
    task: JoinHandle<End>,
}

impl<R: Runtime> Lane<R> {
    /// Number of live executions.
    pub(crate) async fn live(&self) -> Result<usize, Error> {
        let mut live = 0;
        let count = |_| live += 1;
        self.handle.each_live(&ExecutionQuery::all(), count).await?;
        Ok(live)
    }
}

impl<R: Runtime> Drop for Lane<R> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The partition of all lanes.
pub(crate) fn partition() -> Result<PartitionId, Error> {
    Ok(PartitionId::new("benches")?)
}

/// Opens the store in a directory.
pub(crate) fn sqlite(dir: &Path) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(SqliteStore::open(dir)?))
}

/// Takes the partition over and runs the workflows that `build` registers, on the tokio runtime of the caller.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    owned: &Owned,
    build: impl FnOnce(WorkflowsBuilder<TokioRuntime>) -> Result<WorkflowsBuilder<TokioRuntime>, Error>,
) -> Result<Lane, Error> {
    run_on(TokioRuntime::current(), store, owned, None, build).await
}

/// The same on any runtime, with a port to intent if there is one.
pub(crate) async fn run_on<R: Runtime>(
    runtime: R,
    store: Arc<dyn Store>,
    owned: &Owned,
    edits: Option<Arc<dyn Edits>>,
    build: impl FnOnce(WorkflowsBuilder<R>) -> Result<WorkflowsBuilder<R>, Error>,
) -> Result<Lane<R>, Error> {
    let partition = partition()?;
    let taken = Batch::new().put(owner::key(&partition), "benches");
    let token = FencingToken(store.commit(taken).await?.0);
    let workflows = build(Workflows::builder(runtime, partition, store))?.build()?;
    let (attached, handle) = workflows.attach(token, Arc::new(owned.clone()));
    let attached = match edits {
        Some(edits) => attached.with_edits(edits),
        None => attached,
    };
    let task = tokio::spawn(attached.run());
    Ok(Lane { handle, task })
}

/// A function whose callee makes the effect of a key once and refuses older fences.
pub(crate) fn keyed(name: &str) -> FunctionInfo {
    FunctionInfo::new(name)
        .repeat(Repeat::Keyed)
        .guard(Guard::Guarded)
}
