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

#[tokio::test(start_paused = true)]
async fn failing_push_and_breaker_are_logged_once_each() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(lines.clone())
        .with_ansi(false)
        .finish();
    // With a single subscriber, a log line that a thread of another test reaches first is disabled for all threads.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _logs = tracing::subscriber::set_default(subscriber);
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
