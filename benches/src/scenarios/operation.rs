//! `operation`: an operation of three functions that have no effect, on a control plane with 10,000 assets from a table in
//! its store, SQLite. The first function asks for ten assets with their status, the second edits one field, the third looks
//! at the edit. The operation ends when the plugin has the new content.
//!
//! Phases: `edit-field`, the same edit by `Handle::edit`, waited for, a tenth of `n`; `operation`, `n` operations, one after
//! the other; `no-edit`, `n` operations whose functions edit nothing. `ns_each` is the processor time of each, `p50_us` the
//! wall time, and `commits_each` the number of commits of the store, those of other work of the control plane included. The
//! peer `limit` forces a kilobyte to the disk once for each.

use std::{
    fs,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use control_plane::{
    SourceEdit,
    model::Filter,
    prelude::*,
    store::{Batch, CommitError, Key, KeyRange, Page, Topic, Version, Versioned},
    workflow::{
        Answer, FunctionInfo, FunctionRequest, Operation, Outcome, PipelineStep, Power, Ran,
        Repeat, Requirement, from_fn,
    },
};
use futures::stream::BoxStream;
use serde_json::{Value, json};

use super::{
    OURS, Scenario, Sizes,
    end_to_end::{Jobs, Production, SOURCE},
};
use crate::{
    Error,
    assets::JobType,
    files::{EACH, first, service},
    measure::{Meter, Sample, now},
    ours::HOUR,
};

/// The scenario `operation` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "operation",
    about: "10,000 assets, SQLite: three functions, one edit of a table, sealed and settled",
    target: "p50 3 forced writes more than edit-field; no-edit 2 commits",
    sizes: Sizes {
        named: 1_000,
        all: 100,
        smoke: 10,
    },
    sides: &[(OURS, ours), ("limit", limit)],
};

/// Number of assets; a tenth of it in a smoke run.
const ASSETS: usize = 10_000;

/// Number of documents of the first edit that fills the table. Edits have at most 256 KiB, and an incarnation must not add
/// as many assets as there are.
const LOT: usize = 300;

/// A store that counts commits.
struct Counted(SqliteStore, Arc<AtomicU64>);

#[async_trait]
impl Store for Counted {
    async fn get(
        &self,
        keys: &[Key],
    ) -> Result<Vec<Option<Versioned>>, control_plane::store::Error> {
        self.0.get(keys).await
    }

    async fn scan(
        &self,
        range: KeyRange,
        limit: usize,
    ) -> Result<Page, control_plane::store::Error> {
        self.0.scan(range, limit).await
    }

    async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.commit(batch).await
    }

    fn watch(&self, topic: Topic) -> BoxStream<'static, ()> {
        self.0.watch(topic)
    }
}

/// The field of an asset that is edited in turn number `turn`, with the values before and after.
struct Turn {
    turn: usize,
    documents: usize,
}

impl Turn {
    fn document(&self) -> usize {
        self.turn % self.documents
    }

    fn edit(&self) -> Result<FieldEdit, Error> {
        let (name, was) = (first(self.document()), 1 + self.turn / self.documents);
        let path = FieldPath::keys([&*name, "version"]);
        Ok(FieldEdit::set(
            &document(self.document()),
            path,
            was as u64,
            was as u64 + 1,
        ))
    }

    fn input(&self) -> Value {
        json!({ "turn": self.turn, "documents": self.documents })
    }

    fn of(request: &FunctionRequest) -> Result<Self, plugin::Error> {
        Ok(Self {
            turn: request.input("turn")?,
            documents: request.input("documents")?,
        })
    }
}

/// The name of a document of the table.
fn document(no: usize) -> String {
    format!("{no:06}")
}

/// Asks for the assets of the document and says how many are in sync.
async fn look(request: FunctionRequest) -> Result<Ran, plugin::Error> {
    let Some(jobs) = request.required("jobs") else {
        let no = Turn::of(&request)?.document();
        let ids = (0..EACH).map(|nth| AssetId::new(&service(no * EACH + nth)));
        let ids = ids.collect::<Result<Vec<_>, _>>();
        let ids = ids.map_err(|error| plugin::Error::permanent(error.to_string()))?;
        return Ok(Ran::needs(
            "jobs",
            Requirement::of(Filter::ids(ids)).with_status(),
        ));
    };
    let ready = jobs.iter().filter(|job| job.is_in_sync()).count();
    match (jobs.len(), ready) {
        (EACH, 1..) => Ok(Answer::new().context("ready", &ready)?.done()),
        (jobs, _) => Err(plugin::Error::permanent(format!("{ready} of {jobs} jobs"))),
    }
}

/// Edits one field, unless the input says `idle`.
async fn choose(request: FunctionRequest) -> Result<Ran, plugin::Error> {
    let ready: usize = request.context_entry("ready")?;
    if request.input.get("idle").is_some() {
        return Ok(Answer::new().output(&ready)?.done());
    }
    let edit = Turn::of(&request)?.edit();
    let edit = edit.map_err(|error| plugin::Error::permanent(error.to_string()))?;
    Ok(Answer::new().output(&ready)?.edit(SOURCE, edit).done())
}

/// Refuses more than one edit.
async fn check(request: FunctionRequest) -> Result<Ran, plugin::Error> {
    match request.edits.len() {
        0 | 1 => Ok(Answer::new().done()),
        many => Err(plugin::Error::permanent(format!("{many} edits"))),
    }
}

fn may() -> Power {
    Power::edit(SOURCE, "*.version")
}

fn operation(input: &Value) -> Operation {
    let step = |name: &str| PipelineStep::new(name, name).input(input.clone());
    Operation::pipeline(["look", "choose", "check"].map(step))
        .may([may()])
        .settles(HOUR)
}

/// Fills the table with documents of ten jobs, as a program of a user does.
async fn fill(handle: &Handle, documents: usize) -> Result<(), Error> {
    let mut from = 0;
    while from < documents {
        let lot = from..documents.min(from + if from == 0 { LOT } else { LOT - 1 });
        from = lot.end;
        let rows = lot.map(|no| {
            let jobs = (0..EACH).map(|nth| {
                let job = json!({ "cluster": "cluster-01", "replicas": 3, "version": 1 });
                (service(no * EACH + nth), job)
            });
            let row: serde_json::Map<String, Value> = jobs.collect();
            FieldEdit::add(&document(no), FieldPath::default(), Value::Object(row))
        });
        let edit = SourceEdit::new(SOURCE, By::new("bench", "begin")).fields(rows);
        handle.edit(&edit.blast_radius(ASSETS)).await?;
        handle.settle(HOUR).await?;
    }
    Ok(())
}

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(n))
}

async fn run(n: usize) -> Result<Vec<Sample>, Error> {
    let state = tempfile::tempdir()?;
    let documents = if n < 50 { ASSETS / 10 } else { ASSETS } / EACH;
    let (production, commits) = (Production::default(), Arc::new(AtomicU64::new(0)));
    let safe = |name| FunctionInfo::new(name).repeat(Repeat::Safe).in_memory();
    let plane = ControlPlane::builder("bench")
        .store(Counted(SqliteStore::open(state.path())?, commits.clone()))
        .table(SOURCE)
        .generator(Jobs)
        .asset_type(AssetType::<JobType>::new())
        .asset_plugin::<JobType>(Plugin::new(production.clone()))
        .config(Config::default().drift_period(HOUR))
        .function(from_fn(safe("look"), look))
        .function(from_fn(safe("choose").may(may()), choose))
        .function(from_fn(safe("check"), check))
        .build()?;
    let handle = plane.handle();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(plane.run(async { drop(stopped.await) }));
    // Without a document there is nothing to settle yet.
    handle.wait_until_owner().await;
    fill(&handle, documents).await?;

    let turn = |turn| Turn { turn, documents };
    let by_hand = n.div_ceil(10);
    let edited = async |nth: usize| {
        let edit = SourceEdit::new(SOURCE, By::new("bench", "measured"));
        handle.edit(&edit.field(turn(nth).edit()?)).await?;
        handle.settle(HOUR).await?;
        Ok(())
    };
    let operated = async |nth: usize| {
        let turn = turn(by_hand + nth);
        operate(&handle, &operation(&turn.input()), &format!("edit/{nth}")).await?;
        let (name, version) = (first(turn.document()), turn.turn / documents + 2);
        match production.version(&name) == Some(version as u64) {
            true => Ok(()),
            false => Err(format!("{name} is not at version {version}").into()),
        }
    };
    let idle = async |nth: usize| {
        let mut input = turn(nth).input();
        input["idle"] = json!(true);
        operate(&handle, &operation(&input), &format!("idle/{nth}")).await
    };
    let samples = vec![
        repeat("edit-field", by_hand, &commits, edited).await?,
        repeat("operation", n, &commits, operated).await?,
        repeat("no-edit", n, &commits, idle).await?,
    ];
    let _ = stop.send(());
    running.await??;
    Ok(samples)
}

/// Runs an operation under a key and waits for its end.
async fn operate(handle: &Handle, operation: &Operation, key: &str) -> Result<(), Error> {
    let by = By::new("bench", "measured");
    let started = handle.run_operation("bump", operation, key, by).await?;
    let ended = handle.wait_execution(&started.id, HOUR).await?;
    match ended.outcome {
        Outcome::Succeeded => Ok(()),
        other => Err(format!("{} {other}", started.id).into()),
    }
}

/// Measures `n` calls, one after the other.
async fn repeat(
    phase: &str,
    n: usize,
    commits: &AtomicU64,
    call: impl AsyncFn(usize) -> Result<(), Error>,
) -> Result<Sample, Error> {
    let mut latencies: Vec<Duration> = Vec::with_capacity(n);
    let before = commits.load(Ordering::Relaxed);
    let meter = Meter::start()?;
    for nth in 0..n {
        let start = now();
        call(nth).await?;
        latencies.push(start.elapsed());
    }
    let mut sample = meter.stop(phase, n)?.latencies(latencies);
    let made = commits.load(Ordering::Relaxed) - before;
    sample.commits_each = Some(made as f64 / n as f64);
    Ok(sample)
}

fn limit(n: usize) -> Result<Vec<Sample>, Error> {
    let dir = tempfile::tempdir()?;
    let mut file = fs::File::create(dir.path().join("file"))?;
    let (meter, mut latencies) = (Meter::start()?, Vec::new());
    for _ in 0..n {
        let start = now();
        file.write_all(&[0; 1 << 10])?;
        file.sync_data()?;
        latencies.push(start.elapsed());
    }
    Ok(vec![meter.stop("operation", n)?.latencies(latencies)])
}
