//! Waits for the ownership of the partition: asks for it when it may have become free, without polling the store.

use control_plane_runtime::{Outage, Runtime};
use control_plane_store::owner::{self, Acquire, ProcessId};
use futures::{
    FutureExt, StreamExt,
    channel::mpsc,
    future::{BoxFuture, Either, select},
    stream::BoxStream,
};
use plugin_sdk::{FencingToken, Mono};
use prodspec_model::PartitionId;

use super::{ProcessLease, enforcer::Enforcer, error::Error, input::Input, phase::Phase};
use crate::kernel::Event;

impl<R: Runtime> Enforcer<R> {
    /// Waits until this process owns the partition. Returns its token, and the commands that arrived meanwhile; `None`
    /// if it was shut down first.
    ///
    /// # Errors
    /// When the store is broken.
    pub(super) async fn acquire(
        &mut self,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<Option<(FencingToken, Vec<Input>)>, Error> {
        let (sender, pulse) = (self.sender.clone(), self.pulse.clone());
        self.process_lease.enrol(&self.partition, sender, pulse);
        self.phase.set(Phase::Elsewhere);
        let mut asked = Vec::new();
        let (mut renewed, renewals) = mpsc::channel(0);
        let waits = Acquisition {
            hints: self.store.watch(owner::topic(&self.partition)),
            renewals,
            process_lease: self.process_lease.clone(),
            runtime: self.runtime.clone(),
        };
        let mut owned = Box::pin(waits.acquire(self.partition.clone())).fuse();
        loop {
            futures::select_biased! {
                () = shutdown.fuse() => return Ok(None),
                token = owned => return Ok(Some((token, asked))),
                // Answers to an earlier ownership are dropped; so are questions about the current state.
                input = self.inputs.next() => match input {
                    Some(patient @ (Input::Tell(..) | Input::Pin(..) | Input::Wait(..))) => {
                        asked.retain(|other: &Input| !other.is_given_up());
                        asked.push(patient);
                    }
                    Some(Input::Stopped(why)) => return Err(Error::Stopped(why)),
                    // One pending renewal says as much as many.
                    Some(Input::Kernel(Event::Renewed(_))) => drop(renewed.try_send(())),
                    _ => {}
                }
            }
        }
    }
}

/// The signals after which the partition may be free.
struct Acquisition<R> {
    /// A hint of the store that the partition may have become free.
    hints: BoxStream<'static, ()>,
    /// A renewal: this process has a lease again.
    renewals: mpsc::Receiver<()>,
    process_lease: ProcessLease<R>,
    runtime: R,
}

impl<R: Runtime> Acquisition<R> {
    /// Asks for ownership until it is given.
    async fn acquire(mut self, partition: PartitionId) -> FencingToken {
        let (mut hinted, mut outage) = (false, Outage::default());
        let mut waits_for: Option<Option<ProcessId>> = None;
        loop {
            let asked = self.process_lease.acquire(&partition).await;
            if asked.is_ok() {
                outage.over(self.runtime.now().mono, "asking for ownership");
            }
            hinted = match asked {
                Ok(Acquire::Acquired { token }) => return token,
                Ok(Acquire::Held { by, look_again_at }) => {
                    if waits_for.as_ref() != Some(&by) {
                        let owner = by.as_ref().map_or("unknown", ProcessId::as_str);
                        tracing::info!(%partition, owner, "another process owns the partition; standing by to take it over");
                        waits_for = Some(by);
                    }
                    // The read after a hint may have been older than the hint: read once more soon.
                    let soon = self.process_lease.soon();
                    let until = if hinted {
                        look_again_at.min(soon)
                    } else {
                        look_again_at
                    };
                    self.hint_or(until).await
                }
                Ok(_) => {
                    // Without a lease: the heartbeat goes on as long as `process_lease` lives.
                    let _ = self.renewals.next().await;
                    false
                }
                Err(error) => {
                    if outage.failed(self.runtime.now().mono) {
                        tracing::warn!(%error, "failed to ask the store for ownership; trying again until it answers");
                    }
                    let soon = self.process_lease.soon();
                    self.hint_or(soon).await
                }
            };
        }
    }

    /// Waits for a hint, at most until `until`. Returns whether there was one.
    async fn hint_or(&mut self, until: Mono) -> bool {
        match select(self.hints.next(), self.runtime.sleep_until(until)).await {
            Either::Left((Some(()), _)) => true,
            // The store is closed and gives no more hints.
            Either::Left((None, sleep)) => {
                sleep.await;
                false
            }
            Either::Right(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use async_trait::async_trait;
    use control_plane_runtime::TokioRuntime;
    use control_plane_store::{
        Batch, CommitError, Error as ReadError, Key, KeyRange, MemoryStore, Page, Store, Topic,
        Version, Versioned,
    };
    use futures::channel::oneshot;
    use tokio::{sync::mpsc::UnboundedReceiver, task::JoinHandle, time::Instant};

    use super::*;
    use crate::shell::TERM;

    /// A store that counts how often the owner of a partition is read.
    struct Counted(MemoryStore, AtomicU64);

    #[async_trait]
    impl Store for Counted {
        async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, ReadError> {
            let owner = keys.iter().any(|key| key.as_str().starts_with("owner/"));
            self.1.fetch_add(owner.into(), Ordering::Relaxed);
            self.0.get(keys).await
        }

        async fn scan(&self, range: KeyRange, limit: usize) -> Result<Page, ReadError> {
            self.0.scan(range, limit).await
        }

        async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
            self.0.commit(batch).await
        }

        fn watch(&self, topic: Topic) -> BoxStream<'static, ()> {
            self.0.watch(topic)
        }
    }

    struct Running {
        stop: oneshot::Sender<()>,
        task: JoinHandle<()>,
        owned: UnboundedReceiver<Instant>,
    }

    impl Running {
        async fn stop(self) {
            drop(self.stop);
            self.task.await.unwrap();
        }
    }

    fn partition(name: &str) -> PartitionId {
        name.parse().unwrap()
    }

    fn store() -> Arc<Counted> {
        Arc::new(Counted(MemoryStore::new(), AtomicU64::new(0)))
    }

    fn start(
        store: &Arc<Counted>,
        name: &str,
        member: Option<&ProcessLease<TokioRuntime>>,
    ) -> Running {
        let (tell, owned) = tokio::sync::mpsc::unbounded_channel();
        let runtime = TokioRuntime::current();
        let builder = Enforcer::builder(runtime, partition(name), store.clone());
        let builder = match member {
            Some(member) => builder.process_lease(member.clone()),
            None => builder,
        };
        let enforcer = builder
            .while_owner(move |_, _| {
                let _ = tell.send(Instant::now());
                futures::future::pending()
            })
            .build();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = enforcer.unwrap().run(stopped.map(drop));
        let task = tokio::spawn(async { run.await.unwrap() });
        Running { stop, task, owned }
    }

    async fn heartbeats(store: &Counted) -> usize {
        let range = owner::heartbeats();
        store.scan(range, 100).await.unwrap().rows.len()
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_process_looks_five_times_a_term_and_at_once_when_the_owner_ends() {
        let store = store();
        let mut one = start(&store, "a", None);
        one.owned.recv().await.unwrap();
        let mut two = start(&store, "a", None);
        TokioRuntime::current().sleep(TERM * 100).await;
        let asked = store.1.load(Ordering::Relaxed);
        assert!(
            (500..520).contains(&asked),
            "asked {asked} times in 100 terms"
        );
        let end = Instant::now();
        one.stop().await;
        assert_eq!(two.owned.recv().await.unwrap() - end, Duration::ZERO);
        two.stop().await;
        assert_eq!(heartbeats(&store).await, 0, "no process is left");
    }

    /// Whatever the time between the owner's last heartbeat, the waiting process's start and the death.
    #[tokio::test(start_paused = true)]
    async fn r50_dead_owner_is_replaced_within_1_2_terms_of_its_last_heartbeat() {
        for (start_after, dies_after) in (0..5).flat_map(|n| (0..8).map(move |m| (n, m))) {
            let store = store();
            let mut one = start(&store, "a", None);
            one.owned.recv().await.unwrap();
            TokioRuntime::current().sleep(TERM * start_after / 23).await;
            let mut two = start(&store, "a", None);
            TokioRuntime::current()
                .sleep(TERM * 2 + TERM * dies_after / 17)
                .await;
            let end = Instant::now();
            one.task.abort();
            let took = two.owned.recv().await.unwrap() - end;
            assert!(
                took <= TERM * 6 / 5,
                "{start_after}, {dies_after}: {took:?}"
            );
            assert!(
                took >= TERM * 7 / 9,
                "{start_after}, {dies_after}: {took:?}"
            );
            two.stop().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn shared_heartbeat_goes_on_for_the_remaining_enforcers() {
        let store = store();
        let (runtime, id) = (TokioRuntime::current(), "p".into());
        let member = ProcessLease::join(runtime, store.clone(), id, TERM);
        let [mut a, mut b] = ["a", "b"].map(|name| start(&store, name, Some(&member)));
        drop(member);
        a.owned.recv().await.unwrap();
        b.owned.recv().await.unwrap();
        a.stop().await;
        TokioRuntime::current().sleep(TERM).await;
        assert_eq!(heartbeats(&store).await, 1);
        let mut other = start(&store, "a", None);
        other.owned.recv().await.unwrap();
        b.stop().await;
        TokioRuntime::current().sleep(TERM).await;
        assert_eq!(heartbeats(&store).await, 1, "only the other process");
        other.stop().await;
    }
}
