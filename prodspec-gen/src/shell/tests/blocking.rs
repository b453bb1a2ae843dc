//! R44: generators, sources and validators that are slow or block their thread hold up no executor.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use control_plane_runtime::{Runtime, TokioRuntime};
use futures::future::BoxFuture;
use plugin_sdk::{
    BoxError, Candidate, ExternalValidator, Mono, Problem, Problems, Reading, SourceOfTruth,
};
use prodspec_model::SourceName;
use tokio::sync::mpsc;

use super::{Edited, manifest, start};
use crate::{
    kernel::Timing,
    pipeline::Pipeline,
    seal::InMemory,
    shell::{Handle, Regeneration},
    testing,
};

/// A runtime in virtual time whose clock also advances while threads for blocking work are busy.
#[derive(Clone)]
struct ThreadedRuntime(TokioRuntime);

impl Runtime for ThreadedRuntime {
    fn now(&self) -> plugin_sdk::Now {
        self.0.now()
    }
    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        std::thread::spawn(work);
    }
}

/// A generator that reports that it has begun, and continues when the test sends a message or drops the sender.
struct Slow {
    begins: mpsc::UnboundedSender<()>,
    goes_on: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl plugin_sdk::Generator for Slow {
    fn info(&self) -> plugin_sdk::GeneratorInfo {
        plugin_sdk::GeneratorInfo::whole("slow").reads("docs")
    }
    fn generate(
        &self,
        _: &plugin_sdk::Input<'_>,
        _: &mut plugin_sdk::Drafts,
    ) -> Result<(), Problems> {
        let _ = self.begins.send(());
        let told = self.goes_on.lock().unwrap();
        match told.recv_timeout(Duration::from_secs(10)) {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                Err(Problem::new("generating held the executor").into())
            }
            _ => Ok(()),
        }
    }
}

/// Starts a regeneration with a slow generator. Returns the receiver that reports its begin, and the sender that lets
/// it continue.
fn start_slow<R: Runtime>(
    runtime: R,
) -> (
    Handle,
    mpsc::UnboundedReceiver<()>,
    std::sync::mpsc::Sender<()>,
) {
    let (begins, begun) = mpsc::unbounded_channel();
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let goes_on = Mutex::new(goes_on);
    let pipeline = Pipeline::builder(prodspec_model::PartitionId::new("test").unwrap())
        .source(Edited::new(manifest(2)))
        .generator(testing::Items)
        .generator(Slow { begins, goes_on })
        .asset_type(plugin_sdk::AssetType::<testing::Item>::new())
        .build()
        .unwrap();
    let (regeneration, handle) = Regeneration::new(runtime, pipeline, Arc::new(InMemory::new()));
    tokio::spawn(regeneration.run());
    (handle, begun, go_on)
}

#[tokio::test]
async fn r44_generating_does_not_hold_the_executor() {
    let (handle, mut begun, go_on) = start_slow(TokioRuntime::current());
    let mut status = handle.watch();
    begun.recv().await.unwrap();
    assert!(handle.status().running);
    go_on.send(()).unwrap();
    let ended = status.wait_for(|status| status.runs == 1).await.unwrap();
    assert!(ended.is_good(), "{}", ended.problems);
}

#[tokio::test]
async fn r44_late_generators_are_reported_and_no_second_run_starts() {
    let (handle, mut begun, go_on) = start_slow(ThreadedRuntime(TokioRuntime::current()));
    begun.recv().await.unwrap();
    // Time is paused only after the generator has begun: paused time does not wait for a thread, and many runs would
    // have ended before.
    tokio::time::pause();
    let mut status = handle.watch();
    let first = status
        .wait_for(|status| status.runs == 1)
        .await
        .unwrap()
        .problems
        .to_string();
    assert!(
        first.contains("generators did not end within 300s"),
        "{first}"
    );
    let second = handle.next_run().await.problems.to_string();
    assert!(
        second.contains("generators of an earlier run have not ended yet"),
        "{second}"
    );
    assert!(begun.try_recv().is_err(), "the generator began only once");
    tokio::time::resume();
    drop(go_on);
    while !handle.next_run().await.is_good() {}
    assert_eq!(handle.status().incarnation.unwrap().assets, 2);
}

/// A source and external validator that blocks the thread that calls it until it is released.
#[derive(Clone)]
struct Blocking {
    entered: mpsc::UnboundedSender<()>,
    free: Arc<(Mutex<bool>, std::sync::Condvar)>,
}

impl Blocking {
    fn new() -> (Self, mpsc::UnboundedReceiver<()>) {
        let (entered, told) = mpsc::unbounded_channel();
        let free = Arc::default();
        (Self { entered, free }, told)
    }

    fn block(&self) {
        // The test may be over.
        let _ = self.entered.send(());
        let free = self.free.0.lock().unwrap();
        drop(self.free.1.wait_while(free, |free| !*free).unwrap());
    }

    fn let_go(&self) {
        *self.free.0.lock().unwrap() = true;
        self.free.1.notify_all();
    }
}

#[async_trait::async_trait]
impl SourceOfTruth for Blocking {
    fn name(&self) -> SourceName {
        SourceName("slow".into())
    }
    async fn read(&self) -> Result<Reading, Problems> {
        self.block();
        Ok(Reading::new("1", vec![]))
    }
}

#[async_trait::async_trait]
impl ExternalValidator for Blocking {
    fn name(&self) -> &str {
        "slow"
    }
    async fn validate(&self, _: Candidate) -> Result<Problems, BoxError> {
        self.block();
        Ok(Problems::none())
    }
}

/// The problems of the next two runs of a regeneration that asks `blocking`, which must be late in the first one. Then
/// `blocking` returns, and generation must recover.
async fn blocked_runs(
    blocking: Blocking,
    mut entered: mpsc::UnboundedReceiver<()>,
    change: impl FnOnce(crate::pipeline::Builder) -> crate::pipeline::Builder,
) -> [String; 2] {
    let world = start(manifest(2), change);
    let handle = &world.handle;
    let runs = async {
        entered.recv().await.unwrap();
        let mut status = handle.watch();
        let late = status.wait_for(|status| status.runs > 0).await;
        let late = late.unwrap().clone();
        [late, handle.next_run().await]
    };
    let runs = tokio::time::timeout(Duration::from_secs(10), runs).await;
    let second = entered.try_recv();
    blocking.let_go();
    assert!(second.is_err(), "a second call began");
    let runs = runs.expect("a blocking call stops generation");
    while !handle.next_run().await.is_good() {}
    runs.map(|status| status.problems.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r44_source_that_blocks_its_thread_is_refused_at_its_deadline() {
    let (blocking, entered) = Blocking::new();
    let source = blocking.clone();
    let [late, then] = blocked_runs(blocking, entered, |builder| {
        builder.source(source).timing(Timing {
            read_deadline: Duration::from_millis(50),
            ..Timing::default()
        })
    })
    .await;
    assert!(late.contains("could not be read in time"), "{late}");
    assert!(then.contains("still blocks its thread"), "{then}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r44_validator_that_blocks_its_thread_is_refused_at_its_deadline() {
    let (blocking, entered) = Blocking::new();
    let validator = blocking.clone();
    let [late, then] = blocked_runs(blocking, entered, |builder| {
        builder.external_validator(validator, Duration::from_millis(50))
    })
    .await;
    assert!(late.contains("did not answer within 50ms"), "{late}");
    assert!(then.contains("still blocks its thread"), "{then}");
}
