//! `cron`: `n` schedules, from every minute to once a day, in five zones.
//!
//! Phases: `next`, the instants of a day, on which two of the zones change the clock; `decided`, the same day with the
//! decision, the start and the end of each slot; `run`, an hour of virtual time of a hundredth of the schedules in a lane,
//! whose runs call an empty function, with a store in memory; `idle`, an hour of virtual time of a lane with `n` schedules
//! without a slot. `ns_each` is the processor time per slot, of `idle` per schedule; `cpu_s / secs` of `idle` is the share of a
//! core. The peers, if python has them: `croniter` for the instants, `apscheduler` for the decisions of its triggers, and for
//! runs from its job store in SQLite.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use control_plane::{
    runtime::{Runtime, TokioRuntime},
    sdk::{Mono, Now},
    store::{MemoryStore, Store},
    workflow::{
        Answer, CronOperation, FunctionInfo, FunctionRequest, Operation, PipelineStep, Repeat,
        Schedule as When, from_fn,
    },
    workflows::cron::{Decision, Schedule, Slots, Wanted},
};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use prodspec_model::{Asset, AssetId, Incarnation, IncarnationNo, Snapshot};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    lane::{self, Lane, Owned},
    measure::{Meter, Sample},
    ours::{HOUR, incarnation, runtime},
    peers::program,
};

/// The scenario `cron` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "cron",
    about: "schedules in five zones: the instants of a day, the decisions, the runs of an hour, an idle hour",
    target: "3 us per slot decided; idle 0; 1/50 of apscheduler, next 1/50 of croniter",
    sizes: Sizes {
        named: 10_000,
        all: 2_000,
        smoke: 50,
    },
    sides: &[
        (OURS, ours),
        ("croniter", |n| program::python("cron_croniter", n)),
        ("apscheduler", |n| program::python("cron_apscheduler", n)),
    ],
};

/// The zones; Sydney and London change the clock within eight days of the day of the measurement.
const ZONES: [&str; 5] = [
    "UTC",
    "Europe/London",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Sydney",
];

/// The day on which London goes over to summer time.
fn day() -> Result<(Timestamp, Timestamp), Error> {
    let begin: Timestamp = "2026-03-29T00:00:00Z".parse()?;
    Ok((begin, begin + SignedDuration::from_hours(24)))
}

/// The expression and the zone of schedule number `no`.
fn expression(no: usize) -> (String, &'static str) {
    let (minute, hour) = (no % 60, no / 60 % 24);
    let cron = match no % 5 {
        0 => "* * * * *".to_owned(),
        1 => "*/5 * * * *".to_owned(),
        2 => format!("{minute} * * * *"),
        3 => format!("{minute} {},{} * * *", hour / 2, 12 + hour / 2),
        _ => format!("{minute} {hour} * * *"),
    };
    (cron, ZONES[no / 5 % ZONES.len()])
}

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    Ok(vec![next(n)?, decided(n)?, run(n.div_ceil(100))?, idle(n)?])
}

/// Measures the instants of a day.
fn next(n: usize) -> Result<Sample, Error> {
    let (begin, end) = day()?;
    let all = (0..n).map(|no| {
        let (cron, zone) = expression(no);
        Slots::new(&cron, Some(zone))
    });
    let all = all.collect::<Result<Vec<_>, _>>()?;
    let (meter, mut slots) = (Meter::start()?, 0);
    for schedule in &all {
        let mut at = begin;
        while let Some(slot) = schedule.next(at).filter(|slot| *slot < end) {
            (at, slots) = (slot, slots + 1);
        }
    }
    meter.stop("next", slots)
}

/// Measures the decisions of a day: each slot starts and ends.
fn decided(n: usize) -> Result<Sample, Error> {
    let (begin, end) = day()?;
    let all = (0..n).map(|no| {
        let (cron, zone) = expression(no);
        let mut wanted = Wanted::new(cron);
        wanted.zone = Some(zone.to_owned());
        Schedule::new(wanted, begin)
    });
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    let (meter, mut slots) = (Meter::start()?, 0);
    for schedule in &mut all {
        let mut at = begin;
        while at < end {
            match schedule.decide(at) {
                Decision::Start { slot } => {
                    schedule.started(slot, at);
                    schedule.take_changed();
                    schedule.ended(slot);
                    schedule.take_changed();
                    slots += 1;
                }
                Decision::Wait { until: Some(until) } => at = until,
                other => return Err(format!("{other:?}").into()),
            }
        }
    }
    meter.stop("decided", slots)
}

/// A tokio runtime whose wall clock goes with tokio's clock, which can be paused.
#[derive(Clone)]
struct Virtual {
    tokio: TokioRuntime,
    begin: Timestamp,
}

impl Runtime for Virtual {
    fn now(&self) -> Now {
        let mono = self.tokio.now().mono;
        let since = SignedDuration::from_nanos(i64::try_from(mono.0).unwrap_or(i64::MAX));
        Now {
            mono,
            wall: self.begin + since,
        }
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()> {
        self.tokio.sleep_until(at)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.tokio.spawn(task);
    }
}

/// A lane with schedules that call an empty function, and the number of its calls.
async fn lane_of(
    n: usize,
    expression: impl Fn(usize) -> (String, &'static str),
) -> Result<(Lane<Virtual>, Arc<AtomicUsize>), Error> {
    tokio::time::pause();
    let (tokio, begin) = (TokioRuntime::current(), day()?.0);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let owned = Owned::of(schedules(n, expression)?);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let empty = move |_: FunctionRequest| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Answer::new().done()) }
    };
    let lane = lane::run_on(Virtual { tokio, begin }, store, &owned, None, |builder| {
        let info = FunctionInfo::new("empty").repeat(Repeat::Safe).in_memory();
        Ok(builder.function(from_fn(info, empty)))
    })
    .await?;
    let known = lane.handle.schedules().await?.len();
    match known == n {
        true => Ok((lane, calls)),
        false => Err(format!("{known} of {n} schedules").into()),
    }
}

/// An incarnation of `n` schedules.
fn schedules(
    n: usize,
    expression: impl Fn(usize) -> (String, &'static str),
) -> Result<Incarnation, Error> {
    let schedule = |no: usize| -> Result<Asset, Error> {
        let (cron, zone) = expression(no);
        let content = CronOperation {
            schedule: When::new(cron).zone(zone),
            starting_deadline_secs: None,
            concurrency: Default::default(),
            history: Default::default(),
            template: Operation::pipeline([PipelineStep::new("run", "empty")]),
        };
        let asset = Asset::builder(AssetId::new(&format!("cron/{no:06}"))?);
        Ok(asset.payload(&content)?.build()?)
    };
    let all = (0..n).map(schedule).collect::<Result<Vec<_>, _>>()?;
    incarnation(None, Snapshot::empty().edit(IncarnationNo(1), all, &[]))
}

/// Measures an hour of runs.
fn run(n: usize) -> Result<Sample, Error> {
    runtime()?.block_on(async {
        let (lane, calls) = lane_of(n, expression).await?;
        let meter = Meter::start()?;
        tokio::time::sleep(HOUR).await;
        let runs = calls.load(Ordering::Relaxed);
        let sample = meter.stop("run", runs)?.lasting(HOUR);
        drop(lane);
        // One schedule has a slot each minute.
        match runs >= 59 {
            true => Ok(sample),
            false => Err(format!("{runs} runs").into()),
        }
    })
}

/// Measures an hour without a slot.
fn idle(n: usize) -> Result<Sample, Error> {
    let yearly = |no: usize| ("0 0 1 1 *".to_owned(), ZONES[no % ZONES.len()]);
    runtime()?.block_on(async {
        let (lane, calls) = lane_of(n, yearly).await?;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let meter = Meter::start()?;
        tokio::time::sleep(HOUR).await;
        let sample = meter.stop("idle", n)?.lasting(HOUR);
        drop(lane);
        match calls.load(Ordering::Relaxed) {
            0 => Ok(sample),
            runs => Err(format!("{runs} runs").into()),
        }
    })
}
