//! The scrape loops: find the cells, ask each cell for its processes, and each process for its counters. Each cell has
//! a loop of its own, so that a cell that hangs does not delay the others.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use bytes::Bytes;
use control_plane::prelude::{BoxError, Timestamp};
use http_body_util::Full;
use hyper::Request;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use super::{
    Seen,
    text::{self, Sample},
};
use crate::production::{
    api::MetricsTarget,
    client::Cell,
    clock::now_micros,
    http::{self, Http},
    meter,
};

/// Interval between two scrapes.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum time for an answer of a cell or a process. After that, it counts as not answering.
const PATIENCE: Duration = Duration::from_secs(2);

/// Scrapes every cell in `dir`, for ever.
pub(super) async fn all(dir: PathBuf, seen: Seen) {
    let mut known = BTreeSet::new();
    // Dropping the set aborts the loops.
    let mut loops = JoinSet::new();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for name in names(&dir) {
            if known.insert(name.clone()) {
                loops.spawn(one(dir.join(&name), name, seen.clone()));
            }
        }
    }
}

fn names(dir: &PathBuf) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Scrapes one cell, for ever.
async fn one(dir: PathBuf, name: String, seen: Seen) {
    let http = http::client();
    let mut cell = None;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = now();
        let there = timeout(PATIENCE, async {
            let there = match cell.take() {
                Some(there) => there,
                None => Cell::connect(&dir, &name).await?,
            };
            let targets = there.targets().await?;
            Ok::<_, BoxError>((there, targets))
        });
        match there.await {
            Ok(Ok((there, targets))) => {
                cell = Some(there);
                seen.window().listed(&name, asked, &targets);
                scrape(&http, &name, targets, &seen).await;
            }
            Ok(Err(_)) | Err(_) => seen.window().lost(&name, asked),
        }
    }
}

async fn scrape(http: &Http, cell: &str, targets: Vec<MetricsTarget>, seen: &Seen) {
    let mut answers = JoinSet::new();
    for target in targets {
        let http = http.clone();
        answers.spawn(async move {
            // The samples get the time of the question: the answer contains at least all counts up to then.
            let asked = now();
            let said = ask(&http, &target).await;
            (target, asked, said)
        });
    }
    while let Some(answer) = answers.join_next().await {
        match answer {
            Ok((target, asked, Ok(samples))) => {
                seen.window().scraped(cell, &target, asked, samples);
            }
            Ok((target, _, Err(error))) => {
                tracing::debug!(
                    cell,
                    target.resource,
                    error,
                    "cannot read metrics; trying again in a second"
                );
                seen.window().silent(cell, &target);
            }
            Err(error) => {
                tracing::error!(cell, %error, "a scrape task failed; trying again in a second")
            }
        }
    }
}

async fn ask(http: &Http, target: &MetricsTarget) -> Result<Vec<Sample>, BoxError> {
    let uri = format!("http://{}{}", target.address, meter::PATH);
    let request = Request::get(uri).body(Full::new(Bytes::new()))?;
    let answer = http::call_at_most(http, request, PATIENCE, text::BYTES).await?;
    if !answer.status().is_success() {
        return Err(format!("it answered {}", answer.status()).into());
    }
    Ok(text::parse(answer.body())?)
}

fn now() -> Timestamp {
    let micros = i64::try_from(now_micros()).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
}
