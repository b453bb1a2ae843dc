//! `workflow`: executions of three steps with SQLite, each step an empty function with an effect.
//!
//! Phases: `one`, one execution after the other, a tenth of `n`; `64`, sixty-four at a time; `all`, all `n` started at once.
//! `ns_each` is the processor time of an execution, `p50_us` its wall time from the start to its end. The peer `limit` forces
//! a kilobyte to the disk four times for each execution, one by one, and once for each sixty-four at a time.

use std::{fs, io::Write as _, time::Duration};

use control_plane::{
    By,
    runtime::TokioRuntime,
    workflow::{Answer, FunctionRequest, Machine, Outcome, Start, Workflow, from_fn, is},
    workflows::Handle,
};
use futures::{StreamExt, TryStreamExt, stream};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    lane::{self, Owned},
    measure::{Meter, Sample, now},
    ours::runtime,
    peers::program,
};

/// The scenario `workflow` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "workflow",
    about: "SQLite: executions of three empty steps, one by one, 64 at a time, all at once",
    target: "150 us; one by one p50 4.5 forced writes and 0.5 ms; 1/40 of dbos, 1/20 of restate",
    sizes: Sizes {
        named: 10_000,
        all: 2_000,
        smoke: 50,
    },
    sides: &[
        (OURS, ours),
        ("limit", limit),
        ("dbos", |n| program::python("workflow_dbos", n)),
        ("restate", |n| program::node("workflow_restate", n)),
        ("temporal", |n| program::python("workflow_temporal", n)),
    ],
};

/// Number of executions at a time in the second phase.
const SIDE_BY_SIDE: usize = 64;
/// Longest time for an execution.
const WITHIN: Duration = Duration::from_secs(600);

fn three_steps() -> Result<Workflow, Error> {
    let workflow = Workflow::new("three")
        .machine(Machine::calls("a", "empty"))
        .machine(Machine::calls("b", "empty").when(is("a", "done")))
        .machine(Machine::calls("c", "empty").when(is("b", "done")))
        .ends_well(is("c", "done"));
    Ok(workflow.build()?)
}

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let dir = tempfile::tempdir()?;
    let three = three_steps()?;
    runtime()?.block_on(async {
        let empty = async |_: FunctionRequest| Ok(Answer::new().done());
        let lane = lane::run(lane::sqlite(dir.path())?, &Owned::empty()?, |builder| {
            let empty = from_fn(lane::keyed("empty").in_memory(), empty);
            Ok(builder.function(empty).workflow(three))
        })
        .await?;
        Ok(vec![
            phase(&lane.handle, "one", n.div_ceil(10), 1).await?,
            phase(&lane.handle, "64", n, SIDE_BY_SIDE).await?,
            phase(&lane.handle, "all", n, n).await?,
        ])
    })
}

/// Runs `n` executions, at most `side_by_side` at a time.
async fn phase(
    handle: &Handle<TokioRuntime>,
    name: &str,
    n: usize,
    side_by_side: usize,
) -> Result<Sample, Error> {
    let meter = Meter::start()?;
    let latencies: Vec<Duration> = stream::iter(0..n)
        .map(|_| execution(handle))
        .buffer_unordered(side_by_side)
        .try_collect()
        .await?;
    Ok(meter.stop(name, n)?.latencies(latencies))
}

/// Starts an execution and waits for its end.
async fn execution(handle: &Handle<TokioRuntime>) -> Result<Duration, Error> {
    let start = now();
    let started = handle
        .start(Start::of("three"), By::new("benches", "measure"))
        .await?;
    let ended = handle.wait(&started.id, WITHIN).await?;
    match ended.outcome {
        Outcome::Succeeded => Ok(start.elapsed()),
        other => Err(format!("{} {other}", started.id).into()),
    }
}

fn limit(n: usize) -> Result<Vec<Sample>, Error> {
    let dir = tempfile::tempdir()?;
    let mut file = fs::File::create(dir.path().join("file"))?;
    let mut forced = |phase: &str, n: usize, executions: usize, times: usize| {
        let (meter, mut latencies) = (Meter::start()?, Vec::new());
        for _ in 0..n.div_ceil(executions) {
            let start = now();
            for _ in 0..times {
                file.write_all(&vec![0; executions << 10])?;
                file.sync_data()?;
            }
            latencies.push(start.elapsed());
        }
        Ok::<_, Error>(meter.stop(phase, n)?.latencies(latencies))
    };
    Ok(vec![
        forced("one", n.div_ceil(10), 1, 4)?,
        forced("64", n, SIDE_BY_SIDE, 4)?,
        forced("all", n, n, 4)?,
    ])
}
