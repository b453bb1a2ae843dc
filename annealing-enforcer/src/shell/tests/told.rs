//! Log lines of failures: one line for each failure, not one for each retry.

use std::{
    io,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// A plugin whose pushes fail until `well` is set.
#[derive(Clone)]
struct Fails {
    production: Arc<InMemoryProduction>,
    well: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl AssetPlugin for Fails {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.production.diff(request).await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        match self.well.load(Ordering::SeqCst) {
            true => self.production.push(request).await,
            false => Err(plugin::Error::transient("no route to the cell")),
        }
    }
}

/// The log lines of this test.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Lines {
    fn of(&self, what: &str) -> Vec<String> {
        let all = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let found = all.lines().filter(|line| line.contains(what));
        found.map(str::to_owned).collect()
    }
}

/// Writes the log of this thread to `lines` until it is dropped.
fn logged_to(lines: &Lines) -> impl Sized {
    let subscriber = tracing_subscriber::fmt()
        .with_writer(lines.clone())
        .with_ansi(false)
        .finish();
    // With a single subscriber, a log line that a thread of another test reaches first is disabled for all threads.
    let second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    (tracing::subscriber::set_default(subscriber), second)
}

/// A plugin whose pushes are in progress for two follow-ups.
#[derive(Default)]
struct InSteps(InMemoryProduction, std::sync::atomic::AtomicU32);

#[async_trait::async_trait]
impl AssetPlugin for InSteps {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.0.diff(request).await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        match self.1.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Ok(Pushed::InProgress {
                check_again_in: Duration::from_secs(2),
            }),
            _ => self.0.push(request).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn push_with_follow_ups_has_one_begin_and_one_end_in_the_span_of_its_process() {
    let lines = Lines::default();
    let _logs = logged_to(&lines);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    sealed(&store).await;
    enforced_by(&store, InSteps::default(), async |handle| {
        let all = Settle::All(IncarnationNo(1));
        handle.wait_settled(all, SOON).await.unwrap();
    })
    .await;
    let begun = lines.of(": push asset=a");
    let ended = lines.of("the push ended");
    assert_eq!((begun.len(), ended.len()), (1, 1), "{begun:?} {ended:?}");
    assert!(ended[0].contains("outcome=\"done\"") && ended[0].contains("took=4"));
    for line in begun.iter().chain(&ended) {
        let span = line.contains("partition{partition=test process=process-");
        assert!(span, "{line}");
    }
    let shut = lines.of("shutting down: no push starts");
    let released = lines.of("released the partition");
    assert_eq!((shut.len(), released.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn standby_says_once_which_process_it_waits_for() {
    let lines = Lines::default();
    let _logs = logged_to(&lines);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    sealed(&store).await;
    enforced(&store, 1, async |_| {
        let other = InMemoryProduction::new();
        enforced_by(&store, other, async |_| {
            TokioRuntime::current().sleep(SOON * 10).await;
        })
        .await;
    })
    .await;
    let stands_by = lines.of("standing by to take it over");
    assert_eq!(stands_by.len(), 1, "{stands_by:?}");
    assert!(stands_by[0].contains("owner=\"process-"), "{stands_by:?}");
}

#[tokio::test(start_paused = true)]
async fn outage_of_the_store_has_two_lines_for_each_kind_of_work() {
    let lines = Lines::default();
    let _logs = logged_to(&lines);
    let memory = MemoryStore::new();
    let store: Arc<dyn Store> = Arc::new(memory.clone());
    let a = sealed(&store).await;
    enforced(&store, 1, async |handle| {
        let runtime = TokioRuntime::current();
        memory.set_unreachable(true);
        let by = By::new("me", "seen");
        let word = handle.tell(Command::LookNow { asset: a, by });
        let away = runtime.sleep(SOON * 10);
        let (_, ()) = futures::join!(word, async {
            away.await;
            memory.set_unreachable(false);
        });
        runtime.sleep(SOON).await;
    })
    .await;
    for what in ["the heartbeat did not reach", "failed to ask the store"] {
        let told = lines.of(what);
        assert!(told.len() <= 1, "{what}: {told:?}");
    }
    assert_eq!(lines.of("the heartbeat did not reach").len(), 1);
    let over = lines.of("an outage is over");
    assert!(
        over.iter()
            .any(|line| line.contains("what=\"the heartbeat\"")),
        "{over:?}"
    );
    let warned = lines.of("WARN").len();
    assert!(warned < 10, "{warned} lines in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn failing_push_and_breaker_are_logged_once_each() {
    let lines = Lines::default();
    let _logs = logged_to(&lines);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let names: Vec<String> = (0..20).map(|n| format!("a{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    calls::sealed_in(&store, "test", &names).await;
    let plugin = Fails {
        production: Arc::default(),
        well: Arc::default(),
    };
    let well = plugin.well.clone();
    enforced_by(&store, plugin, async |handle| {
        TokioRuntime::current().sleep(SOON * 20).await;
        well.store(true, Ordering::SeqCst);
        let all = Settle::All(IncarnationNo(1));
        handle.wait_settled(all, SOON * 60).await.unwrap();
    })
    .await;
    let failed = lines.of("a push failed");
    assert!(failed[0].contains("WARN") && failed[0].contains("no route to the cell"));
    for name in names {
        let of = format!("asset={name} ");
        let told = failed.iter().filter(|line| line.contains(&of)).count();
        assert!(told <= 1, "{name} is logged {told} times");
    }
    assert_eq!(lines.of("a circuit breaker opened").len(), 1);
    assert_eq!(lines.of("a circuit breaker closed").len(), 1);
}
