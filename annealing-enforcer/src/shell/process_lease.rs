//! The lease of this process among the processes that share the store: one heartbeat for all its partitions.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use control_plane_runtime::{Outage, Runtime};
use control_plane_store::{
    Store,
    owner::{Acquire, Beat, Process, ProcessId},
};
use futures::{channel::mpsc::UnboundedSender, lock::Mutex};
use plugin_sdk::{FencingToken, Mono, with_causes};
use prodspec_model::PartitionId;
use tracing::Instrument;

use super::{input::Input, pulse::Pulse};
use crate::kernel::Event;

/// The default term, 6 s: a process that sends no heartbeat for this long is declared dead, and other processes take
/// over its partitions. Heartbeats come every 1.3 s; a process whose heartbeats fail for 4 s starts nothing more.
pub const TERM: Duration = Duration::from_secs(6);

/// The enforcers that share a heartbeat.
type Enforcers = std::sync::Mutex<Vec<Enrolled>>;

/// One enforcer: the way to send it events, and whether its loop answers.
struct Enrolled {
    partition: PartitionId,
    events: UnboundedSender<Input>,
    pulse: Pulse,
}

/// One process's heartbeat, shared by the enforcers in it. Cheap to clone.
#[derive(Clone)]
pub struct ProcessLease<R> {
    runtime: R,
    term: Duration,
    id: ProcessId,
    process: Arc<Mutex<Process>>,
    enforcers: Arc<Enforcers>,
    /// Counts the members: the last one to leave sees that no other holds it.
    members: Arc<()>,
}

impl<R: Runtime> ProcessLease<R> {
    /// Joins the processes that share `store`, under the name `process`, which must be new with every start. `term`
    /// must be the same for all processes; see [`TERM`]. Sends heartbeats until all clones are dropped.
    pub fn join(runtime: R, store: Arc<dyn Store>, process: ProcessId, term: Duration) -> Self {
        let clock = runtime.clone();
        let id = process.clone();
        let process = Process::new(store, process, term, Arc::new(move || clock.now().mono));
        let this = Self {
            runtime: runtime.clone(),
            term,
            id,
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
        let span = tracing::error_span!("process", process = %this.id);
        let beating = async move {
            let (mut withheld, mut outages) = (false, Outages::default());
            while let (Some(process), Some(enforcers)) = (weak.upgrade(), enforcers.upgrade()) {
                let mut beating = process.lock().await;
                // The last member has left, or is about to: no more heartbeats.
                if members.strong_count() == 0 {
                    return;
                }
                let now = beats.now().mono;
                let silent = silent(&enforcers);
                let next = match none_answers(&enforcers) {
                    true => now + term / 9,
                    false => {
                        let outage = &mut outages.heartbeat;
                        beat(&beats, &mut beating, &enforcers, term, outage).await
                    }
                };
                if silent.is_empty() {
                    withheld = false;
                } else if !std::mem::replace(&mut withheld, true) {
                    let partitions: Vec<_> = silent.iter().map(|(id, _)| id).collect();
                    tracing::warn!(
                        ?partitions,
                        "the enforcement loop does not answer; its lease is not renewed until it does"
                    );
                }
                give_up(&mut beating, &enforcers, silent, now, term).await;
                give_back(&mut beating, &enforcers, &mut outages.release, now).await;
                drop(beating);
                drop((process, enforcers));
                // A store so slow that the next heartbeat is due already: others need the lock in between.
                let rested = beats.now().mono + term / 18;
                beats.sleep_until(next.max(rested)).await;
            }
        };
        runtime.spawn(Box::pin(beating.instrument(span)));
        this
    }

    /// The name of this process.
    pub(crate) fn process_id(&self) -> &ProcessId {
        &self.id
    }

    /// Tries once to acquire the ownership of a partition.
    pub(crate) async fn acquire(
        &self,
        partition: &PartitionId,
    ) -> Result<Acquire, control_plane_store::Error> {
        self.process.lock().await.acquire(partition).await
    }

    /// The end of the lease: calls may be started until then. `Mono(0)` without a lease.
    pub(crate) async fn lease_until(&self) -> Mono {
        self.process
            .lock()
            .await
            .lease()
            .map_or(Mono(0), |lease| lease.ends_at())
    }

    /// Releases the ownership of a partition, so that other processes need not wait for a term.
    pub(crate) async fn release(&self, partition: &PartitionId) {
        let mut process = self.process.lock().await;
        let was_held = process.held().contains_key(partition);
        match process.release(partition).await {
            Ok(()) if was_held => tracing::info!(%partition, "released the partition"),
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(%partition, %error, "failed to release ownership of the partition; it expires after a term");
            }
        }
    }

    /// Releases a partition because production has seen the token `seen`: the next token will be above it.
    pub(crate) async fn release_below(&self, partition: &PartitionId, seen: FencingToken) {
        self.process.lock().await.raise(partition, seen);
        self.release(partition).await;
    }

    /// Sends renewals and losses of the lease to an enforcer from now on.
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

    /// Releases a partition for good. When the last member leaves, the process leaves too, so that other processes need
    /// not wait for a term.
    pub(crate) async fn leave(self, partition: &PartitionId) {
        self.release(partition).await;
        if Arc::into_inner(self.members).is_none() {
            return;
        }
        if let Err(error) = self.process.lock().await.leave().await {
            tracing::warn!(%error, "failed to tell the store that this process ends; other processes take over after a term");
        }
    }

    /// The time to try again after a failure: a ninth of a term from now.
    pub(crate) fn soon(&self) -> Mono {
        self.runtime.now().mono + self.term / 9
    }
}

/// The outages of the work that each heartbeat repeats.
#[derive(Default)]
struct Outages {
    heartbeat: Outage,
    release: Outage,
}

/// The partitions whose loops have not processed the last renewal, and since when.
fn silent(enforcers: &Enforcers) -> Vec<(PartitionId, Mono)> {
    let enforcers = enforcers
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let running = enforcers.iter().filter(|it| !it.events.is_closed());
    let silent = running.filter_map(|it| Some((it.partition.clone(), it.pulse.silent_since()?)));
    silent.collect()
}

/// Whether loops run and none of them answers: then the process sends no heartbeat, and counts as dead after a term.
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

/// Releases partitions whose loops have not answered for a term; their own leases have ended. The other partitions of
/// this process go on.
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
        tracing::error!(%partition, ?for_so_long, "the enforcement loop has not answered for a term; giving up the partition");
        if let Err(error) = process.release(&partition).await {
            tracing::warn!(%partition, %error, "failed to release the partition of the silent loop; retrying after the next heartbeat");
        }
        let enforcers = enforcers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for enrolled in enforcers.iter().filter(|it| it.partition == partition) {
            let _ = enrolled.events.unbounded_send(Input::Lost);
        }
    }
}

/// Releases ownerships that no enforcer of this process uses, for example after a release without an answer.
async fn give_back(process: &mut Process, enforcers: &Enforcers, outage: &mut Outage, now: Mono) {
    let wanted: BTreeSet<PartitionId> = {
        let enforcers = enforcers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let running = enforcers.iter().filter(|it| !it.events.is_closed());
        running.map(|it| it.partition.clone()).collect()
    };
    match process.give_back(&wanted).await {
        Ok(()) => drop(outage.over(now, "the release of unused ownership")),
        Err(error) if outage.failed(now) => {
            tracing::warn!(%error, "failed to release unused ownership; retrying after each heartbeat");
        }
        Err(_) => {}
    }
}

/// Sends one heartbeat and passes its result to the enforcers. Returns when the next one is due.
async fn beat<R: Runtime>(
    runtime: &R,
    process: &mut Process,
    enforcers: &Enforcers,
    term: Duration,
    outage: &mut Outage,
) -> Mono {
    let answer = process.beat().await;
    if answer.is_ok() {
        outage.over(runtime.now().mono, "the heartbeat");
    }
    let enforcers = enforcers
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match answer {
        Ok(Beat::Renewed(lease)) => {
            for enrolled in enforcers.iter() {
                // A loop that has not processed the last renewal gets no other one.
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
                "another process declared this process dead; giving up its partitions"
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
            let now = runtime.now().mono;
            if outage.failed(now) {
                tracing::warn!(%error, "the heartbeat did not reach the store; trying again until it does");
            }
            now + term / 18
        }
    }
}

impl<R> std::fmt::Debug for ProcessLease<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessLease")
            .field("term", &self.term)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc::{UnboundedReceiver, unbounded};

    use super::*;

    fn enrolled(pulses: &[&Pulse]) -> (Enforcers, Vec<UnboundedReceiver<Input>>) {
        let (enrolled, inputs) = pulses
            .iter()
            .enumerate()
            .map(|(n, pulse)| {
                let (events, input) = unbounded();
                let partition = PartitionId::new(&format!("p{n}")).unwrap();
                let pulse = (*pulse).clone();
                let enrolled = Enrolled {
                    partition,
                    events,
                    pulse,
                };
                (enrolled, input)
            })
            .unzip();
        (std::sync::Mutex::new(enrolled), inputs)
    }

    #[test]
    fn s5_no_heartbeat_is_sent_while_no_loop_answers() {
        let (one, other) = (Pulse::default(), Pulse::default());
        let (enforcers, _inputs) = enrolled(&[&one, &other]);
        assert!(!none_answers(&enforcers), "no loop runs");
        one.watch(true);
        assert!(!none_answers(&enforcers), "it owes no answer");
        one.ask(Mono(1));
        assert!(none_answers(&enforcers), "the only loop does not answer");
        other.watch(true);
        assert!(!none_answers(&enforcers), "another loop owes no answer");
        other.ask(Mono(2));
        assert!(none_answers(&enforcers));
        one.answer();
        assert!(!none_answers(&enforcers));
    }
}
