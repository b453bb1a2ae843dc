//! `claims`: `n` steps of executions with 1,000 labels. Each step takes one of ten places of its label, and one of a rate of
//! its label. The functions count what runs at once and what started, outside the lane. The store is in memory, and time is
//! virtual: it passes only while nothing can be done.
//!
//! In the phase `without` the dispatch stack has a layer for the places and one for the rate, and neither is about these
//! steps. In `with` both are, and hardly a step has to wait: few executions of a label are live at once, and the rate is
//! wide. `claims` is the difference. In `crowded` all start at once and the rate is narrow: nine of ten steps wait for a
//! place, and most then for their turn; `waiting` is the difference to `without`. `ns_each` is the processor time per step.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use control_plane::{
    By,
    checks::dispatch::{ClaimLayer, Work},
    prelude::Quota,
    runtime::{Runtime, TokioRuntime},
    sdk::Mono,
    store::{MemoryStore, Store},
    workflow::{
        Answer, ByCause, FunctionInfo, FunctionRequest, Machine, Outcome, Repeat, Start, Workflow,
        all, from_fn, is,
    },
};
use futures::{StreamExt, TryStreamExt, stream};
use tower::Layer;

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    lane::{self, Lane, Owned},
    measure::{Meter, Sample},
    ours::{HOUR, runtime},
};

/// The scenario `claims` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "claims",
    about: "steps of 1,000 labels, ten at once and a rate for each label, store in memory",
    target: "claims 2 us; limits are never passed",
    sizes: Sizes {
        named: 100_000,
        all: 20_000,
        smoke: 1_000,
    },
    sides: &[(OURS, ours)],
};

/// Number of labels.
const LABELS: usize = 1_000;
/// Number of steps of an execution, side by side.
const STEPS: usize = 5;
/// Number of executions of one label that start one after the other, so that their steps meet.
const TOGETHER: usize = 4;
/// Maximum number of steps of one label at once.
const PLACES: u32 = 10;
/// How often steps of one label start while there is a crowd.
const RATE: Quota = Quota::new(15, Duration::from_secs(1));
/// A rate that keeps none waiting.
const WIDE: Quota = Quota::new(1_000_000, Duration::from_secs(1));

/// How the steps meet their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limits {
    OfOthers,
    Free,
    Crowded,
}

/// What is known of a label outside the lane.
#[derive(Debug, Clone, Default)]
struct Counted {
    running: u32,
    most: u32,
    /// When steps began, in virtual time: as long as anything is to be done, it stands still.
    started: Vec<Mono>,
}

/// Counts for each label.
type Counts = Arc<Mutex<Vec<Counted>>>;

fn with<T>(counts: &Counts, label: usize, change: impl FnOnce(&mut Counted) -> T) -> Option<T> {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    counts.get_mut(label).map(change)
}

/// Counts a step and runs it for some turns of the runtime, so that others run beside it.
async fn step(counts: Counts, label: usize, began: Mono) {
    with(&counts, label, |it| {
        it.running += 1;
        it.most = it.most.max(it.running);
        it.started.push(began);
    });
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    with(&counts, label, |it| it.running -= 1);
}

async fn lane_of(counts: &Counts, limits: Limits) -> Result<Lane, Error> {
    let names = (0..STEPS).map(|no| format!("s{no}"));
    let mut steps = Workflow::new("steps");
    for name in names.clone() {
        steps = steps.machine(Machine::calls(&*name, "step"));
    }
    let steps = steps
        .ends_well(all(names.map(|name| is(&*name, "done"))))
        .build()?;
    let (counts, clock) = (counts.clone(), TokioRuntime::current());
    let step = move |request: FunctionRequest| {
        let (counts, began) = (counts.clone(), clock.now().mono);
        async move {
            let label = request.input::<usize>("label")?;
            step(counts, label, began).await;
            Ok(Answer::new().done())
        }
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    lane::run(store, &Owned::empty()?, |builder| {
        let info = FunctionInfo::new("step").repeat(Repeat::Safe);
        let label = if limits == Limits::OfOthers {
            "other"
        } else {
            "app"
        };
        let work = move || Work::per_label(label);
        let rate = if limits == Limits::Crowded {
            RATE
        } else {
            WIDE
        };
        Ok(builder
            .function(from_fn(info, step))
            .workflow(steps)
            .dispatch_in_memory()
            .dispatch(move |base: ByCause| {
                let rate = ClaimLayer::rate("rate", work(), rate).layer(base);
                ClaimLayer::at_most("places", work(), PLACES).layer(rate)
            }))
    })
    .await
}

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let without = phase("without", n, Limits::OfOthers)?;
    let with = phase("with", n, Limits::Free)?;
    let claims = difference("claims", &with, &without);
    let crowded = phase("crowded", n, Limits::Crowded)?;
    let waiting = difference("waiting", &crowded, &without);
    Ok(vec![without, with, claims, crowded, waiting])
}

fn difference(phase: &str, with: &Sample, without: &Sample) -> Sample {
    let each = with.ns_each.zip(without.ns_each);
    Sample {
        phase: phase.into(),
        n: with.n,
        cpu_s: with.cpu_s - without.cpu_s,
        ns_each: each.map(|(with, without)| with - without),
        ..Sample::default()
    }
}

/// Measures `n` steps.
fn phase(phase: &str, n: usize, limits: Limits) -> Result<Sample, Error> {
    let executions = n / STEPS;
    let counts: Counts = Arc::new(Mutex::new(vec![Counted::default(); LABELS]));
    runtime()?.block_on(async {
        tokio::time::pause();
        let lane = lane_of(&counts, limits).await?;
        let meter = Meter::start()?;
        let together = match limits {
            Limits::Crowded => executions,
            // The steps of two executions have places.
            _ => LABELS,
        };
        let labels = (0..executions).map(|no| match limits {
            Limits::Crowded => no / TOGETHER % LABELS,
            _ => no % LABELS,
        });
        let runs = stream::iter(labels)
            .map(|label| execution(&lane, label))
            .buffer_unordered(together);
        runs.try_for_each(async |()| Ok(())).await?;
        let sample = meter.stop(phase, n)?;
        let rate = match limits {
            Limits::OfOthers => return Ok(sample),
            Limits::Free => WIDE,
            Limits::Crowded => RATE,
        };
        for label in 0..LABELS {
            with(&counts, label, |it| limits_held(it, rate)).unwrap_or(Ok(()))?;
        }
        Ok(sample)
    })
}

/// Starts an execution and waits for its end.
async fn execution(lane: &Lane, label: usize) -> Result<(), Error> {
    let start = Start::of("steps")
        .label("app", format!("app-{label}"))
        .input(serde_json::json!({ "label": label }));
    let by = By::new("benches", "measure");
    let started = lane.handle.start(start, by).await?;
    match lane.handle.wait(&started.id, HOUR).await?.outcome {
        Outcome::Succeeded => Ok(()),
        other => Err(format!("{} {other}", started.id).into()),
    }
}

/// Whether a label never had more steps at once, and never started more in any time, than its limits allow.
fn limits_held(counted: &Counted, rate: Quota) -> Result<(), Error> {
    let most = |from: Mono, to: Mono| {
        let passed = to.since(from).as_nanos() / rate.every.as_nanos();
        u128::from(rate.burst) + passed
    };
    for (nth, from) in counted.started.iter().enumerate() {
        for (later, to) in counted.started.iter().enumerate().skip(nth) {
            let started = (later - nth + 1) as u128;
            if started > most(*from, *to) {
                return Err(
                    format!("{started} steps of a label started in {from:?}..{to:?}").into(),
                );
            }
        }
    }
    match counted.most <= PLACES {
        true => Ok(()),
        false => Err(format!("{} steps of a label ran at once", counted.most).into()),
    }
}
