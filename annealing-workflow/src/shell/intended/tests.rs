//! Schedules in the shell: intent that changes, slots by a wall clock that goes with the virtual time, and new owners.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use control_plane_runtime::{Runtime, TokioRuntime};
use control_plane_store::{Batch, MemoryStore, Store, owner};
use futures::{
    StreamExt,
    channel::mpsc::{self, UnboundedSender},
    future::BoxFuture,
    stream,
};
use plugin_sdk::{
    By, Enforcement, Feed, FeedItem, FencingToken, Mono, Now,
    operation::{Answer, FunctionInfo, FunctionRequest, Repeat, from_fn},
    testing,
};
use prodspec_model::{
    Asset, AssetBuilder, AssetId, Incarnation, PartitionId,
    addons::Turndown,
    operation::{Concurrency, CronOperation, History, Operation, PipelineStep, Schedule},
};

use super::*;
use crate::{Handle, ScheduleWord, Workflows};

/// The tokio runtime, with a wall clock that goes with its virtual time from noon on.
#[derive(Clone)]
struct Virtual(TokioRuntime);

impl Runtime for Virtual {
    fn now(&self) -> Now {
        let mono = self.0.now().mono;
        let noon: jiff::Timestamp = "2026-03-04T12:00:00Z".parse().unwrap();
        Now {
            mono,
            wall: noon + mono.since(Mono(0)),
        }
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }
}

/// Enforcement of an incarnation, and of those that the test sends.
struct Intent {
    first: Incarnation,
    sender: Arc<Mutex<Option<UnboundedSender<FeedItem>>>>,
}

impl Enforcement for Intent {
    fn feed(&self) -> Feed {
        let (sender, later) = mpsc::unbounded();
        self.sender.lock().unwrap().get_or_insert(sender);
        let begin = [
            FeedItem::Lease(Mono(u64::MAX)),
            FeedItem::Took(self.first.clone()),
        ];
        Feed::new(stream::iter(begin).chain(later), drop)
    }
}

fn cron(name: &str, expression: &str) -> Asset {
    unfinished(name, expression).build().unwrap()
}

/// The same, turned down.
fn turned_down(name: &str, expression: &str) -> Asset {
    let addon = Turndown {
        reason: "not needed any more".into(),
        approved_by: "ann".into(),
    };
    let asset = unfinished(name, expression).addon(&addon);
    asset.unwrap().build().unwrap()
}

fn unfinished(name: &str, expression: &str) -> AssetBuilder {
    let content = CronOperation {
        schedule: Schedule::new(expression),
        starting_deadline_secs: None,
        concurrency: Concurrency::Forbid,
        history: History::default(),
        template: Operation::pipeline([PipelineStep::new("run", "reindex")]),
    };
    let asset = Asset::builder(AssetId::new(name).unwrap());
    asset.payload(&content).unwrap()
}

/// Takes the partition over and runs its workflows until `then` has ended. Slots that run are appended to `ran`.
async fn owning<T>(
    store: &Arc<MemoryStore>,
    runtime: &Virtual,
    first: &Incarnation,
    ran: &Arc<Mutex<Vec<String>>>,
    then: impl AsyncFnOnce(Handle<Virtual>, &dyn Fn(&Incarnation)) -> T,
) -> T {
    let partition: PartitionId = "test".parse().unwrap();
    let owned = Batch::new().put(owner::key(&partition), "me");
    let token = FencingToken(store.commit(owned).await.unwrap().0);
    let ran = ran.clone();
    let reindex = move |request: FunctionRequest| {
        ran.lock().unwrap().push(request.cause.to_string());
        async { Ok(Answer::new().done()) }
    };
    let info = FunctionInfo::new("reindex").repeat(Repeat::Keyed);
    let workflows = Workflows::builder(runtime.clone(), partition, store.clone())
        .function(from_fn(info, reindex))
        .build()
        .unwrap();
    let sender = Arc::new(Mutex::new(None));
    let intent = Intent {
        first: first.clone(),
        sender: sender.clone(),
    };
    let took = move |incarnation: &Incarnation| {
        let sender = sender.lock().unwrap();
        let sent = FeedItem::Took(incarnation.clone());
        sender.as_ref().unwrap().unbounded_send(sent).unwrap();
    };
    let (attached, handle) = workflows.attach(token, Arc::new(intent));
    tokio::select! {
        _ = attached.run() => panic!("the ownership has ended"),
        result = then(handle, &took) => result,
    }
}

#[test]
fn schedules_that_came_changed_or_left_are_found_among_the_changes() {
    let first = testing::incarnation(1, [cron("cron/a", "0 * * * *"), testing::asset("job/eu")]);
    let all: Vec<_> = all(&first).schedules.into_keys().collect();
    assert_eq!(all, [AssetId::new("cron/a").unwrap()]);
    let put = vec![cron("cron/b", "5 * * * *"), testing::asset("job/us")];
    let second = testing::seal(Some(&first), put, &["cron/a", "job/eu"]);
    let changed = changed(&first, &second);
    let changed: Vec<_> = changed
        .schedules
        .iter()
        .map(|(asset, wanted)| (asset.as_str(), wanted.as_ref().map(|it| &*it.cron)))
        .collect();
    assert_eq!(changed, [("cron/a", None), ("cron/b", Some("5 * * * *"))]);
}

#[tokio::test(start_paused = true)]
async fn r37_schedule_that_is_turned_down_stops_and_comes_back_without_the_addon() {
    let (store, ran) = (Arc::new(MemoryStore::new()), Arc::default());
    let runtime = Virtual(TokioRuntime::current());
    let ran: Arc<Mutex<Vec<String>>> = ran;
    let down = |name| vec![turned_down(name, "0 * * * *")];
    let first = testing::incarnation(1, ["cron/a", "cron/b"].map(|name| cron(name, "0 * * * *")));
    let second = testing::seal(Some(&first), down("cron/a"), &[]);
    let gone = testing::seal(Some(&second), down("cron/b"), &["cron/a"]);
    let back = testing::seal(Some(&gone), vec![cron("cron/b", "0 * * * *")], &[]);
    let hour = || runtime.0.sleep(Duration::from_secs(3600));
    let names = async |handle: &Handle<Virtual>| {
        let all = handle.schedules().await.unwrap().into_iter();
        let shown = all.map(|it| (it.asset.to_string(), it.orphan.is_some()));
        shown.collect::<Vec<_>>()
    };
    owning(&store, &runtime, &first, &ran, async |handle, took| {
        runtime.0.sleep(Duration::from_secs(10)).await;
        took(&second);
        hour().await;
        assert_eq!(names(&handle).await, [("cron/b".to_owned(), false)]);
    })
    .await;
    // The next owner reads it so, and what left intent after it was turned down is no orphan.
    owning(&store, &runtime, &second, &ran, async |handle, took| {
        runtime.0.sleep(Duration::from_secs(10)).await;
        assert_eq!(names(&handle).await, [("cron/b".to_owned(), false)]);
        took(&gone);
        hour().await;
        assert_eq!(names(&handle).await, []);
        took(&back);
        hour().await;
        assert_eq!(names(&handle).await, [("cron/b".to_owned(), false)]);
    })
    .await;
    let slots = [13, 15].map(|hour| format!("slot 2026-03-04T{hour}:00:00Z of cron/b"));
    assert_eq!(*ran.lock().unwrap(), slots);
}

#[tokio::test(start_paused = true)]
async fn r37_slots_run_on_time_over_owners_and_an_orphan_until_it_is_acknowledged() {
    let (store, ran) = (Arc::new(MemoryStore::new()), Arc::default());
    let runtime = Virtual(TokioRuntime::current());
    let ran: Arc<Mutex<Vec<String>>> = ran;
    let with = testing::incarnation(1, [cron("cron/a", "0 * * * *"), testing::asset("job/eu")]);
    let without = testing::seal(Some(&with), Vec::new(), &["cron/a"]);
    let hour = || runtime.0.sleep(Duration::from_secs(3600));
    owning(&store, &runtime, &with, &ran, async |handle, _| {
        hour().await;
        runtime.0.sleep(Duration::from_secs(10)).await;
        let shown = handle.schedules().await.unwrap().remove(0);
        assert_eq!(shown.counts.started, 1);
        assert_eq!(shown.next.unwrap().to_string(), "2026-03-04T14:00:00Z");
    })
    .await;
    // While no process owns the partition, a slot goes by; the newest one runs.
    runtime.0.sleep(Duration::from_secs(2 * 3600)).await;
    let asset = AssetId::new("cron/a").unwrap();
    owning(&store, &runtime, &with, &ran, async |handle, took| {
        runtime.0.sleep(Duration::from_secs(10)).await;
        took(&without);
        hour().await;
        let shown = handle.schedules().await.unwrap().remove(0);
        assert!(shown.orphan.is_some());
        assert_eq!(shown.counts.late, 1);
        let by = || By::new("ann", "test");
        let word = ScheduleWord::Acknowledge;
        handle.say_to_schedule(&asset, word, by()).await.unwrap();
        let again = handle.say_to_schedule(&asset, word, by()).await;
        assert!(again.unwrap_err().to_string().contains("no schedule"));
        hour().await;
        assert!(handle.schedules().await.unwrap().is_empty());
    })
    .await;
    let slots = [13, 15, 16].map(|hour| format!("slot 2026-03-04T{hour}:00:00Z of cron/a"));
    assert_eq!(*ran.lock().unwrap(), slots);
}
