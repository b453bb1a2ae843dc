//! This process among those that share the store: one heartbeat for all partitions that it enforces.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{channel::mpsc::UnboundedSender, lock::Mutex};
use plane_runtime::Runtime;
use plane_store::{
    Store,
    owner::{Acquire, Beat, Process, ProcessId},
};
use plugin_sdk::Mono;
use prodspec_model::PartitionId;

use super::Input;
use crate::kernel::Event;

/// The default term: a process is dead when it has not been heard of for so long.
pub const TERM: Duration = Duration::from_secs(15);

/// The enforcers that share a heartbeat, and how to tell them.
type Enforcers = std::sync::Mutex<Vec<(PartitionId, UnboundedSender<Input>)>>;

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
            while let (Some(process), Some(enforcers)) = (weak.upgrade(), enforcers.upgrade()) {
                let mut beating = process.lock().await;
                // The last one has left, or is about to: not again.
                if members.strong_count() == 0 {
                    return;
                }
                let next = beat(&beats, &mut beating, &enforcers, term).await;
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

    /// Tells an enforcer of renewals and losses from now on.
    pub(crate) fn enrol(&self, partition: &PartitionId, events: UnboundedSender<Input>) {
        let mut enforcers = self
            .enforcers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        enforcers.retain(|(other, sender)| other != partition && !sender.is_closed());
        enforcers.push((partition.clone(), events));
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

/// What enforcers that have ended may have left behind is free for others.
async fn give_back(process: &mut Process, enforcers: &Enforcers) {
    let wanted: BTreeSet<PartitionId> = {
        let enforcers = enforcers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let running = enforcers.iter().filter(|(_, sender)| !sender.is_closed());
        running.map(|(partition, _)| partition.clone()).collect()
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
            for (_, events) in enforcers.iter() {
                let _ = events.unbounded_send(Input::Kernel(Event::Renewed(lease.ends_at())));
            }
            lease.renew_at()
        }
        Ok(Beat::DeclaredDead { lost }) => {
            tracing::error!(
                ?lost,
                "another process took this one for dead; its partitions are given up"
            );
            for (_, events) in enforcers
                .iter()
                .filter(|(partition, _)| lost.contains(partition))
            {
                let _ = events.unbounded_send(Input::Lost);
            }
            runtime.now().mono
        }
        Ok(_) => runtime.now().mono + term / 9,
        Err(error) => {
            tracing::warn!(%error, "the heartbeat did not reach the store");
            runtime.now().mono + term / 18
        }
    }
}
