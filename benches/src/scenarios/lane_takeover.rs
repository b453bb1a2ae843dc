//! `lane-takeover`: the next owner of `n` live executions that wait, half of them for times and half for people, after its
//! process was killed: from the opening of the directory to its first call.
//!
//! The files are copied while the store is open: a killed process leaves the same. `ns_each` is the processor time per live
//! execution, `p50_us` the wall time to the first call, which is that of a step that was in flight.

use std::{
    fs,
    future::pending,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use control_plane::{
    By,
    workflow::{FunctionRequest, Machine, Ran, Start, Workflow, from_fn, is},
};
use tokio::sync::Notify;

use super::{
    OURS, Scenario, Sizes,
    waiting::{self, For},
};
use crate::{
    Error,
    lane::{self, Lane, Owned},
    measure::{Meter, Sample},
    ours::runtime,
};

/// The scenario `lane-takeover` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "lane-takeover",
    about: "SQLite: the next owner of live executions, until its first call",
    target: "2 s; per live execution at 100,000 1.3x that at 10,000",
    sizes: Sizes {
        named: 100_000,
        all: 10_000,
        smoke: 200,
    },
    sides: &[(OURS, ours)],
};

/// Counts calls that never end, and tells of each.
#[derive(Debug, Default)]
struct Calls {
    made: AtomicUsize,
    told: Notify,
}

/// Runs the lane of a directory. `calls` counts the calls of its only step.
async fn owner(dir: &Path, calls: &Arc<Calls>) -> Result<Lane, Error> {
    let hangs = Workflow::new("hangs")
        .machine(Machine::calls("hang", "hang"))
        .ends_well(is("hang", "done"))
        .build()?;
    let calls = calls.clone();
    let hang = move |_: FunctionRequest| {
        calls.made.fetch_add(1, Ordering::Relaxed);
        calls.told.notify_one();
        pending::<Result<Ran, _>>()
    };
    lane::run(lane::sqlite(dir)?, &Owned::empty()?, |builder| {
        let hang = from_fn(lane::keyed("hang"), hang);
        Ok(waiting::workflows(builder)?.function(hang).workflow(hangs))
    })
    .await
}

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let (dir, copied) = (tempfile::tempdir()?, tempfile::tempdir()?);
    runtime()?.block_on(async {
        let calls = Arc::new(Calls::default());
        let before = owner(dir.path(), &calls).await?;
        waiting::start(&before.handle, For::Times, n / 2).await?;
        waiting::start(&before.handle, For::People, n - n / 2 - 1).await?;
        let by = By::new("benches", "measure");
        before.handle.start(Start::of("hangs"), by).await?;
        calls.told.notified().await;
        for file in fs::read_dir(dir.path())? {
            let file = file?;
            fs::copy(file.path(), copied.path().join(file.file_name()))?;
        }
        drop(before);

        let calls = Arc::new(Calls::default());
        let meter = Meter::start()?;
        let next = owner(copied.path(), &calls).await?;
        calls.told.notified().await;
        let sample = meter.stop("all", n)?.latencies(vec![meter.elapsed()]);
        let sample = sample.bytes(meter.grown()?);
        let live = next.live().await?;
        match (live == n, calls.made.load(Ordering::Relaxed)) {
            (true, 1) => Ok(vec![sample]),
            (_, calls) => Err(format!("{live} executions are live, {calls} calls").into()),
        }
    })
}
