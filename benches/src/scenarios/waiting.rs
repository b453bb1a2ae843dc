//! `waiting`: `n` live executions that wait: a third for times, a third for assets, a third for people. SQLite, so that the
//! memory is that of the lane.
//!
//! Phases `times`, `assets` and `people`: `ns_each` is the processor time of a start, until it is durable, and `bytes_each`
//! the growth of resident memory. Phase `idle`: an hour of virtual time in which nothing happens; `cpu_s / secs` is the share
//! of a core. The peer `limit` has a tokio task for each, without any state.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use control_plane::{
    By,
    prelude::{AssetId, BoxError, FieldEdit, plugin},
    runtime::TokioRuntime,
    sdk::{
        Edits, Holder,
        port::{HeldEdit, Made, SettleReply, SettleRequest, WaitNo},
    },
    store::{Batch, Store},
    workflow::{
        Answer, FunctionInfo, FunctionRequest, Machine, Power, Repeat, Start, Workflow, any,
        from_fn, is,
    },
    workflows::{Handle, WorkflowsBuilder},
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::oneshot;

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    lane::{self, Lane, Owned},
    measure::{Meter, Sample},
    ours::{HOUR, runtime},
};

/// The scenario `waiting` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "waiting",
    about: "live executions that wait: for times, for assets, for people; then an hour without events",
    target: "600 B each; idle 0.01 core",
    sizes: Sizes {
        named: 99_000,
        all: 9_000,
        smoke: 300,
    },
    sides: &[(OURS, ours), ("limit", limit)],
};

/// What an execution waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum For {
    Times,
    Assets,
    People,
}

impl For {
    const ALL: [Self; 3] = [Self::Times, Self::Assets, Self::People];

    /// The name of the workflow whose executions wait for it.
    const fn name(self) -> &'static str {
        match self {
            Self::Times => "times",
            Self::Assets => "assets",
            Self::People => "people",
        }
    }
}

/// Number of starts that wait for the disk together.
const SIDE_BY_SIDE: usize = 256;
/// Maximum number of executions that have started and do not wait yet.
const LAG: usize = 1_000;
/// Executions of each kind that start before the measurement.
const WARM: usize = 20;
/// Number and size of the rows that fill the page cache of SQLite before the measurement: its size is fixed.
const CACHED: (usize, usize) = (100, 200 << 10);
/// A time that does not pass.
const MONTH: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Edits nothing, and its assets are never in sync. It keeps the waits for them.
#[derive(Default)]
struct Never(Mutex<BTreeSet<SettleReply>>);

impl Never {
    /// Number of the waits.
    fn waits(&self) -> usize {
        lock(&self.0).len()
    }
}

fn lock<T>(waits: &Mutex<T>) -> MutexGuard<'_, T> {
    waits.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Edits for Never {
    async fn edit(&self, _: &HeldEdit) -> Result<Made, plugin::Error> {
        let asset = AssetId::new("job/eu");
        let asset = asset.map_err(|error| plugin::Error::permanent(error.to_string()))?;
        Ok(Made {
            assets: vec![asset],
            ..Made::default()
        })
    }

    fn settle(&self, _: SettleRequest, reply: SettleReply) {
        lock(&self.0).insert(reply);
    }

    fn forget(&self, wait: WaitNo) {
        lock(&self.0).remove(&wait);
    }

    async fn release(&self, _: &Holder) -> Result<(), BoxError> {
        Ok(())
    }

    async fn holders(&self) -> Result<BTreeSet<Holder>, BoxError> {
        Ok(BTreeSet::new())
    }
}

/// Registers the workflows that wait.
pub(super) fn workflows(
    builder: WorkflowsBuilder<TokioRuntime>,
) -> Result<WorkflowsBuilder<TokioRuntime>, Error> {
    let times = Workflow::new(For::Times.name())
        .machine(Machine::waits("rest", MONTH))
        .ends_well(is("rest", "done"))
        .build()?;
    let assets = Workflow::new(For::Assets.name())
        .machine(Machine::calls("change", "change").settles(MONTH))
        .ends_well(is("change", "done"))
        .ends_badly(any(
            ["overwritten", "rolled_back", "expired"].map(|state| is("change", state))
        ))
        .build()?;
    let people = Workflow::new(For::People.name())
        .machine(Machine::asks("go", "Go on?", ["yes", "no"]))
        .ends_well(is("go", "yes"))
        .ends_badly(is("go", "no"))
        .build()?;
    let change = FunctionInfo::new("change")
        .repeat(Repeat::Safe)
        .may(Power::edit("jobs", "eu.version"));
    let edit = async |_: FunctionRequest| {
        let path = "eu.version".parse();
        let path = path.map_err(|_| plugin::Error::permanent("a path"))?;
        Ok(Answer::new()
            .edit("jobs", FieldEdit::set("jobs#0", path, 1, 2))
            .done())
    };
    Ok(builder
        .function(from_fn(change, edit))
        .workflow(times)
        .workflow(assets)
        .workflow(people))
}

/// Starts `n` executions that wait, and returns when all of it is durable.
pub(super) async fn start(handle: &Handle<TokioRuntime>, what: For, n: usize) -> Result<(), Error> {
    let started = stream::iter(0..n)
        .map(|_| handle.start(Start::of(what.name()), By::new("benches", "measure")))
        .buffer_unordered(SIDE_BY_SIDE);
    started.try_for_each(async |_| Ok(())).await?;
    Ok(())
}

/// A lane with the workflows that wait.
async fn lane_of(store: Arc<dyn Store>, edits: Arc<Never>) -> Result<Lane, Error> {
    let (runtime, owned) = (TokioRuntime::current(), Owned::empty()?);
    lane::run_on(runtime, store, &owned, Some(edits), workflows).await
}

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let dir = tempfile::tempdir()?;
    runtime()?.block_on(async {
        let edits = Arc::new(Never::default());
        let store = lane::sqlite(dir.path())?;
        let (rows, size) = CACHED;
        for row in 0..rows {
            let batch = Batch::new().put(format!("cached/{row}"), vec![0; size]);
            store.commit(batch).await?;
        }
        let lane = lane_of(store, edits.clone()).await?;
        for what in For::ALL {
            start(&lane.handle, what, WARM).await?;
        }
        let (mut samples, each) = (Vec::new(), n / For::ALL.len());
        for what in For::ALL {
            let meter = Meter::start()?;
            // Few lag behind: what is measured is executions that wait, not those that are about to.
            for begun in (0..each).step_by(LAG) {
                start(&lane.handle, what, LAG.min(each - begun)).await?;
                let waits = WARM + (begun + LAG).min(each);
                while matches!(what, For::Assets) && edits.waits() < waits {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            let sample = meter.stop(what.name(), each)?;
            samples.push(sample.bytes(meter.grown()?));
        }
        samples.push(idle(n).await?);
        let live = lane.live().await?;
        match live == (WARM + each) * For::ALL.len() {
            true => Ok(samples),
            false => Err(format!("{live} executions are live").into()),
        }
    })
}

/// Measures the second of two hours without events.
async fn idle(n: usize) -> Result<Sample, Error> {
    tokio::time::pause();
    tokio::time::sleep(HOUR).await;
    let meter = Meter::start()?;
    tokio::time::sleep(HOUR).await;
    Ok(meter.stop("idle", n)?.lasting(HOUR))
}

fn limit(n: usize) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let (mut samples, each) = (Vec::new(), n / For::ALL.len());
        let mut senders = Vec::new();
        for what in For::ALL {
            senders.reserve(each);
            let meter = Meter::start()?;
            for _ in 0..each {
                match what {
                    For::Times => drop(tokio::spawn(tokio::time::sleep(MONTH))),
                    _ => {
                        let (sender, answer) = oneshot::channel::<()>();
                        senders.push(sender);
                        tokio::spawn(async move { drop(answer.await) });
                    }
                }
            }
            tokio::task::yield_now().await;
            let sample = meter.stop(what.name(), each)?;
            samples.push(sample.bytes(meter.grown()?));
        }
        samples.push(idle(n).await?);
        Ok(samples)
    })
}
