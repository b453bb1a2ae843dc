//! Waits for production: the port keeps them, and the lane has no task for them.

use std::{collections::BTreeMap, sync::atomic::AtomicI32};

use async_trait::async_trait;
use plugin_sdk::{
    ChangeId, Edits, FieldEdit, Holder,
    operation::Power,
    port::{HeldEdit, Made, SettleReply, SettleRequest, Settlement, WaitNo},
};
use prodspec_model::AssetId;
use tokio::sync::watch;

use super::*;
use crate::kernel::Say;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(24 * 3_600);

/// What the port does with the first wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum First {
    #[default]
    Keeps,
    Drops,
    Panics,
}

/// A port whose edits change one asset, and which keeps the waits for it.
#[derive(Default)]
struct Shelf {
    first: First,
    asked: AtomicU32,
    waits: watch::Sender<BTreeMap<WaitNo, (SettleRequest, SettleReply)>>,
    forgotten: AtomicU32,
    /// The programs that hold fields when the owner begins.
    holders: watch::Sender<BTreeSet<Holder>>,
    /// How often the store fails from now on.
    failures: AtomicI32,
    /// The holders whose fields were given up.
    released: watch::Sender<Vec<Holder>>,
}

impl Shelf {
    fn first(first: First) -> Arc<Self> {
        Arc::new(Self {
            first,
            ..Self::default()
        })
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    async fn has_waits(&self, n: usize) {
        let mut waits = self.waits.subscribe();
        waits.wait_for(|waits| waits.len() >= n).await.unwrap();
    }

    /// Ends all waits as done. Returns what they were for.
    fn settle_all(&self) -> Vec<SettleRequest> {
        let waits = self.waits.send_replace(BTreeMap::new());
        let ends = waits.into_values().map(|(request, reply)| {
            reply.settled(Ok(Settlement::Done));
            request
        });
        ends.collect()
    }
}

#[async_trait]
impl Edits for Shelf {
    async fn edit(&self, _: &HeldEdit) -> Result<Made, plugin::Error> {
        Ok(Made {
            assets: vec![AssetId::new("job/eu").unwrap()],
            ..Made::default()
        })
    }

    fn settle(&self, request: SettleRequest, reply: SettleReply) {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        match self.first {
            First::Drops if asked == 0 => drop(reply),
            First::Panics if asked == 0 => panic!("on purpose"),
            _ => {
                let wait = (reply.wait(), (request, reply));
                self.waits.send_modify(|waits| waits.extend([wait]));
            }
        }
    }

    fn forget(&self, wait: WaitNo) {
        self.waits.send_modify(|waits| {
            let known = waits.remove(&wait).is_some();
            let forgotten = u32::from(known);
            self.forgotten.fetch_add(forgotten, Ordering::Relaxed);
        });
    }

    async fn release(&self, holder: &Holder) -> Result<(), BoxError> {
        if self.failures.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Err("the store is unavailable".into());
        }
        self.released.send_modify(|all| all.push(holder.clone()));
        Ok(())
    }

    async fn holders(&self) -> Result<BTreeSet<Holder>, BoxError> {
        if self.failures.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Err("the store is unavailable".into());
        }
        Ok(self.holders.borrow().clone())
    }
}

/// The workflow `set`: one step that edits, and waits until production has it.
fn setting(builder: WorkflowsBuilder<TokioRuntime>) -> WorkflowsBuilder<TokioRuntime> {
    let info = FunctionInfo::new("set")
        .repeat(Repeat::Safe)
        .may(Power::edit("jobs", "eu.size"));
    let set = async |_: FunctionRequest| {
        let edit = FieldEdit::set("jobs#0", "eu.size".parse().unwrap(), 1, 2);
        Ok(Answer::new().edit("jobs", edit).done())
    };
    let workflow = Workflow::new("set")
        .machine(Machine::calls("set", "set").settles(LONG))
        .ends_well(is("set", "done"))
        .ends_badly(any([
            is("set", ["overwritten", "rolled_back", "expired"]),
            cancelled(),
        ]))
        .build()
        .unwrap();
    builder.function(from_fn(info, set)).workflow(workflow)
}

async fn with_shelf<T>(shelf: &Arc<Shelf>, then: impl AsyncFnOnce(Handle<TokioRuntime>) -> T) -> T {
    let (store, port) = (Arc::new(MemoryStore::new()), shelf.clone());
    owning_with(&store, setting, |it| it.with_edits(port), then).await
}

async fn start(handle: &Handle<TokioRuntime>, n: usize) -> Vec<ExecutionId> {
    let starts = (0..n).map(|_| handle.start(Start::of("set"), by()));
    let started = futures::future::join_all(starts).await;
    started.into_iter().map(|it| it.unwrap().id).collect()
}

#[tokio::test(start_paused = true)]
async fn r36_thousand_waits_need_no_task_each_and_end_each() {
    let shelf = Shelf::first(First::Keeps);
    with_shelf(&shelf, async |handle| {
        let ids = start(&handle, 1).await;
        shelf.has_waits(1).await;
        let tasks = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        let before = tasks();
        let more = start(&handle, 1_000).await;
        shelf.has_waits(1_001).await;
        // Tasks that have done their work end.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(tasks() <= before + 1, "{before} tasks, then {}", tasks());
        let settled = shelf.settle_all();
        assert!(settled.iter().all(|it| it.assets.len() == 1));
        let changes: BTreeSet<ChangeId> = settled.into_iter().map(|it| it.change).collect();
        assert_eq!(changes.len(), 1_001);
        for id in ids.iter().chain(&more) {
            let ended = handle.wait(id, SOON).await.unwrap();
            assert_eq!(ended.outcome, Outcome::Succeeded);
        }
        assert_eq!(shelf.forgotten.load(Ordering::Relaxed), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r34_fields_of_an_ended_execution_are_given_up_until_it_succeeds() {
    let shelf = Shelf::first(First::Keeps);
    shelf.failures.store(3, Ordering::Relaxed);
    with_shelf(&shelf, async |handle| {
        let id = start(&handle, 1).await.remove(0);
        shelf.has_waits(1).await;
        shelf.settle_all();
        handle.wait(&id, SOON).await.unwrap();
        let mut released = shelf.released.subscribe();
        let all = released.wait_for(|all| !all.is_empty());
        let all = tokio::time::timeout(SOON, all).await.unwrap().unwrap();
        assert_eq!(all.len(), 1);
    })
    .await;
}

/// The store fails for each question and each attempt before it works.
#[tokio::test(start_paused = true)]
async fn r34_fields_of_executions_that_ended_before_a_takeover_are_given_up_until_it_succeeds() {
    let (store, shelf) = (Arc::new(MemoryStore::new()), Shelf::first(First::Keeps));
    let intent = |attached: Attached<TokioRuntime>| attached.with_edits(shelf.clone());
    let (ended, live) = owning_with(&store, setting, intent, async |handle| {
        let mut ids = start(&handle, 2).await;
        shelf.has_waits(2).await;
        handle.say(&ids[0], Say::Cancel, by()).await.unwrap();
        handle.wait(&ids[0], SOON).await.unwrap();
        (ids.remove(0), ids.remove(0))
    })
    .await;
    let of = |id: &plugin_sdk::operation::ExecutionId| Holder::from(format!("execution/{id}"));
    let rollout = Holder::from("rollout/one".to_owned());
    let holders = [of(&ended), of(&live), rollout];
    shelf.holders.send_replace(holders.into());
    shelf.released.send_replace(Vec::new());
    shelf.failures.store(4, Ordering::Relaxed);
    owning_with(&store, setting, intent, async |handle| {
        let mut released = shelf.released.subscribe();
        let all = released.wait_for(|all| !all.is_empty());
        let all = tokio::time::timeout(SOON, all)
            .await
            .unwrap()
            .unwrap()
            .clone();
        assert_eq!(all, [of(&ended)]);
        shelf.has_waits(1).await;
        shelf.settle_all();
        handle.wait(&live, SOON).await.unwrap();
        let all = released.wait_for(|all| all.contains(&of(&live)));
        drop(tokio::time::timeout(SOON, all).await.unwrap().unwrap());
        assert_eq!(shelf.released.borrow().len(), 2, "only executions");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r34_nothing_that_gives_up_fields_outlives_its_lane() {
    let shelf = Shelf::first(First::Keeps);
    shelf.failures.store(i32::MAX, Ordering::Relaxed);
    with_shelf(&shelf, async |handle| {
        start(&handle, 1).await;
        shelf.has_waits(1).await;
        shelf.settle_all();
    })
    .await;
    assert_eq!(Arc::strong_count(&shelf), 1);
}

#[tokio::test(start_paused = true)]
async fn r36_wait_without_an_answer_is_asked_for_again() {
    for first in [First::Drops, First::Panics] {
        let shelf = Shelf::first(first);
        with_shelf(&shelf, async |handle| {
            let id = start(&handle, 1).await.remove(0);
            shelf.has_waits(1).await;
            assert_eq!(shelf.asked(), 2, "{first:?}");
            shelf.settle_all();
            let ended = handle.wait(&id, SOON).await.unwrap();
            assert_eq!(ended.outcome, Outcome::Succeeded);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn r36_waits_of_cancelled_executions_and_of_a_lane_that_ends_are_forgotten() {
    let shelf = Shelf::first(First::Keeps);
    with_shelf(&shelf, async |handle| {
        let ids = start(&handle, 3).await;
        shelf.has_waits(3).await;
        handle.say(&ids[0], Say::Cancel, by()).await.unwrap();
        handle.wait(&ids[0], SOON).await.unwrap();
        assert_eq!(shelf.waits.borrow().len(), 2);
    })
    .await;
    assert_eq!(shelf.waits.borrow().len(), 0);
    assert_eq!(shelf.forgotten.load(Ordering::Relaxed), 3);
}
