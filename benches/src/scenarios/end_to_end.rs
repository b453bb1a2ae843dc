//! `end-to-end`: one field is edited in a file of a directory, until the asset is pushed. The files have ten assets each,
//! the store is SQLite, the whole control plane runs; the plugin answers at once.
//!
//! Phases: `first`, from nothing until all assets are pushed; `edit`, one edit after the other, each waited for, by a
//! program that writes the file; `edit-field`, the same by `Handle::edit`. `ns_each` of `first` is per asset, of the others
//! per edit; `p50_us` is the wall time of one edit.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use control_plane::{SourceEdit, prelude::*};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    assets::JobType,
    files::{EACH, first as name, write},
    measure::{Meter, Sample, now},
    ours::HOUR,
};

/// The scenario `end-to-end` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "end-to-end",
    about: "one field of a file edited, sealed, durable, diffed and pushed; SQLite",
    target: "p50 10 ms",
    sizes: Sizes {
        named: 10_000,
        all: 10_000,
        smoke: 500,
    },
    sides: &[(OURS, ours)],
};

/// Number of measured edits of each phase.
const TIMES: usize = 20;
/// Name of the source.
pub(super) const SOURCE: &str = "jobs";

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(n))
}

async fn run(n: usize) -> Result<Vec<Sample>, Error> {
    let (state, files) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let dir = files.path();
    for file in 0..n.div_ceil(EACH) {
        write(dir, file, 1)?;
    }
    // The times of files that were just written do not tell their content.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let production = Production::default();
    let plane = ControlPlane::builder("bench")
        .store(SqliteStore::open(state.path())?)
        .editable(YamlDirectory::watch(dir).named(SOURCE))
        .generator(Jobs)
        .asset_type(AssetType::<JobType>::new())
        .asset_plugin::<JobType>(Plugin::new(production.clone()))
        .config(Config::default().drift_period(HOUR))
        .build()?;
    let handle = plane.handle();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let meter = Meter::start()?;
    let running = tokio::spawn(plane.run(async { drop(stopped.await) }));
    handle.settle(HOUR).await?;
    let mut samples = vec![meter.stop("first", n)?.bytes(meter.grown()?)];

    let by_hand = async |turn: usize| {
        write(dir, turn, turn as u64 + 2)?;
        handle.settle(HOUR).await?;
        Ok(name(turn))
    };
    samples.push(repeat("edit", &production, 2, by_hand).await?);
    let by_program = async |turn: usize| {
        let path = format!("{}.version", name(turn)).parse()?;
        let document = format!("{turn:06}.yaml#0");
        let edit = FieldEdit::set(&document, path, turn as u64 + 2, turn as u64 + 3);
        let by = By::new("bench", "measured");
        handle
            .edit(&SourceEdit::new(SOURCE, by).field(edit))
            .await?;
        handle.settle(HOUR).await?;
        Ok(name(turn))
    };
    samples.push(repeat("edit-field", &production, 3, by_program).await?);
    let _ = stop.send(());
    running.await??;
    Ok(samples)
}

/// Measures edits, each of which gives the asset that it names the number of its turn and `more` as its version.
async fn repeat(
    phase: &str,
    production: &Production,
    more: u64,
    edit: impl AsyncFn(usize) -> Result<String, Error>,
) -> Result<Sample, Error> {
    let mut latencies = Vec::with_capacity(TIMES);
    let meter = Meter::start()?;
    for turn in 0..TIMES {
        let start = now();
        let name = edit(turn).await?;
        latencies.push(start.elapsed());
        let version = production.version(&name);
        if version != Some(turn as u64 + more) {
            return Err(format!("{phase} {turn}: {name} has version {version:?}").into());
        }
    }
    Ok(meter.stop(phase, TIMES)?.latencies(latencies))
}

/// Makes a job of each entry of a document.
pub(super) struct Jobs;

impl Generator for Jobs {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("jobs", SOURCE).makes::<JobType>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let jobs: BTreeMap<String, JobType> = document.read()?;
            for (name, job) in jobs {
                let asset = Asset::builder(AssetId::new(&name)?);
                out.asset(asset.payload(&job)?, document.provenance_at(name))?;
            }
        }
        Ok(())
    }
}

/// The versions that run.
#[derive(Debug, Clone, Default)]
pub(super) struct Production(Arc<Mutex<BTreeMap<AssetId, u64>>>);

impl Production {
    /// The version of an asset that runs.
    pub(super) fn version(&self, name: &str) -> Option<u64> {
        let id = AssetId::new(name).ok()?;
        self.lock().get(&id).copied()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<AssetId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The version that an asset wants.
fn version(asset: &Asset) -> Result<u64, plugin::Error> {
    let job = asset.payload::<JobType>();
    let job = job.map_err(|error| plugin::Error::permanent(error.to_string()))?;
    Ok(job.version())
}

#[async_trait]
impl AssetPlugin for Production {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let wanted = version(&asset)?;
        if self.lock().get(request.asset_id()) == Some(&wanted) {
            return Ok(Diff::in_sync());
        }
        Ok(Diff::differs(Change::new(
            &asset,
            "deploy",
            vec![],
            Effects::default(),
        )))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let asset = request.asset()?;
        let wanted = version(&asset)?;
        self.lock().insert(request.asset_id().clone(), wanted);
        Ok(Pushed::Done)
    }
}
