//! Calls of functions that are in flight when the control plane stops in order, and executions that end at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use control_plane::{
    prelude::*,
    runtime::{Runtime, TokioRuntime},
    workflow::{
        Answer, ExecutionId, FunctionInfo, FunctionRequest, Machine, Outcome, Ran, Repeat, Say,
        Start, What, Workflow, from_fn, is,
    },
};
use tokio::{sync::Notify, time::Instant};

use crate::world::{LONG, Production, Running, Text, ann, plane};

/// A function that takes `takes`.
#[derive(Clone, Default)]
struct Mail {
    takes: Duration,
    begun: Arc<Notify>,
    calls: Arc<AtomicUsize>,
}

impl Mail {
    fn takes(secs: u64) -> Self {
        Self {
            takes: Duration::from_secs(secs),
            ..Self::default()
        }
    }

    /// A control plane over the store whose workflow `mail` calls the function, and must not call it again.
    async fn run(&self, store: &MemoryStore) -> Running {
        let mail = self.clone();
        let send = move |_: FunctionRequest| {
            let mail = mail.clone();
            async move {
                mail.calls.fetch_add(1, Ordering::Relaxed);
                mail.begun.notify_one();
                TokioRuntime::current().sleep(mail.takes).await;
                Ok(Answer::new().done())
            }
        };
        let info = FunctionInfo::new("send")
            .repeat(Repeat::Never)
            .deadline(Duration::from_secs(600));
        running(info, send, store).await
    }
}

async fn running<F>(
    info: FunctionInfo,
    send: impl Fn(FunctionRequest) -> F + Send + Sync + 'static,
    store: &MemoryStore,
) -> Running
where
    F: Future<Output = Result<Ran, plugin::Error>> + Send + 'static,
{
    let mail = Workflow::new("mail")
        .machine(Machine::calls("send", "send"))
        .ends_well(is("send", "done"));
    let builder = plane(&Production::default())
        .store(store.clone())
        .source(Text::new("services: {eu: {size: 1}}"))
        .function(from_fn(info, send))
        .workflow(mail.build().unwrap());
    let running = Running::start(builder.build().unwrap());
    running.handle.settle(LONG).await.unwrap();
    running
}

async fn start(running: &Running) -> ExecutionId {
    let started = running.handle.start(Start::of("mail"), ann()).await;
    started.unwrap().id
}

#[tokio::test(start_paused = true)]
async fn r26_stop_in_order_waits_for_a_call_in_flight_and_takes_its_answer() {
    let (mail, store) = (Mail::takes(10), MemoryStore::new());
    let first = mail.run(&store).await;
    let id = start(&first).await;
    mail.begun.notified().await;
    let stopped = Instant::now();
    first.stop().await;
    assert_eq!(stopped.elapsed().as_secs(), 10, "until the call has ended");

    let next = mail.run(&store).await;
    let ended = next.handle.wait_execution(&id, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    assert_eq!(mail.calls.load(Ordering::Relaxed), 1);
    next.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r26_call_that_outlasts_the_stop_is_handed_over_and_is_no_death() {
    let (mail, store) = (Mail::takes(3600), MemoryStore::new());
    let mut running = mail.run(&store).await;
    let id = start(&running).await;
    mail.begun.notified().await;
    // As many orderly ends as deaths would park the step.
    for _ in 0..4 {
        let stopped = Instant::now();
        running.stop().await;
        assert!(
            stopped.elapsed() <= Duration::from_secs(36),
            "`drain`, and a little more"
        );
        running = mail.run(&store).await;
    }
    let execution = running.handle.execution(&id).await.unwrap().unwrap();
    let send = execution.machine("send").unwrap();
    let wait = send.wait.clone().unwrap();
    assert!(!wait.why.contains("died"), "{wait:?}");
    let log = running.handle.execution_log(&id).await.unwrap();
    let deaths = log
        .iter()
        .filter(|entry| matches!(entry.what, What::Interrupted { .. }));
    let handed_over = log
        .iter()
        .any(|entry| entry.what == What::HandedOver { attempt: 1 });
    assert!(handed_over && deaths.count() == 0, "{log:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r30_terminate_ends_an_execution_whose_callee_is_never_done() {
    let store = MemoryStore::new();
    let busy = async |_: FunctionRequest| Ok(Ran::in_progress(Duration::from_secs(1)));
    let info = FunctionInfo::new("send").repeat(Repeat::Keyed);
    let running = running(info, busy, &store).await;
    let id = start(&running).await;
    let handle = &running.handle;
    while handle
        .execution(&id)
        .await
        .unwrap()
        .unwrap()
        .machine("send")
        .unwrap()
        .attempt
        == 0
    {
        TokioRuntime::current().sleep(Duration::from_secs(1)).await;
    }
    handle.say(&id, Say::Terminate, ann()).await.unwrap();
    let ended = handle.wait_execution(&id, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Terminated);
    let left = &ended.may_take_effect[&"send".into()];
    assert_eq!(
        left.until, None,
        "the callee goes on for as long as it likes"
    );
    assert!(left.key.to_string().starts_with("mail-0000000001/send/1-"));
    running.stop().await;
}
