//! `step-latency`: from the end of a call to the begin of the next one of the same execution, whose attempt is durable
//! before it, while `n` other executions are live and wait. The store is in memory.
//!
//! `ns_each` is the processor time of a step, `p50_us` and `p99_us` are wall times. The peer `limit` hands each event from
//! one thread to another.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use control_plane::{
    By,
    store::{MemoryStore, Store},
    workflow::{Answer, FunctionRequest, Machine, Outcome, Ran, Start, Workflow, from_fn, is},
};

use super::{
    OURS, Scenario, Sizes,
    waiting::{self, For},
};
use crate::{
    Error,
    lane::{self, Owned},
    measure::{Meter, Sample, now},
    ours::{HOUR, runtime},
    peers::limit,
};

/// The scenario `step-latency` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "step-latency",
    about: "answer of a call -> begin of the next call, store in memory, others live",
    target: "p50 30 us, p99 150 us",
    sizes: Sizes {
        named: 1_000,
        all: 1_000,
        smoke: 50,
    },
    sides: &[(OURS, ours), ("limit", |_| limit::latency(STEPS * TIMES))],
};

/// Number of measured steps of an execution.
const STEPS: usize = 100;
/// Number of executions, one after the other.
const TIMES: usize = 20;

/// When the newest call ended, and the times from each end to the next begin.
#[derive(Debug, Default)]
struct Seen {
    ended: Option<Instant>,
    latencies: Vec<Duration>,
}

impl Seen {
    /// Notes a call: it begins and ends here.
    fn call(&mut self) -> Ran {
        let (began, ended) = (now(), self.ended.take());
        let latency = ended.map(|ended| began.duration_since(ended));
        self.latencies.extend(latency);
        self.ended = Some(now());
        Answer::new().done()
    }
}

/// Steps that are called one after the other.
fn chain() -> Result<Workflow, Error> {
    let name = |step: usize| format!("s{step}");
    let mut chain = Workflow::new("chain").machine(Machine::calls(&*name(0), "step"));
    for step in 1..=STEPS {
        let before = is(&*name(step - 1), "done");
        chain = chain.machine(Machine::calls(&*name(step), "step").when(before));
    }
    Ok(chain.ends_well(is(&*name(STEPS), "done")).build()?)
}

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let called = seen.clone();
    let seen = || seen.lock().unwrap_or_else(PoisonError::into_inner);
    let step = move |_: FunctionRequest| {
        let ran = called.lock().unwrap_or_else(PoisonError::into_inner).call();
        async { Ok(ran) }
    };
    runtime()?.block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let lane = lane::run(store, &Owned::empty()?, |builder| {
            let step = from_fn(lane::keyed("step"), step);
            Ok(waiting::workflows(builder)?
                .function(step)
                .workflow(chain()?))
        })
        .await?;
        waiting::start(&lane.handle, For::People, n).await?;
        let meter = Meter::start()?;
        for _ in 0..TIMES {
            let by = By::new("benches", "measure");
            let started = lane.handle.start(Start::of("chain"), by).await?;
            let ended = lane.handle.wait(&started.id, HOUR).await?;
            if ended.outcome != Outcome::Succeeded {
                return Err(format!("{} {}", started.id, ended.outcome).into());
            }
            // The next execution begins anew.
            seen().ended = None;
        }
        let latencies = std::mem::take(&mut seen().latencies);
        if latencies.len() != STEPS * TIMES {
            return Err(format!("{} steps", latencies.len()).into());
        }
        Ok(vec![meter.stop("all", STEPS * TIMES)?.latencies(latencies)])
    })
}
