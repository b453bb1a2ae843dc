//! The shell on a store in memory and the tokio runtime. Enforcement is a feed that the test holds.

mod dispatch;
mod feed;
mod inbox;
mod kept;
mod leased;
mod lossy;
mod newer;
mod pages;
mod retained;
mod settling;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use control_plane_runtime::TokioRuntime;
use control_plane_store::{Batch, MemoryStore, Store, owner};
use futures::{StreamExt, channel::mpsc, stream};
use plugin_sdk::{
    By, Enforcement, Feed, FeedItem, FencingToken, Follow, Guard, Mono, Pin, Standing, SyncState,
    operation::{
        Answer, EffectKey, FunctionInfo, FunctionRequest, Ran, Repeat, Requirement, Start, from_fn,
    },
    plugin,
    testing::{self, Thing},
    workflow::{Machine, all, any, cancelled, is},
};
use prodspec_model::Digest;
use serde_json::json;

use super::*;
use crate::{
    definition::{Outcome, Workflow},
    kernel::Say,
    query::ExecutionQuery,
    view::Execution,
};

const SOON: Duration = Duration::from_secs(60);

/// Tells a lease for ever, one incarnation, and that every asset is in sync.
struct AlwaysFresh;

impl Enforcement for AlwaysFresh {
    fn feed(&self) -> Feed {
        let (sender, standings) = mpsc::unbounded();
        let assets = ["job/eu", "job/us"].map(testing::asset);
        let begin = [
            FeedItem::Lease(Mono(u64::MAX)),
            FeedItem::Took(testing::incarnation(1, assets)),
        ];
        let follow = move |what| {
            let Follow::Assets(assets) = what else { return };
            let since = testing::NOW;
            let state = SyncState::InSync { since };
            let standing = Standing::at(Pin::Default, Some(Digest([7; 32])), state);
            let told = assets.into_iter().map(|asset| (asset, standing.clone()));
            drop(sender.unbounded_send(FeedItem::Standings(told.collect())));
        };
        Feed::new(stream::iter(begin).chain(standings), follow)
    }
}

/// A provider that makes the effect of a key once.
#[derive(Clone, Default)]
struct Press(Arc<Mutex<BTreeSet<EffectKey>>>);

impl Press {
    fn prints(&self, key: EffectKey) -> bool {
        self.0.lock().unwrap().insert(key)
    }

    fn printed(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn keyed(name: &str) -> FunctionInfo {
    FunctionInfo::new(name)
        .repeat(Repeat::Keyed)
        .guard(Guard::Guarded)
}

fn season() -> Workflow {
    Workflow::new("season")
        .machine(Machine::calls("load", "load"))
        .machine(Machine::asks("go", "Open the season?", ["yes", "no"]).when(is("load", "done")))
        .machine(Machine::calls("publish", "print").when(is("go", "yes")))
        .machine(Machine::calls("undo", "print").cleans_up().when(all([
            is("load", "done"),
            any([is("publish", "failed"), is("go", "no"), cancelled()]),
        ])))
        .ends_well(is("publish", "done"))
        .ends_badly(is("undo", "done"))
        .build()
        .unwrap()
}

/// Takes the partition over and runs its workflows until `then` has ended.
async fn owning<T>(
    store: &Arc<MemoryStore>,
    builder: impl FnOnce(WorkflowsBuilder<TokioRuntime>) -> WorkflowsBuilder<TokioRuntime>,
    then: impl AsyncFnOnce(Handle<TokioRuntime>) -> T,
) -> T {
    owning_with(store, builder, |attached| attached, then).await
}

/// The live executions, of which there are few.
async fn all_live(handle: &Handle<TokioRuntime>) -> Vec<Execution> {
    let page = handle.live_page(&ExecutionQuery::all()).await.unwrap();
    assert_eq!(page.next, None);
    page.executions
}

/// As [`owning`]; `attach` adds to what is attached.
async fn owning_with<T>(
    store: &Arc<MemoryStore>,
    builder: impl FnOnce(WorkflowsBuilder<TokioRuntime>) -> WorkflowsBuilder<TokioRuntime>,
    attach: impl FnOnce(Attached<TokioRuntime>) -> Attached<TokioRuntime>,
    then: impl AsyncFnOnce(Handle<TokioRuntime>) -> T,
) -> T {
    attached(store, Arc::new(AlwaysFresh), builder, attach, then).await
}

/// As [`owning`], with another enforcement.
async fn owning_by<T>(
    store: &Arc<MemoryStore>,
    enforcement: Arc<dyn Enforcement>,
    builder: impl FnOnce(WorkflowsBuilder<TokioRuntime>) -> WorkflowsBuilder<TokioRuntime>,
    then: impl AsyncFnOnce(Handle<TokioRuntime>) -> T,
) -> T {
    attached(store, enforcement, builder, |attached| attached, then).await
}

async fn attached<T>(
    store: &Arc<MemoryStore>,
    enforcement: Arc<dyn Enforcement>,
    builder: impl FnOnce(WorkflowsBuilder<TokioRuntime>) -> WorkflowsBuilder<TokioRuntime>,
    attach: impl FnOnce(Attached<TokioRuntime>) -> Attached<TokioRuntime>,
    then: impl AsyncFnOnce(Handle<TokioRuntime>) -> T,
) -> T {
    let partition: prodspec_model::PartitionId = "test".parse().unwrap();
    let owned = Batch::new().put(owner::key(&partition), "me");
    let token = FencingToken(store.commit(owned).await.unwrap().0);
    let workflows = builder(Workflows::builder(
        TokioRuntime::current(),
        partition,
        store.clone(),
    ))
    .build()
    .unwrap();
    let (attached, handle) = workflows.attach(token, enforcement);
    tokio::select! {
        _ = attach(attached).run() => panic!("the ownership has ended"),
        result = then(handle) => result,
    }
}

fn with(
    press: &Press,
) -> impl FnOnce(WorkflowsBuilder<TokioRuntime>) -> WorkflowsBuilder<TokioRuntime> {
    let press = press.clone();
    |builder| {
        let load = async |request: FunctionRequest| {
            Ok(Answer::new()
                .output(&request.input)?
                .context("texts", &12)?
                .done())
        };
        let print = move |request: FunctionRequest| {
            let press = press.clone();
            async move {
                assert_eq!(request.context_entry::<u32>("texts")?, 12);
                press.prints(request.key);
                Ok(Answer::new().done())
            }
        };
        builder
            .function(from_fn(
                FunctionInfo::new("load").repeat(Repeat::Safe),
                load,
            ))
            .function(from_fn(keyed("print"), print))
            .workflow(season())
    }
}

fn by() -> By {
    By::new("ann", "test")
}

#[tokio::test]
async fn r23_execution_runs_to_its_end_over_a_change_of_owner() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let start = || {
        Start::of("season")
            .key("2027")
            .input(json!({"works": ["lear"]}))
    };
    let id = owning(&store, with(&press), async |handle| {
        let started = handle.start(start(), by()).await.unwrap();
        assert!(started.new);
        loop {
            let live = handle.live(&started.id).await.unwrap().unwrap();
            if live.machine("load").unwrap().state.as_str() == "done" {
                break started.id;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    owning(&store, with(&press), async |handle| {
        let again = handle.start(start(), by()).await.unwrap();
        assert_eq!((&again.id, again.new), (&id, false));
        // What ran without waiting for the disk may run again.
        while let Err(error) = handle.say(&id, Say::answer("go", "yes"), by()).await {
            assert!(matches!(error, AskError::Refused(_)), "{error}");
            tokio::task::yield_now().await;
        }
        let ended = handle.wait(&id, SOON).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Succeeded);
        let output = handle.output(&id, &"load".into()).await.unwrap();
        assert_eq!(output, Some(json!({"works": ["lear"]})));
        let again = handle.start(start(), by()).await.unwrap();
        assert_eq!(
            (again.id, again.outcome),
            (id.clone(), Some(Outcome::Succeeded))
        );
        assert_eq!(handle.ended(&id).await.unwrap(), Some(ended));
        assert!(handle.live(&id).await.unwrap().is_none());
        assert!(all_live(&handle).await.is_empty());
        let log = handle.log(&id).await.unwrap();
        assert!(log.len() >= 6, "{log:?}");
    })
    .await;
    assert_eq!(press.printed(), 1);
}

#[tokio::test]
async fn r33_function_sees_one_incarnation_and_the_standings_that_it_asks_for() {
    let store = Arc::new(MemoryStore::new());
    let look = async |request: FunctionRequest| {
        let Some(jobs) = request.required("jobs") else {
            return Ok(Ran::needs(
                "jobs",
                Requirement::all::<Thing>().with_status(),
            ));
        };
        assert!(jobs.iter().all(|job| job.is_in_sync()), "{jobs:?}");
        Ok(Answer::new()
            .output(&(jobs.len(), request.incarnation.no.0))?
            .done())
    };
    let workflow = Workflow::new("look")
        .machine(Machine::calls("look", "look"))
        .ends_well(is("look", "done"));
    let builder = |builder: WorkflowsBuilder<TokioRuntime>| {
        let look = from_fn(FunctionInfo::new("look").repeat(Repeat::Safe), look);
        builder.function(look).workflow(workflow.build().unwrap())
    };
    owning(&store, builder, async |handle| {
        let id = handle.start(Start::of("look"), by()).await.unwrap().id;
        handle.wait(&id, SOON).await.unwrap();
        let output = handle.output(&id, &"look".into()).await.unwrap();
        assert_eq!(output, Some(json!([2, 1])));
    })
    .await;
}

#[tokio::test]
async fn r25_function_that_panics_or_hangs_has_an_unknown_outcome() {
    unknown_after_a_panic_and_a_hang(keyed("bad")).await;
}

#[tokio::test]
async fn r25_function_in_memory_that_panics_or_hangs_has_an_unknown_outcome() {
    unknown_after_a_panic_and_a_hang(keyed("bad").in_memory()).await;
}

async fn unknown_after_a_panic_and_a_hang(info: FunctionInfo) {
    let store = Arc::new(MemoryStore::new());
    let (calls, held) = (Arc::new(AtomicU32::new(0)), Arc::new(()));
    let in_memory = info.in_memory;
    let builder = |builder: WorkflowsBuilder<TokioRuntime>| {
        let (calls, held) = (calls.clone(), held.clone());
        let bad = move |_: FunctionRequest| {
            let n = calls.fetch_add(1, Ordering::Relaxed);
            let holds = (n == 1).then(|| held.clone());
            async move {
                let _held = holds;
                match n {
                    0 => panic!("a bug of the function"),
                    1 => std::future::pending().await,
                    // The test runs the loop outside of tasks.
                    _ => assert_eq!(tokio::task::try_id().is_none(), in_memory),
                }
                Ok::<_, plugin::Error>(Answer::new().done())
            }
        };
        let info = info.deadline(Duration::from_millis(20));
        let machine = Machine::calls("bad", "bad");
        let workflow = Workflow::new("w")
            .machine(machine)
            .ends_well(is("bad", "done"));
        builder
            .function(from_fn(info, bad))
            .workflow(workflow.build().unwrap())
    };
    owning(&store, builder, async |handle| {
        let id = handle.start(Start::of("w"), by()).await.unwrap().id;
        assert_eq!(
            handle.wait(&id, SOON).await.unwrap().outcome,
            Outcome::Succeeded
        );
        let unknown = handle.log(&id).await.unwrap();
        let unknown = unknown
            .iter()
            .filter(|entry| matches!(entry.what, crate::record::What::Unknown { .. }));
        assert_eq!(unknown.count(), 2);
        // What hangs is dropped at its deadline.
        while Arc::strong_count(&held) > 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn r30_word_or_start_that_does_not_fit_is_an_error_and_waiting_has_a_limit() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    owning(&store, with(&press), async |handle| {
        let unknown = handle.start(Start::of("seasons"), by()).await.unwrap_err();
        assert!(matches!(unknown, AskError::Refused(_)), "{unknown}");
        let id = handle.start(Start::of("season"), by()).await.unwrap().id;
        let late = handle
            .wait(&id, Duration::from_millis(1))
            .await
            .unwrap_err();
        assert!(matches!(late, AskError::NotYet(_)), "{late}");
        let none = plugin_sdk::operation::ExecutionId::new("season", 99);
        let error = handle.wait(&none, SOON).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "no execution has the id season-0000000099, or this program version cannot read its definition, as the log says then"
        );
        handle.say(&id, Say::Cancel, by()).await.unwrap();
        handle.wait(&id, SOON).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn s5_lane_whose_partition_has_another_owner_writes_nothing() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let partition: prodspec_model::PartitionId = "test".parse().unwrap();
    let token = store
        .commit(Batch::new().put(owner::key(&partition), "old"))
        .await
        .unwrap();
    let workflows = with(&press)(Workflows::builder(
        TokioRuntime::current(),
        partition.clone(),
        store.clone(),
    ))
    .build()
    .unwrap();
    let (attached, handle) = workflows.attach(FencingToken(token.0), Arc::new(AlwaysFresh));
    let lane = tokio::spawn(attached.run());
    handle
        .start(Start::of("season").key("mine"), by())
        .await
        .unwrap();
    store
        .commit(Batch::new().put(owner::key(&partition), "new"))
        .await
        .unwrap();
    let lost = handle
        .start(Start::of("season").key("late"), by())
        .await
        .unwrap_err();
    assert!(matches!(lost, AskError::NotRunning(_)), "{lost}");
    assert_eq!(lane.await.unwrap(), End::Lost);
    owning(&store, with(&press), async |handle| {
        assert!(
            handle
                .start(Start::of("season").key("late"), by())
                .await
                .unwrap()
                .new
        );
        assert!(
            !handle
                .start(Start::of("season").key("mine"), by())
                .await
                .unwrap()
                .new
        );
    })
    .await;
}

#[tokio::test]
async fn s5_late_commit_of_a_lane_that_was_begun_again_under_the_same_token_is_refused() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let partition: prodspec_model::PartitionId = "test".parse().unwrap();
    let token = store
        .commit(Batch::new().put(owner::key(&partition), "me"))
        .await
        .unwrap();
    let workflows = with(&press)(Workflows::builder(
        TokioRuntime::current(),
        partition.clone(),
        store.clone(),
    ))
    .build()
    .unwrap();
    let token = FencingToken(token.0);
    let old = fence::put(&workflows, token).await.unwrap();
    fence::put(&workflows, token).await.unwrap();
    let late = fence::behind(Batch::new().put("late", "late"), &partition, old);
    assert!(store.commit(late).await.is_err());
}

#[tokio::test]
async fn r30_restart_of_an_ended_execution_makes_it_live_again() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let id = owning(&store, with(&press), async |handle| {
        let id = handle.start(Start::of("season").key("2027"), by()).await;
        let id = id.unwrap().id;
        while let Err(error) = handle.say(&id, Say::answer("go", "yes"), by()).await {
            assert!(matches!(error, AskError::Refused(_)), "{error}");
            tokio::task::yield_now().await;
        }
        handle.wait(&id, SOON).await.unwrap();
        id
    })
    .await;
    owning(&store, with(&press), async |handle| {
        let unknown = plugin_sdk::operation::ExecutionId::new("season", 99);
        let error = handle.say(&unknown, Say::restart(["go"]), by()).await;
        assert!(matches!(error, Err(AskError::Unknown(_))), "{error:?}");
        handle.say(&id, Say::restart(["go"]), by()).await.unwrap();
        assert!(handle.ended(&id).await.unwrap().is_none());
        let again = handle.start(Start::of("season").key("2027"), by()).await;
        assert_eq!(again.unwrap().id, id);
        handle
            .say(&id, Say::answer("go", "yes"), by())
            .await
            .unwrap();
        let ended = handle.wait(&id, SOON).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Succeeded);
        assert_eq!(press.printed(), 2, "one effect for each run");
    })
    .await;
}
