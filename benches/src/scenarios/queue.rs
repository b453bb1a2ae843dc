//! `queue`: `n` messages, each pushed durably, run once and ended. A message is an execution of one step, an empty function
//! with an effect. On SQLite, and as `queue-postgres` (or `queue --backend postgres`) on PostgreSQL.
//!
//! `ns_each` is the processor time of a message, the server of a database included; `n / secs` is the rate. The peers, if they
//! are installed: `huey` with SQLite, and `procrastinate` and `graphile-worker` with a PostgreSQL server of their own, which
//! does not force its commits to the disk. They push before they run.

use std::sync::Arc;

use control_plane::{
    By,
    store::Store,
    workflow::{Answer, FunctionRequest, Machine, Outcome, Start, Workflow, from_fn, is},
};
use control_plane_store_postgres::PostgresStore;
use futures::{StreamExt, TryStreamExt, stream};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    lane::{self, Lane, Owned},
    measure::{Meter, Sample},
    ours::{HOUR, runtime},
    peers::program,
};

/// The scenario `queue` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "queue",
    about: "SQLite: messages pushed durably, run and ended",
    target: "1/8 of graphile-worker, at 10x its rate",
    sizes: Sizes {
        named: 100_000,
        all: 5_000,
        smoke: 100,
    },
    sides: &[
        (OURS, ours),
        ("graphile-worker", |n| {
            program::node_on_postgres("queue_graphile", n)
        }),
        ("procrastinate", |n| {
            program::python_on_postgres("queue_procrastinate", n)
        }),
        ("huey", |n| program::python("queue_huey", n)),
    ],
};

/// The same on PostgreSQL.
pub(super) static ON_POSTGRES: Scenario = Scenario {
    name: "queue-postgres",
    about: "PostgreSQL: messages pushed durably, run and ended",
    target: "4x the rate of graphile-worker on the same server",
    sizes: Sizes {
        named: 20_000,
        all: 5_000,
        smoke: 100,
    },
    sides: &[
        (OURS, ours_on_postgres),
        ("graphile-worker", |n| {
            program::node_on_postgres("queue_graphile", n)
        }),
        ("procrastinate", |n| {
            program::python_on_postgres("queue_procrastinate", n)
        }),
    ],
};

/// Number of messages that are pushed and not ended.
const SIDE_BY_SIDE: usize = 1_000;

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let dir = tempfile::tempdir()?;
    runtime()?.block_on(async { messages(lane::sqlite(dir.path())?, n).await })
}

fn ours_on_postgres(n: usize) -> Result<Vec<Sample>, Error> {
    program::on_postgres(|url| {
        program::runtime()?
            .block_on(async { messages(Arc::new(PostgresStore::connect(url).await?), n).await })
    })
}

async fn messages(store: Arc<dyn Store>, n: usize) -> Result<Vec<Sample>, Error> {
    let message = Workflow::new("message")
        .machine(Machine::calls("run", "run"))
        .ends_well(is("run", "done"))
        .build()?;
    let run = async |_: FunctionRequest| Ok(Answer::new().done());
    let lane = lane::run(store, &Owned::empty()?, |builder| {
        let run = from_fn(lane::keyed("run").in_memory(), run);
        Ok(builder.function(run).workflow(message))
    })
    .await?;
    let meter = Meter::start()?;
    let messages = stream::iter(0..n)
        .map(|no| handled(&lane, no))
        .buffer_unordered(SIDE_BY_SIDE);
    messages.try_for_each(async |()| Ok(())).await?;
    Ok(vec![meter.stop("all", n)?])
}

/// Pushes a message and waits for its end.
async fn handled(lane: &Lane, no: usize) -> Result<(), Error> {
    let message = Start::of("message").input(serde_json::json!({ "no": no }));
    let by = By::new("benches", "measure");
    let started = lane.handle.start(message, by).await?;
    match lane.handle.wait(&started.id, HOUR).await?.outcome {
        Outcome::Succeeded => Ok(()),
        other => Err(format!("{} {other}", started.id).into()),
    }
}
