//! `regenerate`: a directory of files that becomes assets. Each file has ten assets, and one generator is called per
//! file.
//!
//! Phases: `first`, the run from nothing; `idle`, a look without a change; `edit`, ten assets edited in ten files, from
//! the written files to the sealed incarnation; `draft`, the part of `edit` after the source was read. `ns_each` of
//! `first` is per asset, of `idle` per file, of `edit` per edited asset; `p50_us` is the wall time of a whole run, of
//! `draft` without the reading. The peer `naive` reads through a source that remembers nothing, with the same engine.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use control_plane_runtime::TokioRuntime;
use futures::stream::BoxStream;
use plugin_sdk::{
    AssetType, Drafts, Generator, GeneratorInfo, Input, Located, Problems, Reading, SourceOfTruth,
    Update,
};
use prodspec_gen::{Handle, Pipeline, Regeneration, YamlDirectory, format::Limits, seal::InMemory};
use prodspec_model::{Asset, AssetId, PartitionId, Revision, SourceName};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    assets::JobType,
    files::{EACH, write},
    measure::{Meter, Sample, now},
    ours::runtime,
};

/// The scenario `regenerate` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "regenerate",
    about: "a directory of files: the first run, a look without a change, an edit of ten assets",
    target: "draft 1 ms, from disk 5 ms, an idle look 20 ms",
    sizes: Sizes {
        named: 100_000,
        all: 20_000,
        smoke: 1_000,
    },
    sides: &[(OURS, ours), ("naive", naive)],
};

/// Number of files that one edit changes, by one asset each.
const EDITED: usize = 10;
/// Number of measured runs of the phases `idle` and `edit`.
const TIMES: usize = 10;
/// Name of the source.
const SOURCE: &str = "jobs";

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    measure(n, |dir| {
        YamlDirectory::watch(dir).named(SOURCE).limits(limits())
    })
}

fn naive(n: usize) -> Result<Vec<Sample>, Error> {
    measure(n, |dir| Forgetful(dir.to_owned()))
}

fn measure<S: SourceOfTruth>(n: usize, source: fn(&Path) -> S) -> Result<Vec<Sample>, Error> {
    let dir = tempfile::tempdir()?;
    let files = n.div_ceil(EACH);
    for file in 0..files {
        write(dir.path(), file, 1)?;
    }
    let reading = Arc::new(Mutex::new(Duration::ZERO));
    let pipeline = Pipeline::builder(PartitionId::new("bench")?)
        .source(Timed(source(dir.path()), reading.clone()))
        .generator(Jobs)
        .asset_type(AssetType::<JobType>::new())
        .build()?;
    runtime()?.block_on(async {
        // The times of files that were just written do not tell their content.
        tokio::time::sleep(Duration::from_secs(4)).await;
        let runtime = TokioRuntime::current();
        let meter = Meter::start()?;
        let (regeneration, handle) =
            Regeneration::new(runtime, pipeline, Arc::new(InMemory::new()));
        let running = tokio::spawn(regeneration.run());
        run(&handle, n).await?;
        let mut samples = vec![meter.stop("first", n)?];
        let idle = repeat("idle", files, async |_| run(&handle, n).await).await?;
        samples.push(idle);
        let drafts = Mutex::new(Vec::new());
        let edit = async |nth: usize| {
            for file in 0..EDITED.min(files) {
                write(dir.path(), (nth * EDITED + file) % files, nth as u64 + 2)?;
            }
            let start = now();
            run(&handle, n).await?;
            let rest = start.elapsed().saturating_sub(*lock(&reading));
            lock(&drafts).push(rest);
            Ok(())
        };
        samples.push(repeat("edit", EDITED, edit).await?);
        let drafts = std::mem::take(&mut *lock(&drafts));
        samples.push(draft(drafts)?);
        drop(handle);
        running.await?;
        Ok(samples)
    })
}

/// Limits that let a million assets through.
fn limits() -> Limits {
    Limits {
        bytes: 1 << 30,
        ..Limits::default()
    }
}

/// Measures a phase of several runs with `units` of work each.
async fn repeat(
    phase: &str,
    units: usize,
    run: impl AsyncFn(usize) -> Result<(), Error>,
) -> Result<Sample, Error> {
    let mut latencies = Vec::with_capacity(TIMES);
    let meter = Meter::start()?;
    for nth in 0..TIMES {
        let start = now();
        run(nth).await?;
        latencies.push(start.elapsed());
    }
    Ok(meter.stop(phase, TIMES * units)?.latencies(latencies))
}

/// The phase `draft` with these latencies. Its processor time is part of `edit`.
fn draft(drafts: Vec<Duration>) -> Result<Sample, Error> {
    let total = drafts.iter().sum::<Duration>().as_secs_f64();
    let sample = Meter::start()?.stop("draft", drafts.len() * EDITED)?;
    let sample = sample.latencies(drafts);
    Ok(Sample {
        secs: total,
        ns_each: None,
        ..sample
    })
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for one run, which has to give `n` assets.
async fn run(handle: &Handle, n: usize) -> Result<(), Error> {
    let status = handle.next_run().await;
    let assets = status.incarnation.map(|header| header.assets as usize);
    match assets == Some(n.div_ceil(EACH) * EACH) && status.problems.is_empty() {
        true => Ok(()),
        false => Err(format!("{assets:?} assets; {}", status.problems).into()),
    }
}

/// Makes a job of each entry of a document.
struct Jobs;

impl Generator for Jobs {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("jobs", SOURCE).makes::<JobType>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let jobs: std::collections::BTreeMap<String, Located<JobType>> = document.read()?;
            for (name, job) in jobs {
                let from = document.provenance_at(&*job.path);
                let asset = Asset::builder(AssetId::new(&format!("job/{name}"))?);
                out.asset(asset.payload(&*job)?, from)?;
            }
        }
        Ok(())
    }
}

/// A source, and the time that its last reading took.
struct Timed<S>(S, Arc<Mutex<Duration>>);

#[async_trait]
impl<S: SourceOfTruth> SourceOfTruth for Timed<S> {
    fn name(&self) -> SourceName {
        self.0.name()
    }

    async fn read(&self) -> Result<Reading, Problems> {
        self.0.read().await
    }

    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        let start = now();
        let update = self.0.read_since(known).await;
        *lock(&self.1) = start.elapsed();
        update
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.0.changes()
    }
}

/// A directory that is read as if for the first time, at each look.
struct Forgetful(std::path::PathBuf);

#[async_trait]
impl SourceOfTruth for Forgetful {
    fn name(&self) -> SourceName {
        SourceName(SOURCE.into())
    }

    async fn read(&self) -> Result<Reading, Problems> {
        let source = YamlDirectory::new(&self.0).named(SOURCE);
        source.limits(limits()).read().await
    }
}
