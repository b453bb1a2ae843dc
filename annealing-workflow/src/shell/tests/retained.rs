//! Retention beside listeners, restarts and clocks that are set, in virtual time.

use std::sync::atomic::{AtomicBool, AtomicI64};

use control_plane_store::{CommitError, Error, Key, KeyRange, Page, Topic, Version, Versioned};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{
    Now,
    operation::{ExecutionId, Join, StartCause},
};
use tokio::sync::watch;

use super::{
    kept::{keys, rows},
    *,
};
use crate::{Config, record::What};

/// Longer than the time between two passes.
const PASS: Duration = Duration::from_secs(3_700);
/// Longer than the time for which all executions that have ended are kept.
const RECENT: Duration = Duration::from_secs(120);

/// Virtual time, with a wall clock that goes with it from noon on, and that a test sets.
#[derive(Clone)]
struct Clock {
    tokio: TokioRuntime,
    /// By how many seconds the wall clock is ahead.
    ahead: Arc<AtomicI64>,
}

impl Clock {
    fn new() -> Self {
        Self {
            tokio: TokioRuntime::current(),
            ahead: Arc::default(),
        }
    }
}

impl Runtime for Clock {
    fn now(&self) -> Now {
        let mono = self.tokio.now().mono;
        let noon: Timestamp = "2026-03-04T12:00:00Z".parse().unwrap();
        let ahead = SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed));
        Now {
            mono,
            wall: noon + mono.since(Mono(0)) + ahead,
        }
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()> {
        self.tokio.sleep_until(at)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.tokio.spawn(task);
    }
}

/// A store that holds back what it reads of some rows.
struct Gate {
    store: Arc<MemoryStore>,
    /// Whether reads of one end fail, as a listener reads it.
    is_shut: AtomicBool,
    /// The first scan of rows with this prefix waits, with what it has read. Empty: none does.
    holds: watch::Sender<String>,
    is_held: watch::Sender<bool>,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            store: Arc::new(MemoryStore::new()),
            is_shut: false.into(),
            holds: watch::Sender::default(),
            is_held: watch::Sender::default(),
        })
    }

    fn shut(&self, is_shut: bool) {
        self.is_shut.store(is_shut, Ordering::Relaxed);
    }

    /// Waits until a scan is held.
    async fn holds(&self) {
        let mut held = self.is_held.subscribe();
        held.wait_for(|is| *is).await.unwrap();
    }

    fn let_go(&self) {
        self.holds.send_replace(String::new());
    }
}

#[async_trait::async_trait]
impl Store for Gate {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, Error> {
        let of_an_end = |key: &Key| key.as_str().starts_with("workflow-ended/");
        match self.is_shut.load(Ordering::Relaxed) && keys.iter().any(of_an_end) {
            true => Err(Error::Unavailable {
                source: Arc::new(std::io::Error::other("the test has shut the gate")),
            }),
            false => self.store.get(keys).await,
        }
    }

    async fn scan(&self, range: KeyRange, limit: usize) -> Result<Page, Error> {
        let start = range.start.as_str().to_owned();
        let page = self.store.scan(range, limit).await;
        let mut holds = self.holds.subscribe();
        let is_meant = |prefix: &String| !prefix.is_empty() && start.starts_with(&**prefix);
        if is_meant(&holds.borrow_and_update()) && !self.is_held.send_replace(true) {
            holds.wait_for(String::is_empty).await.unwrap();
        }
        page
    }

    async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
        self.store.commit(batch).await
    }

    fn watch(&self, topic: Topic) -> stream::BoxStream<'static, ()> {
        self.store.watch(topic)
    }
}

/// A partition with a clock and a store that tests hold back, and the notices that its listener has sent.
struct Partition {
    clock: Clock,
    gate: Arc<Gate>,
    config: Config,
    notices: Arc<Mutex<BTreeSet<String>>>,
    listens: bool,
}

impl Partition {
    /// Two executions of each workflow are kept.
    fn new() -> Self {
        Self {
            clock: Clock::new(),
            gate: Gate::new(),
            config: Config {
                history: 2,
                ..Config::default()
            },
            notices: Arc::default(),
            listens: false,
        }
    }

    fn workflows(&self) -> Arc<Workflows<Clock>> {
        let notices = self.notices.clone();
        let tell = move |request: FunctionRequest| {
            let notice = request.input.as_str().unwrap_or_default().to_owned();
            notices.lock().unwrap().insert(notice);
            async { Ok(Answer::new().done()) }
        };
        let ask = Machine::asks("go", "Go?", ["yes"]);
        let ask = Workflow::new("one").machine(ask).ends_well(is("go", "yes"));
        let notice = Workflow::new("notice").machine(Machine::calls("tell", "tell"));
        let notice = notice.ends_well(is("tell", "done"));
        let builder = Workflows::builder(
            self.clock.clone(),
            "test".parse().unwrap(),
            self.gate.clone(),
        );
        let builder = builder
            .function(from_fn(keyed("tell"), tell))
            .workflow(ask.build().unwrap())
            .workflow(notice.build().unwrap())
            .config(self.config.clone());
        let listener = Listener::on_end("notices", |ended| {
            let is_one = ended.id.workflow.as_str() == "one";
            is_one.then(|| Start::of("notice").input(ended.id.to_string()))
        });
        let builder = match self.listens {
            true => builder.listener(listener),
            false => builder,
        };
        builder.build().unwrap()
    }

    /// Takes the partition over and runs its workflows until `then` has ended.
    async fn owning<T>(&self, then: impl AsyncFnOnce(Handle<Clock>) -> T) -> T {
        let workflows = self.workflows();
        let owned = Batch::new().put(owner::key(&workflows.partition), "me");
        let token = FencingToken(self.gate.commit(owned).await.unwrap().0);
        let (attached, handle) = workflows.attach(token, Arc::new(AlwaysFresh));
        tokio::select! {
            _ = attached.run() => panic!("the ownership has ended"),
            result = then(handle) => result,
        }
    }

    /// Waits until the store has a row whose key contains this, or none.
    async fn has(&self, part: &str, has: bool) {
        let has_it = async || {
            keys(&self.gate.store)
                .await
                .iter()
                .any(|it| it.contains(part))
        };
        let waits = async {
            while has_it().await != has {
                self.clock.sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(SOON, waits).await;
        assert!(waited.is_ok(), "{part}: {has}");
    }

    /// Runs an execution to its end.
    async fn run(&self, handle: &Handle<Clock>, start: Start) -> ExecutionId {
        let id = handle.start(start, by()).await.unwrap().id;
        self.end(handle, &id).await;
        id
    }

    async fn run_many(&self, handle: &Handle<Clock>, many: u32) -> Vec<ExecutionId> {
        let mut ids = Vec::new();
        for _ in 0..many {
            ids.push(self.run(handle, Start::of("one")).await);
        }
        ids
    }

    async fn end(&self, handle: &Handle<Clock>, id: &ExecutionId) {
        let answer = Say::answer("go", "yes");
        handle.say(id, answer, by()).await.unwrap();
        self.has(&format!("workflow-ended/test/{id}"), true).await;
    }

    async fn count(&self, kind: &str) -> usize {
        rows(&self.gate.store, kind).await.len()
    }

    /// The number of executions of `one` that have ended and are kept.
    async fn ended(&self) -> usize {
        let kept = keys(&self.gate.store).await.into_iter();
        kept.filter(|key| key.starts_with("workflow-ended/test/one-"))
            .count()
    }

    /// Waits until the listener has sent notices of all these ends.
    async fn noticed(&self, ids: &[ExecutionId]) {
        let all: BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
        let waits = async {
            while *self.notices.lock().unwrap() != all {
                self.clock.sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(SOON, waits).await;
        assert!(waited.is_ok(), "{:?}", self.notices.lock().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn r41_ends_that_a_listener_has_not_heard_are_kept_over_an_absence() {
    let mut partition = Partition::new();
    partition.listens = true;
    let ids = partition
        .owning(async |handle| {
            partition.has("workflow-listener/", true).await;
            partition.gate.shut(true);
            partition.run_many(&handle, 9).await
        })
        .await;
    partition.clock.sleep(RECENT).await;
    partition
        .owning(async |_| {
            // The first pass comes at once.
            partition.clock.sleep(Duration::from_secs(1)).await;
            partition.gate.shut(false);
            partition.noticed(&ids).await;
            // They are old now, and all listeners know.
            partition.clock.sleep(PASS).await;
            assert_eq!(partition.ended().await, 2);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn r41_ends_that_a_listener_has_not_heard_are_kept_at_the_hourly_pass() {
    let mut partition = Partition::new();
    partition.listens = true;
    partition
        .owning(async |handle| {
            partition.has("workflow-listener/", true).await;
            let mut ids = partition.run_many(&handle, 3).await;
            partition.noticed(&ids).await;
            // The listener stores within a second how far it has heard.
            partition.clock.sleep(Duration::from_secs(2)).await;
            partition.gate.shut(true);
            ids.extend(partition.run_many(&handle, 5).await);
            partition.clock.sleep(PASS).await;
            // Those that were heard have gone.
            partition.has(&ids[0].to_string(), false).await;
            partition.gate.shut(false);
            partition.noticed(&ids).await;
            partition.clock.sleep(PASS).await;
            assert_eq!(partition.ended().await, 2);
        })
        .await;
}

/// A listener that this program version does not have any more holds nothing back.
#[tokio::test(start_paused = true)]
async fn r41_listener_that_is_not_registered_any_more_keeps_nothing() {
    let mut partition = Partition::new();
    partition.listens = true;
    partition
        .owning(async |handle| {
            partition.has("workflow-listener/", true).await;
            partition.gate.shut(true);
            partition.run_many(&handle, 5).await;
        })
        .await;
    partition.clock.sleep(RECENT).await;
    partition.listens = false;
    partition
        .owning(async |_| {
            partition.clock.sleep(Duration::from_secs(1)).await;
            assert_eq!(partition.ended().await, 2);
        })
        .await;
}

/// The log of a live execution is whole.
async fn is_whole(handle: &Handle<Clock>, id: &ExecutionId) {
    let log = handle.log(id).await.unwrap();
    let first = log.first().map(|entry| &entry.what);
    assert!(matches!(first, Some(What::Started(_))), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn r41_execution_that_is_restarted_while_a_new_owner_reads_the_history_stays() {
    let partition = Partition::new();
    let ids = partition
        .owning(async |handle| partition.run_many(&handle, 4).await)
        .await;
    partition.clock.sleep(RECENT).await;
    let holds = "workflow-ended/".to_owned();
    partition.gate.holds.send_replace(holds);
    partition
        .owning(async |handle| {
            partition.gate.holds().await;
            let restart = Say::restart(["go"]);
            handle.say(&ids[0], restart, by()).await.unwrap();
            partition.gate.let_go();
            partition.has(&ids[1].to_string(), false).await;
            is_whole(&handle, &ids[0]).await;
            partition.end(&handle, &ids[0]).await;
        })
        .await;
}

async fn restarted_beside_a_pass(ends_again: bool) {
    let partition = Partition::new();
    let ids = partition
        .owning(async |handle| partition.run_many(&handle, 4).await)
        .await;
    partition.clock.sleep(RECENT).await;
    let holds = format!("workflow-log/test/{} ", ids[0]);
    partition.gate.holds.send_replace(holds);
    partition
        .owning(async |handle| {
            partition.gate.holds().await;
            let restart = Say::restart(["go"]);
            handle.say(&ids[0], restart, by()).await.unwrap();
            if ends_again {
                partition.end(&handle, &ids[0]).await;
            }
            partition.gate.let_go();
            partition.has(&ids[1].to_string(), false).await;
            is_whole(&handle, &ids[0]).await;
            if ends_again {
                assert!(handle.ended(&ids[0]).await.unwrap().is_some());
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn r41_execution_that_is_restarted_beside_a_pass_stays() {
    restarted_beside_a_pass(false).await;
}

#[tokio::test(start_paused = true)]
async fn r41_execution_that_has_ended_anew_beside_a_pass_stays() {
    restarted_beside_a_pass(true).await;
}

#[tokio::test(start_paused = true)]
async fn r41_wall_clock_that_is_set_ahead_removes_nothing_early() {
    let mut partition = Partition::new();
    partition.config.history = 100;
    partition.config.history_age = Duration::from_secs(2 * 3600);
    partition
        .owning(async |handle| {
            partition.run_many(&handle, 3).await;
            let feed = partition.count("workflow-feed").await;
            let days = 60 * 24 * 3600;
            partition.clock.ahead.store(days, Ordering::Relaxed);
            partition.clock.sleep(PASS).await;
            assert_eq!(partition.count("workflow-ended").await, 3);
            assert_eq!(partition.count("workflow-feed").await, feed);
            partition.clock.ahead.store(0, Ordering::Relaxed);
            partition.clock.sleep(2 * PASS).await;
            assert_eq!(partition.count("workflow-ended").await, 1);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn r41_key_of_an_asset_stays_when_the_history_of_its_runs_is_gone() {
    let partition = Partition::new();
    partition
        .owning(async |handle| {
            let join = || {
                let (asset, content) = ("job/eu".parse().unwrap(), Digest([1; 32]));
                Join::new(Start::of("one"), asset, content, StartCause::Command)
            };
            let run = handle.join(join(), by()).await.unwrap();
            partition.end(&handle, &run.execution).await;
            partition.run_many(&handle, 3).await;
            partition.clock.sleep(PASS).await;
            let gone = format!("workflow-ended/test/{}", run.execution);
            partition.has(&gone, false).await;
            assert_eq!(partition.count("workflow-old-key").await, 0);
            let again = handle.join(join(), by()).await.unwrap();
            assert_eq!(again.execution, run.execution, "it has succeeded");
        })
        .await;
}
