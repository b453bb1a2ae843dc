//! A lower bound: a hand-written loop that does the same work without the safety of a control plane.

use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};
use prodspec_model::{Asset, Digest};
use tokio::sync::mpsc;

use crate::{
    Error,
    assets::{jobs, shuffled},
    measure::{Meter, Sample, now},
};

/// A plugin behind a virtual call and a boxed future, like the real plugins.
trait Plugin {
    fn in_sync(&self, asset: Asset) -> BoxFuture<'static, bool>;
}

/// A plugin whose production always matches intent.
struct Right;

impl Plugin for Right {
    fn in_sync(&self, asset: Asset) -> BoxFuture<'static, bool> {
        Box::pin(async move { !asset.id_str().is_empty() })
    }
}

/// The minimum of state that a loop keeps per asset.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    due: u64,
    seq: u32,
    settled: bool,
}

/// Diffs every asset once, in a scattered order, and notes when it is due again. Returns the number of settled assets.
fn round(assets: &[Asset], slots: &mut [Slot], plugin: &dyn Plugin, due: u64) -> usize {
    let mut settled = 0;
    for turn in 0..assets.len() {
        let at = shuffled(turn, assets.len());
        let asset = assets[at].clone();
        let slot = &mut slots[at];
        slot.settled = plugin.in_sync(asset).now_or_never() == Some(true);
        slot.due = due;
        slot.seq += 1;
        settled += usize::from(slot.settled);
    }
    settled
}

fn settle(n: usize, assets: &[Asset], slots: &mut [Slot], due: u64) -> Result<(), Error> {
    let settled = round(assets, slots, &Right, due);
    if settled == n {
        return Ok(());
    }
    Err(format!("{settled} of {n} assets are settled").into())
}

/// Measures one round of diffs over `n` assets.
pub(crate) fn burst(n: usize) -> Result<Vec<Sample>, Error> {
    let assets = jobs(n)?;
    let mut slots = vec![Slot::default(); n];
    let meter = Meter::start()?;
    settle(n, &assets, &mut slots, 1)?;
    Ok(vec![meter.stop("all", n)?])
}

/// Measures the memory of the slots for `n` assets, and one round per period.
pub(crate) fn idle(n: usize) -> Result<Vec<Sample>, Error> {
    let assets = jobs(n)?;
    let meter = Meter::start()?;
    let mut slots = vec![Slot::default(); n];
    settle(n, &assets, &mut slots, 60)?;
    let settled = meter.stop("settled", n)?.bytes(meter.grown()?);
    let mut samples = vec![settled];
    for (phase, period) in [("60s", 60), ("1h", 3_600)] {
        let meter = Meter::start()?;
        settle(n, &assets, &mut slots, period)?;
        let sample = meter.stop(phase, n)?;
        samples.push(sample.lasting(Duration::from_secs(period)));
    }
    Ok(samples)
}

/// Measures how long each of `events` takes from one thread to a task on another thread.
pub(crate) fn latency(events: usize) -> Result<Vec<Sample>, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()?;
    let (outbox, mut inbox) = mpsc::unbounded_channel();
    let (answers, mut started) = mpsc::unbounded_channel();
    runtime.spawn(async move {
        while let Some(digest) = inbox.recv().await {
            if answers.send((now(), digest)).is_err() {
                return;
            }
        }
    });
    runtime.block_on(async {
        let meter = Meter::start()?;
        let mut latencies = Vec::with_capacity(events);
        for event in 0..events {
            let digest = Digest::of(&event.to_le_bytes());
            let sealed = now();
            outbox.send(digest)?;
            let (start, _) = started.recv().await.ok_or("the task has ended")?;
            latencies.push(start - sealed);
        }
        Ok(vec![meter.stop("all", events)?.latencies(latencies)])
    })
}
