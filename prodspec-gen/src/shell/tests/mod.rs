//! Regeneration from a source to a seal, in virtual time. Each file has one topic; the source, the validator and the
//! overrides that several of them need are here.

mod blocking;
mod deltas;
mod external;
mod overrides;
mod seals;
mod tracing;
mod trials;

use std::sync::{Arc, Mutex};

use control_plane_runtime::TokioRuntime;
use futures::{
    channel::mpsc as hints,
    stream::{BoxStream, StreamExt},
};
use plugin_sdk::{
    BoxError, Candidate, ExternalValidator, Problem, Problems, Reading, SourceOfTruth,
};
use prodspec_model::{Digest, SourceName};
use serde_json::{Value as Json, json};

use crate::{
    overrides::SealOverride,
    pipeline::Pipeline,
    seal::InMemory,
    shell::{Handle, Regeneration},
    status::Status,
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

/// The time at which overrides are given here. They expire at the end of time, as these tests run at any date.
const NOW: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;

fn word(guard: &str, digest: Digest) -> SealOverride {
    let by = plugin_sdk::By::new("ada", "moved");
    SealOverride::new(guard, digest, by, NOW, Some(jiff::Timestamp::MAX))
}

/// The digest that the problem of a guard names.
fn named_in(problems: &str, guard: &str) -> Digest {
    let wanted = format!("override {guard} for ");
    let digest = problems.split(&wanted).nth(1).unwrap();
    digest.split_whitespace().next().unwrap().parse().unwrap()
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
