//! This process among those that share the store: one heartbeat for all partitions that it enforces.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{channel::mpsc::UnboundedSender, lock::Mutex};
use plane_runtime::Runtime;
use plane_store::{
    Store,
    owner::{Acquire, Beat, Process, ProcessId},
};
use plugin_sdk::{FencingToken, Mono, with_causes};
use prodspec_model::PartitionId;

use super::{Input, pulse::Pulse};
use crate::kernel::Event;

/// The default term: a process is dead when it has not been heard of for so long.
pub const TERM: Duration = Duration::from_secs(15);

/// The enforcers that share a heartbeat.
type Enforcers = std::sync::Mutex<Vec<Enrolled>>;

/// One of them: how to tell it, and whether its loop answers.
struct Enrolled {
    partition: PartitionId,
    events: UnboundedSender<Input>,
    pulse: Pulse,
}

/// One process's heartbeat, shared by the enforcers in it. Cheap to clone.
#[derive(Clone)]
pub struct Membership<R> {
    runtime: R,
    term: Duration,
    process: Arc<Mutex<Process>>,
    enforcers: Arc<Enforcers>,
    /// Held by the members only, so that the last to leave knows that it is.
    members: Arc<()>,
}

impl<R: Runtime> Membership<R> {
    /// Joins those who share `store`, as `process`, which must be new with every start. Beats until it is dropped
    /// everywhere.
    pub fn join(runtime: R, store: Arc<dyn Store>, process: ProcessId, term: Duration) -> Self {
        let clock = runtime.clone();
        let process = Process::new(store, process, term, Arc::new(move || clock.now().mono));
        let this = Self {
            runtime: runtime.clone(),
            term,
            process: Arc::new(Mutex::new(process)),
            enforcers: Arc::default(),
            members: Arc::default(),
        };
        let (weak, enforcers) = (
            Arc::downgrade(&this.process),
            Arc::downgrade(&this.enforcers),
        );
        let members = Arc::downgrade(&this.members);
        let beats = runtime.clone();
        runtime.spawn(Box::pin(async move {
            let mut withheld = false;
            while let (Some(process), Some(enforcers)) = (weak.upgrade(), enforcers.upgrade()) {
                let mut beating = process.lock().await;
                // The last one has left, or is about to: not again.
                if members.strong_count() == 0 {
                    return;
                }
                let now = beats.now().mono;
                let silent = silent(&enforcers);
                let next = match none_answers(&enforcers) {
                    true => now + term / 9,
                    false => beat(&beats, &mut beating, &enforcers, term).await,
                };
                if silent.is_empty() {
                    withheld = false;
                } else if !std::mem::replace(&mut withheld, true) {
                    let partitions: Vec<_> = silent.iter().map(|(id, _)| id).collect();
                    tracing::warn!(
                        ?partitions,
                        "the enforcement loop does not answer; its lease is not renewed before it does"
                    );
                }
                give_up(&mut beating, &enforcers, silent, now, term).await;
                give_back(&mut beating, &enforcers).await;
                drop(beating);
                drop((process, enforcers));
                beats.sleep_until(next).await;
            }
        }));
        this
    }

    /// Tries to own a partition.
    pub(crate) async fn acquire(
        &self,
        partition: &PartitionId,
    ) -> Result<Acquire, plane_store::Error> {
        self.process.lock().await.acquire(partition).await
    }

    /// Until when something may be started.
    pub(crate) async fn lease_until(&self) -> Mono {
        self.process
            .lock()
            .await
            .lease()
            .map_or(Mono(0), |lease| lease.ends_at())
    }

    /// Gives a partition up, so that others need not wait for a term.
    pub(crate) async fn release(&self, partition: &PartitionId) {
        if let Err(error) = self.process.lock().await.release(partition).await {
            tracing::warn!(%partition, %error, "ownership was not given up; it ends by itself after a term");
        }
    }

    /// Gives a partition up because production has seen the token `seen`: the next one is above it.
    pub(crate) async fn release_below(&self, partition: &PartitionId, seen: FencingToken) {
        self.process.lock().await.raise(partition, seen);
        self.release(partition).await;
    }

    /// Tells an enforcer of renewals and losses from now on.
    pub(crate) fn enrol(
        &self,
        partition: &PartitionId,
        events: UnboundedSender<Input>,
        pulse: Pulse,
    ) {
        let mut enforcers = self
            .enforcers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        enforcers.retain(|other| other.partition != *partition && !other.events.is_closed());
        enforcers.push(Enrolled {
            partition: partition.clone(),
            events,
            pulse,
        });
    }

    /// Gives a partition up for good. With the last member this process leaves: nobody waits for it for a term.
    pub(crate) async fn leave(self, partition: &PartitionId) {
        self.release(partition).await;
        if Arc::into_inner(self.members).is_none() {
            return;
        }
        if let Err(error) = self.process.lock().await.leave().await {
            tracing::warn!(%error, "the store was not told that this process ends; others wait for a term");
        }
    }

    /// When to try again what did not work out.
    pub(crate) fn soon(&self) -> Mono {
        self.runtime.now().mono + self.term / 9
    }
}

/// The loops that have not taken in the last renewal, and since when.
fn silent(enforcers: &Enforcers) -> Vec<(PartitionId, Mono)> {
    let enforcers = enforcers
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let running = enforcers.iter().filter(|it| !it.events.is_closed());
    let silent = running.filter_map(|it| Some((it.partition.clone(), it.pulse.silent_since()?)));
    silent.collect()
}

/// Whether there are loops to be asked, and none of them answers: then the process counts as dead.
fn none_answers(enforcers: &Enforcers) -> bool {
    let enforcers = enforcers
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut asked = enforcers
        .iter()
        .filter(|it| !it.events.is_closed() && it.pulse.is_watched())
        .peekable();
    asked.peek().is_some() && asked.all(|it| it.pulse.silent_since().is_some())
}

/// Partitions whose loops have been silent for a term are given up, so that the others of this process go on: their own
/// leases have ended.
async fn give_up(
    process: &mut Process,
    enforcers: &Enforcers,
    silent: Vec<(PartitionId, Mono)>,
    now: Mono,
    term: Duration,
) {
    for (partition, since) in silent {
        let for_so_long = now.since(since);
        if for_so_long < term || !process.held().contains_key(&partition) {
            continue;
        }
        tracing::error!(%partition, ?for_so_long, "the enforcement loop does not answer; the partition is given up");
        if let Err(error) = process.release(&partition).await {
            tracing::warn!(%partition, %error, "ownership was not given up; tried again after the next beat");
        }
        let enforcers = enforcers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for enrolled in enforcers.iter().filter(|it| it.partition == partition) {
            let _ = enrolled.events.unbounded_send(Input::Lost);
        }
    }
}

/// What enforcers that have ended may have left behind is free for others.
async fn give_back(process: &mut Process, enforcers: &Enforcers) {
    let wanted: BTreeSet<PartitionId> = {
        let enforcers = enforcers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let running = enforcers.iter().filter(|it| !it.events.is_closed());
        running.map(|it| it.partition.clone()).collect()
    };
    if let Err(error) = process.give_back(&wanted).await {
        tracing::warn!(%error, "ownership that nobody uses was not given up; tried again after the next beat");
    }
}

/// One heartbeat. Says when the next is due.
async fn beat<R: Runtime>(
    runtime: &R,
    process: &mut Process,
    enforcers: &Enforcers,
    term: Duration,
) -> Mono {
    let answer = process.beat().await;
    let enforcers = enforcers
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match answer {
        Ok(Beat::Renewed(lease)) => {
            for enrolled in enforcers.iter() {
                // A loop that has not taken the last renewal in gets no other one.
                if enrolled.pulse.silent_since().is_none() {
                    enrolled.pulse.ask(runtime.now().mono);
                    let renewed = Input::Kernel(Event::Renewed(lease.ends_at()));
                    let _ = enrolled.events.unbounded_send(renewed);
                }
            }
            lease.renew_at()
        }
        Ok(Beat::DeclaredDead { lost }) => {
            tracing::error!(
                ?lost,
                "another process took this one for dead; its partitions are given up"
            );
            for enrolled in enforcers.iter().filter(|it| lost.contains(&it.partition)) {
                let _ = enrolled.events.unbounded_send(Input::Lost);
            }
            runtime.now().mono
        }
        Ok(_) => runtime.now().mono + term / 9,
        Err(error) if error.is_poisoned() => {
            for enrolled in enforcers.iter() {
                let stopped = Input::Stopped(with_causes(&error));
                let _ = enrolled.events.unbounded_send(stopped);
            }
            runtime.now().mono + term / 9
        }
        Err(error) => {
            tracing::warn!(%error, "the heartbeat did not reach the store");
            runtime.now().mono + term / 18
        }
    }
}
