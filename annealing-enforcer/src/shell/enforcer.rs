//! The enforcer of one partition: it acquires ownership again and again, and enforces while it owns.

use std::{collections::BTreeMap, sync::Arc};

use control_plane_runtime::{Runtime, SupervisedTask, catch_panic};
use control_plane_store::{
    Store, contents::Contents, incarnations::Incarnations, record::Rewrites,
};
use futures::{
    FutureExt, StreamExt,
    channel::mpsc::{self, UnboundedReceiver, UnboundedSender},
    future::{BoxFuture, Either},
};
use plugin_sdk::{
    Diff, DiffRequest, FencingToken, PushRequest, Pushed,
    service::{Checks, Stack},
};
use prodspec_model::PartitionId;
use tracing::Instrument;

use super::{
    ProcessLease,
    attached::FeedNumbers,
    beside::{Beside, OnShutdown},
    blocked::Blocked,
    calls::Calls,
    drain,
    error::Error,
    handle::Handle,
    input::Input,
    intent,
    journal::{Entry, JournalWriter},
    lease::LeaseEnd,
    owned_sender::OwnedSender,
    ownership::{End, Ownership},
    phase::{Phase, SharedPhase},
    pulse::Pulse,
    task_failures::TaskFailures,
};
use crate::{
    config::Config,
    kernel::{Effects, Kernel, Recovered},
    registry::Registry,
};

/// Enforces one partition: pin, diff, check and push for every asset, until [`Enforcer::run`] is shut down.
pub struct Enforcer<R> {
    pub(super) runtime: R,
    pub(super) partition: PartitionId,
    pub(super) store: Arc<dyn Store>,
    pub(super) incarnations: Arc<Incarnations<dyn Store>>,
    pub(super) process_lease: ProcessLease<R>,
    pub(super) config: Config,
    pub(super) registry: Registry,
    pub(super) diffs: Option<Stack<DiffRequest, Diff>>,
    pub(super) pushes: Option<Stack<PushRequest, Pushed>>,
    pub(super) checks: Checks,
    pub(super) while_owner: BTreeMap<&'static str, (WhileOwner<R>, OnShutdown)>,
    pub(super) task_failures: TaskFailures,
    pub(super) pulse: Pulse,
    pub(super) phase: SharedPhase,
    pub(super) feeds: FeedNumbers,
    pub(super) inputs: UnboundedReceiver<Input>,
    pub(super) sender: UnboundedSender<Input>,
}

/// Makes a task that runs beside each ownership of the partition, from its fencing token and a handle to the enforcer.
pub(super) type WhileOwner<R> =
    Arc<dyn Fn(FencingToken, Handle<R>) -> BoxFuture<'static, ()> + Send + Sync>;

impl<R: Runtime> Enforcer<R> {
    /// A handle to ask this enforcer questions and to give it commands while it runs.
    pub fn handle(&self) -> Handle<R> {
        Handle {
            runtime: self.runtime.clone(),
            partition: self.partition.clone(),
            store: self.store.clone(),
            inputs: self.sender.clone(),
            task_failures: self.task_failures.clone(),
            phase: self.phase.clone(),
            feeds: self.feeds.clone(),
        }
    }

    /// Enforces the partition until `shutdown` completes. Waits while another process owns the partition, also after
    /// that process has taken it over from this one. When `shutdown` completes, no new push starts, and pushes under
    /// way have [`Config::drain`] to end.
    ///
    /// When an invariant does not hold, enforcement of this partition stops. The stop is durable: it holds after a
    /// restart too, until an operator clears it with [`Handle::clear_stop`]. Other partitions of this process are not
    /// affected.
    ///
    /// # Errors
    /// When the store is broken or cannot be read. Production is left as it is.
    ///
    /// All log lines of the partition, those of plugins, generation, rollouts and workflows included, are in the span
    /// `partition` with the fields `partition` and `process`.
    pub async fn run(
        mut self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        // Of the highest level, so that a filter that drops lines does not drop the process from those that it keeps.
        let span = tracing::error_span!(
            "partition", partition = %self.partition, process = %self.process_lease.process_id()
        );
        let run = async {
            let ended = self.until(drain::told(shutdown)).await;
            self.phase.set(Phase::Elsewhere);
            self.process_lease.leave(&self.partition).await;
            ended
        };
        run.instrument(span).await
    }

    async fn until(&mut self, mut shutdown: BoxFuture<'static, ()>) -> Result<(), Error> {
        let mut fenced = false;
        while let Some((token, asked)) = self.acquire(&mut shutdown).await? {
            tracing::info!(partition = %self.partition, token = token.0, "owns the partition");
            match self.owned(token, asked, &mut shutdown).await? {
                End::Shutdown => break,
                End::Violated(_) | End::Again => self.process_lease.release(&self.partition).await,
                End::Lost => {
                    tracing::warn!(partition = %self.partition, "another process owns the partition now");
                    // The journal may notice the loss before the heartbeat does: release the ownership, so that it can
                    // be acquired again.
                    self.process_lease.release(&self.partition).await;
                }
                End::Fenced(seen) => {
                    tracing::warn!(
                        partition = %self.partition, token = token.0, seen = seen.0,
                        "production has seen a newer fencing token than the store gives out: the store was lost or restored, or a \
                         control plane with another store is at work; acquiring the partition above that token"
                    );
                    self.process_lease
                        .release_below(&self.partition, seen)
                        .await;
                    // Two control planes on one production would take it from each other without a pause.
                    let soon = self.runtime.sleep_until(self.process_lease.soon());
                    if std::mem::replace(&mut fenced, true)
                        && let Either::Right(_) = futures::future::select(soon, &mut shutdown).await
                    {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// One ownership: stays stopped if an earlier stop is not cleared, and stops when an invariant does not hold.
    async fn owned(
        &mut self,
        token: FencingToken,
        asked: Vec<Input>,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<End, Error> {
        if let Some(end) = self.halted(token, None, shutdown).await? {
            return Ok(end);
        }
        match self.enforce(token, asked, shutdown).await? {
            End::Violated(why) => {
                let end = self.halted(token, Some(why), shutdown).await?;
                Ok(end.unwrap_or(End::Again))
            }
            end => Ok(end),
        }
    }

    /// One ownership, with the tasks that run beside it.
    async fn enforce(
        &mut self,
        token: FencingToken,
        asked: Vec<Input>,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<End, Error> {
        let beside = self.all_beside(token);
        let mut seen = Beside::default();
        for (task, on_shutdown) in &beside {
            match on_shutdown {
                OnShutdown::Ends => seen.stops.push(task.stop()),
                OnShutdown::Drains => seen.drains.push(task.ended()),
            }
        }
        let ended = self.enforce_alone(token, asked, seen, shutdown).await;
        for (task, _) in beside {
            task.end().await;
        }
        ended
    }

    /// One ownership, from recovery to its end.
    async fn enforce_alone(
        &mut self,
        token: FencingToken,
        mut asked: Vec<Input>,
        beside: Beside,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<End, Error> {
        let (recovered, watch) = match self.recover(token, &mut asked, shutdown).await? {
            Ok(recovered) => recovered,
            Err(end) => return Ok(end),
        };
        let (records, entries) = mpsc::unbounded();
        self.spawn_journal_writer(token, watch.rewrites(), entries);
        let (watch, sender) = (Arc::new(watch), self.sender.clone());
        let follow = move || Arc::clone(&watch).follow(sender.clone()).boxed();
        let _following = self.handle().beside("following intent", Arc::new(follow));
        let mut effects = Effects::default();
        let (now, config) = (self.runtime.now(), self.config.clone());
        let kinds = self.registry.configs();
        let recover = || Kernel::recover(now, config, kinds, token, recovered, &mut effects);
        let kernel = match catch_panic(recover) {
            Ok(kernel) => kernel,
            Err(panic) => {
                let why = format!("the kernel panicked while starting: {panic}");
                return Ok(End::Violated(why));
            }
        };
        let calls = self.calls(token);
        let mut ownership = Ownership::new(kernel, effects, calls, records);
        (ownership.drain, ownership.beside) = (self.config.drain, beside);
        ownership.pulse = self.pulse.clone();
        let lease = self.process_lease.lease_until().await;
        self.pulse.watch(true);
        self.phase.set(Phase::Enforcing);
        let ended = ownership.enforce(lease, asked, &mut self.inputs, shutdown);
        let ended = ended.await;
        self.pulse.watch(false);
        ended
    }

    /// Waits for the first incarnation, then reads the partition's records. The inner `Err`: the ownership ended first.
    /// Commands that arrive meanwhile are appended to `asked`.
    async fn recover(
        &mut self,
        token: FencingToken,
        asked: &mut Vec<Input>,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<Result<(Recovered, intent::Intent<R>), End>, Error> {
        let intent = intent::Intent::new(
            self.runtime.clone(),
            self.store.clone(),
            self.partition.clone(),
            self.incarnations.clone(),
            Rewrites::default(),
        );
        self.phase.set(Phase::Starting);
        // A command that its caller gave up before this process owned the partition may have been given to another one.
        asked.retain(|input| !input.is_given_up());
        let intent = intent.patient();
        let first = self.first_incarnation(token, &intent, asked, shutdown);
        let newest = match first.await? {
            Ok(newest) => newest,
            Err(end) => return Ok(Err(end)),
        };
        let mut recovery = Box::pin(intent.recover(newest)).fuse();
        loop {
            futures::select_biased! {
                () = shutdown.fuse() => return Ok(Err(End::Shutdown)),
                recovered = recovery => return Ok(Ok(recovered?)),
                input = self.inputs.next() => match input {
                    Some(Input::Lost) => return Ok(Err(End::Lost)),
                    Some(Input::Stopped(why)) => return Err(Error::Stopped(why)),
                    Some(input) if input.waits_for_start() => asked.push(input),
                    // Questions about the current state have no answer yet: dropping their reply gives the caller
                    // [`AskError::Starting`].
                    _ => {}
                }
            }
        }
    }

    fn all_beside(&self, token: FencingToken) -> Vec<(SupervisedTask, OnShutdown)> {
        let all = self.while_owner.iter();
        let started = all.map(|(name, (task, on_shutdown))| {
            let (task, handle) = (task.clone(), self.handle());
            let make = move || task(token, handle.clone());
            (self.handle().beside(name, Arc::new(make)), *on_shutdown)
        });
        started.collect()
    }

    fn spawn_journal_writer(
        &self,
        token: FencingToken,
        rewrites: Rewrites,
        entries: UnboundedReceiver<Vec<Entry>>,
    ) {
        let (store, partition) = (self.store.clone(), self.partition.clone());
        let journal_writer = JournalWriter::new(
            self.runtime.clone(),
            store,
            partition,
            token,
            rewrites,
            OwnedSender::new(token, self.sender.clone()),
            entries,
        );
        self.runtime.spawn(Box::pin(journal_writer.run()));
    }

    fn calls(&self, token: FencingToken) -> Calls<R> {
        Calls {
            runtime: self.runtime.clone(),
            partition: self.partition.clone(),
            contents: Arc::new(Contents::new(self.store.clone(), self.partition.clone())),
            registry: self.registry.clone(),
            diffs: self.diffs.clone(),
            pushes: self.pushes.clone(),
            checks: self.checks.clone(),
            token,
            events: OwnedSender::new(token, self.sender.clone()),
            lease: LeaseEnd::default(),
            running: BTreeMap::new(),
            blocked: Blocked::default(),
        }
    }
}

impl<R> std::fmt::Debug for Enforcer<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enforcer")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}
