//! Regeneration from a source to a seal, in virtual time.

use std::{sync::Mutex, time::Duration};

use control_plane_runtime::TokioRuntime;
use futures::channel::mpsc as hints;
use plugin_sdk::{BoxError, Candidate, ExternalValidator, Reading, SourceOfTruth};
use prodspec_model::Digest;
use serde_json::{Value as Json, json};

use super::*;
use crate::{
    guard::{GROWTH, SHRINK},
    kernel::Timing,
    overrides,
    seal::{InMemory, Seal},
    testing::{self, items},
};

/// A source that tests can edit.
#[derive(Clone)]
struct Edited {
    content: Arc<Mutex<Result<Json, Problems>>>,
    reads: Arc<std::sync::atomic::AtomicUsize>,
    hint: Arc<Mutex<Vec<hints::UnboundedSender<()>>>>,
}

impl Edited {
    fn new(content: Json) -> Self {
        Self {
            content: Arc::new(Mutex::new(Ok(content))),
            reads: Arc::default(),
            hint: Arc::default(),
        }
    }

    /// Changes the content without a hint.
    fn set(&self, content: Result<Json, &str>) {
        let said = |message| Problem::new(message).by("source docs").into();
        *self.content.lock().unwrap() = content.map_err(said);
    }

    /// Fails from now on, with these problems.
    fn fail(&self, problems: Problems) {
        *self.content.lock().unwrap() = Err(problems);
    }

    fn hint(&self) {
        for hint in &*self.hint.lock().unwrap() {
            hint.unbounded_send(()).unwrap();
        }
    }

    fn reads(&self) -> usize {
        self.reads.load(std::sync::atomic::Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl SourceOfTruth for Edited {
    fn name(&self) -> SourceName {
        SourceName("docs".into())
    }
    async fn read(&self) -> Result<Reading, Problems> {
        self.reads.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        self.content.lock().unwrap().clone().map(items)
    }
    fn changes(&self) -> BoxStream<'static, ()> {
        let (send, hints) = hints::unbounded();
        self.hint.lock().unwrap().push(send);
        hints.boxed()
    }
}

struct World {
    source: Edited,
    seals: Arc<InMemory>,
    handle: Handle,
}

fn start(
    content: Json,
    change: impl FnOnce(crate::pipeline::Builder) -> crate::pipeline::Builder,
) -> World {
    start_with(content, Arc::new(InMemory::new()), change)
}

fn start_with(
    content: Json,
    seals: Arc<InMemory>,
    change: impl FnOnce(crate::pipeline::Builder) -> crate::pipeline::Builder,
) -> World {
    let source = Edited::new(content);
    let builder = Pipeline::builder(prodspec_model::PartitionId::new("test").unwrap())
        .source(source.clone())
        .generator(testing::Items)
        .validators(crate::validators::standard())
        .asset_type(plugin_sdk::AssetType::<testing::Item>::new());
    let runtime = TokioRuntime::current();
    let (regeneration, handle) =
        Regeneration::new(runtime, change(builder).build().unwrap(), seals.clone());
    tokio::spawn(regeneration.run());
    World {
        source,
        seals,
        handle,
    }
}

impl World {
    /// Waits for the end of the run in progress, or of the next run if there is none.
    async fn run(&self) -> Status {
        let mut status = self.handle.watch();
        let runs = status.borrow().runs;
        let reached = status
            .wait_for(|status| status.runs > runs && !status.running)
            .await
            .unwrap();
        reached.clone()
    }

    fn sealed(&self) -> u32 {
        self.handle
            .status()
            .incarnation
            .map_or(0, |header| header.id.no.0)
    }
}

fn manifest(n: usize) -> Json {
    (0..n)
        .map(|at| (format!("i{at}"), json!({"n": 1})))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test(start_paused = true)]
async fn edit_becomes_an_incarnation_and_an_unchanged_result_seals_nothing() {
    let world = start(manifest(2), |builder| builder);
    let status = world.run().await;
    assert!(status.is_good());
    let first = status.incarnation.unwrap();
    assert_eq!(
        (first.id.to_string().as_str(), first.assets, first.parent),
        ("test@1", 2, None)
    );

    world.source.set(Ok(manifest(3)));
    world.source.hint();
    let second = world.run().await.incarnation.unwrap();
    assert_eq!(
        (second.id.to_string().as_str(), second.assets),
        ("test@2", 3)
    );
    assert_ne!(second.sources, first.sources);

    let shifted = json!({"i0": {"n": 1, "refers": []}, "i1": {"n": 1}, "i2": {"n": 1}});
    world.source.set(Ok(shifted));
    world.source.hint();
    let status = world.run().await;
    assert_eq!(world.seals.sealed().len(), 2, "no new incarnation");
    assert_ne!(
        world.seals.last_seen(),
        second.sources,
        "the new revision is recorded"
    );
    assert_eq!(status.seen, world.seals.last_seen());
}

#[tokio::test(start_paused = true)]
async fn r3_any_error_seals_nothing() {
    let world = start(manifest(2), |builder| builder);
    world.run().await;
    for (wrong, says) in [
        (
            Ok(json!({"a": {"n": 13}, "b": {"n": 1}})),
            "13 is not allowed",
        ),
        (
            Ok(json!({"a": {"n": 1, "refers": ["none"]}})),
            "refers to `none`",
        ),
        (Ok(json!({})), "no asset would be left"),
        (Err("torn"), "torn (says source docs)"),
    ] {
        world.source.set(wrong);
        world.source.hint();
        let status = world.run().await;
        assert!(
            status.problems.to_string().contains(says),
            "{}",
            status.problems
        );
        assert!(!status.is_good());
        assert_eq!(world.sealed(), 1);
    }
    world.source.set(Ok(manifest(3)));
    let status = world.run().await;
    assert!(
        status.is_good(),
        "a source that could not be read is read again without a hint: {}",
        status.problems
    );
    assert_eq!(world.sealed(), 2);
}

#[tokio::test(start_paused = true)]
async fn r3_source_error_without_problems_or_with_warnings_only_seals_nothing() {
    for error in [Problems::none(), Problem::new("odd").warning().into()] {
        let world = start(manifest(2), |builder| builder);
        world.source.fail(error.clone());
        let cold = world.run().await;
        world.source.set(Ok(manifest(2)));
        assert!(world.handle.next_run().await.is_good());
        world.source.fail(error);
        let warm = world.handle.next_run().await;
        for status in [cold, warm] {
            let said = status.problems.to_string();
            let says =
                "failed without saying why; return the error as a problem (says source docs)";
            assert!(said.contains(says), "{said}");
            assert!(!status.is_good());
        }
        assert_eq!(world.seals.sealed().len(), 1);
        assert_eq!(world.sealed(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn r2_many_hints_start_one_run() {
    let world = start(manifest(2), |builder| builder);
    world.run().await;
    for n in 3..10 {
        world.source.set(Ok(manifest(n)));
        world.source.hint();
        tokio::time::advance(Duration::from_millis(50)).await;
    }
    let status = world.run().await;
    assert_eq!(
        (world.sealed(), status.runs, world.source.reads()),
        (2, 2, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn change_without_a_hint_is_read_periodically() {
    let world = start(manifest(2), |builder| builder);
    world.run().await;
    world.source.set(Ok(manifest(3)));
    world.run().await;
    assert_eq!(world.sealed(), 2);
}

#[tokio::test(start_paused = true)]
async fn r4_override_is_spent_by_the_seal_that_uses_it() {
    let world = start(manifest(20), |builder| builder);
    world.run().await;
    world.source.set(Ok(manifest(10)));
    let refused = world.handle.next_run().await.problems.to_string();
    let digest = named_in(&refused, SHRINK);
    let word = word(SHRINK, digest);
    let handle = &world.handle;
    handle.override_guard(word.clone()).await.unwrap();
    assert_eq!(handle.overrides(NOW).await.unwrap().overrides, [word]);
    assert!(world.handle.next_run().await.is_good());
    assert_eq!(world.sealed(), 2);
    assert_eq!(handle.overrides(NOW).await.unwrap().overrides, []);
    let kept = world.seals.all_overrides();
    assert_eq!(kept[0].used.unwrap().incarnation.0, 2);
    world.source.set(Ok(manifest(20)));
    assert!(world.handle.next_run().await.is_good());
    world.source.set(Ok(manifest(10)));
    assert!(
        !world.handle.next_run().await.is_good(),
        "the same change needs another override"
    );
}

/// The time at which overrides are given here. They expire at the end of time, as these tests run at any date.
const NOW: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;

fn word(guard: &str, digest: Digest) -> SealOverride {
    let by = control_plane_store::records::By::new("ada", "moved");
    SealOverride::new(guard, digest, by, NOW, Some(jiff::Timestamp::MAX))
}

/// The digest that the problem of a guard names.
fn named_in(problems: &str, guard: &str) -> Digest {
    let wanted = format!("override {guard} for ");
    let digest = problems.split(&wanted).nth(1).unwrap();
    digest.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn r4_override_that_fits_no_refusal_is_refused_with_those_that_fit() {
    let world = start(manifest(20), |builder| {
        builder.external_validator(Board(|_| None), Duration::from_secs(5))
    });
    let handle = &world.handle;
    let early = handle
        .override_guard(word(SHRINK, Digest::of(b"typo")))
        .await;
    let said = early.unwrap_err().to_string();
    assert!(
        said.contains("no guard and no external validator"),
        "{said}"
    );
    let board = named_in(&world.run().await.problems.to_string(), "board");
    handle.override_guard(word("board", board)).await.unwrap();
    assert!(handle.next_run().await.is_good());
    assert_eq!(handle.status().refusals, []);
    let spent = handle.override_guard(word("board", board)).await;
    assert!(matches!(spent, Err(overrides::Error::NotRefused { .. })));

    world.source.set(Ok(manifest(10)));
    let refused = handle.next_run().await;
    let said = refused.problems.to_string();
    let (shrink, board) = (named_in(&said, SHRINK), named_in(&said, "board"));
    let named: Vec<_> = refused.refusals.iter().map(ToString::to_string).collect();
    assert_eq!(
        named,
        [
            format!("{SHRINK} for {shrink}"),
            format!("board for {board}")
        ]
    );
    for (guard, digest) in [(GROWTH, shrink), (SHRINK, board), ("typo", shrink)] {
        let wrong = handle.override_guard(word(guard, digest)).await;
        let said = wrong.unwrap_err().to_string();
        assert!(said.contains(&named.join(", ")), "{said}");
    }
    let mut past = word(SHRINK, shrink);
    past.until = NOW;
    let past = handle.override_guard(past).await;
    assert!(matches!(past, Err(overrides::Error::Expired { .. })));
    assert_eq!(world.seals.all_overrides().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn r4_refusals_are_those_of_the_last_run() {
    let world = start(manifest(20), |builder| builder);
    world.run().await;
    for then in [Ok(manifest(20)), Ok(json!({"a": {"n": 13}})), Err("torn")] {
        world.source.set(Ok(manifest(10)));
        assert_eq!(world.handle.next_run().await.refusals.len(), 1);
        world.source.set(then);
        assert_eq!(world.handle.next_run().await.refusals, []);
    }
}

/// An external validator that answers with the result of a function. `None`: it does not answer.
struct Board(Answer);

type Answer = fn(&Candidate) -> Option<Result<Problems, BoxError>>;

#[async_trait::async_trait]
impl ExternalValidator for Board {
    fn name(&self) -> &str {
        "board"
    }
    async fn validate(&self, candidate: Candidate) -> Result<Problems, BoxError> {
        match (self.0)(&candidate) {
            Some(answer) => answer,
            None => futures::future::pending().await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn r3_failed_or_late_external_validator_refuses_the_seal() {
    let answers: [(Answer, &str); 3] = [
        (|_| None, "did not answer within 5s"),
        (
            |_| Some(Err("no route".into())),
            "could not validate this content: no route",
        ),
        (
            |_| Some(Ok(Problem::new("too many").into())),
            "too many (says board)",
        ),
    ];
    for (answer, says) in answers {
        let world = start(manifest(2), |builder| {
            builder.external_validator(Board(answer), Duration::from_secs(5))
        });
        let status = world.run().await;
        assert!(
            status.problems.to_string().contains(says),
            "{}",
            status.problems
        );
        assert_eq!(world.sealed(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn r3_guards_and_external_validators_also_check_refused_content() {
    let outside: Answer = |candidate| match candidate.snapshot.len() {
        1 => Some(Ok(Problem::new("too few").into())),
        _ => Some(Ok(Problems::none())),
    };
    let world = start(manifest(20), |builder| {
        builder.external_validator(Board(outside), Duration::from_secs(5))
    });
    world.run().await;
    world
        .source
        .set(Ok(json!({"i0": {"n": 1, "refers": ["none"]}})));
    let said = world.handle.next_run().await.problems.to_string();
    for says in ["refers to `none`", "19 of 20 assets", "too few"] {
        assert!(said.contains(says), "{says}: {said}");
    }
    assert_eq!(world.sealed(), 1);
    world.source.set(Ok(manifest(20)));
    assert!(world.handle.next_run().await.is_good());
}

#[tokio::test(start_paused = true)]
async fn r3_external_warnings_stay_while_their_content_is_in_force() {
    let outside: Answer = |candidate| match candidate.snapshot.len() {
        2 => Some(Ok(Problem::new("few").warning().into())),
        _ => Some(Ok(Problems::none())),
    };
    let world = start(manifest(2), |builder| {
        builder.external_validator(Board(outside), Duration::from_secs(5))
    });
    let said = world.run().await.problems.to_string();
    assert_eq!(said, "warning: few (says board)");
    let unchanged = world.handle.next_run().await.problems.to_string();
    assert_eq!(unchanged, said);
    // A restart with unchanged content asks no validator and forgets no warning.
    let restarted = start_with(manifest(2), world.seals.clone(), |builder| {
        builder.external_validator(Board(|_| panic!("asked")), Duration::from_secs(5))
    });
    let status = restarted.run().await;
    assert_eq!(status.problems.to_string(), said);
    assert_eq!(status.incarnation.unwrap().id.no.0, 1);
    world.source.set(Ok(manifest(3)));
    assert!(world.handle.next_run().await.problems.is_empty());
    assert!(world.handle.next_run().await.problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn r3_warnings_of_removed_external_validators_are_not_repeated() {
    let outside: Answer = |_| Some(Ok(Problem::new("few").warning().into()));
    let world = start(manifest(2), |builder| {
        builder.external_validator(Board(outside), Duration::from_secs(5))
    });
    assert_eq!(world.run().await.problems.len(), 1);
    let restarted = start_with(manifest(2), world.seals.clone(), |builder| builder);
    assert!(restarted.run().await.problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn r3_override_lets_one_content_pass_a_validator_that_does_not_answer() {
    let world = start(manifest(2), |builder| {
        builder.external_validator(Board(|_| None), Duration::from_secs(5))
    });
    let said = world.run().await.problems.to_string();
    let word = word("board", named_in(&said, "board"));
    world.handle.override_guard(word).await.unwrap();
    assert!(world.handle.next_run().await.is_good());
    assert_eq!(world.sealed(), 1);
    world.source.set(Ok(manifest(3)));
    assert!(!world.handle.next_run().await.is_good());
}

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

#[tokio::test(start_paused = true)]
async fn next_run_builds_on_the_incarnation_of_another_sealer() {
    let world = start(manifest(2), |builder| builder);
    world.run().await;
    let other = testing::incarnation(manifest(4));
    let mut header = other.header().clone();
    (header.id.no, header.parent) = (
        prodspec_model::IncarnationNo(2),
        Some(prodspec_model::IncarnationNo(1)),
    );
    let seal = Seal {
        header,
        snapshot: other.snapshot().clone(),
        put: vec![],
        removed: vec![],
        spent: vec![],
        warnings: Problems::none(),
    };
    world.seals.seal(seal).await.unwrap();
    let status = world.handle.next_run().await;
    assert!(status.is_good(), "{}", status.problems);
    assert_eq!(world.sealed(), 3);
    assert_eq!(status.incarnation.unwrap().assets, 2);
}
