//! The shell around the kernel: owns a partition, feeds events in, performs effects. Decides nothing.

mod beside;
mod blocked;
mod build;
mod calls;
mod cited;
mod error;
mod feed;
mod handle;
mod input;
mod inside;
mod intent;
mod lease;
mod membership;
mod own;
mod plan;
mod pulse;
mod retire;
mod scribe;
mod telemetry;
#[cfg(test)]
mod tests;
mod view;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures::{
    FutureExt, StreamExt,
    channel::{
        mpsc::{self, UnboundedReceiver, UnboundedSender},
        oneshot,
    },
    future::{BoxFuture, Either},
};
use plane_runtime::{Kernel as _, Runtime};
use plane_store::{Store, incarnations::Incarnations};
use plugin_sdk::{
    Diff, DiffRequest, FencingToken, Mono, Now, Observation, PushRequest, Pushed,
    service::{Checks, Stack},
};
use prodspec_model::PartitionId;

pub use build::{BuildError, EnforcerBuilder, Plugin};
pub use error::Error;
pub use handle::{AskError, DeadEnd, Explained, Handle, Settle};
pub use membership::{Membership, TERM};
pub use plan::{Plan, Planned, Planner};

use crate::{
    config::Config,
    kernel::{Command, Effects, Event, Kernel, Pin},
    registry::Registry,
};
use beside::{Beside, Troubles, said};
use blocked::Blocked;
use calls::Calls;
pub(crate) use handle::Actuation;
pub(crate) use input::Input;
use inside::Inside;
use lease::LeaseEnd;
use pulse::Pulse;
use retire::{Refused, Reply, Retired};
use scribe::{Entry, Scribe};

/// Answers that are there at once are steps of one moment; in a long row of them the clock is read again so often.
const CLOCK_EVERY: usize = 16;

/// Events taken before the shell lets others run.
const BATCH: usize = 2048;

/// Enforces one partition: pin, diff, check, push for every asset, for ever.
pub struct Enforcer<R> {
    pub(crate) runtime: R,
    pub(crate) partition: PartitionId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) incarnations: Arc<Incarnations<dyn Store>>,
    pub(crate) membership: Membership<R>,
    pub(crate) config: Config,
    pub(crate) registry: Registry,
    pub(crate) diffs: Option<Stack<DiffRequest, Diff>>,
    pub(crate) pushes: Option<Stack<PushRequest, Pushed>>,
    pub(crate) checks: Checks,
    pub(crate) while_owner: BTreeMap<&'static str, WhileOwner<R>>,
    pub(crate) troubles: Troubles,
    pub(crate) pulse: Pulse,
    pub(crate) inputs: UnboundedReceiver<Input>,
    pub(crate) sender: UnboundedSender<Input>,
}

/// What else runs while the partition is owned.
pub(crate) type WhileOwner<R> =
    Arc<dyn Fn(FencingToken, Handle<R>) -> BoxFuture<'static, ()> + Send + Sync>;

/// Why an ownership ended.
enum End {
    Shutdown,
    Lost,
    /// Production has seen this newer token.
    Fenced(FencingToken),
}

impl<R: Runtime> Enforcer<R> {
    /// What others may ask of it while it runs.
    pub fn handle(&self) -> Handle<R> {
        Handle {
            runtime: self.runtime.clone(),
            partition: self.partition.clone(),
            store: self.store.clone(),
            inputs: self.sender.clone(),
            troubles: self.troubles.clone(),
        }
    }

    /// Enforces until `shutdown` completes. Waits while another process owns the partition, and again when one has
    /// taken it over.
    ///
    /// # Errors
    /// When the store is broken. Production is left as it is.
    pub async fn run(
        mut self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Error> {
        let ended = self.until(Box::pin(shutdown)).await;
        self.membership.leave(&self.partition).await;
        ended
    }

    async fn until(&mut self, mut shutdown: BoxFuture<'static, ()>) -> Result<(), Error> {
        let mut fenced = false;
        while let Some((token, asked)) = self.own(&mut shutdown).await? {
            tracing::info!(partition = %self.partition, token = token.0, "owns the partition");
            match self.enforce(token, asked, &mut shutdown).await? {
                End::Shutdown => break,
                End::Lost => {
                    tracing::warn!(partition = %self.partition, "another process owns the partition now");
                    // The journal may have noticed before the heartbeat: what was lost is asked for anew.
                    self.membership.release(&self.partition).await;
                }
                End::Fenced(seen) => {
                    tracing::warn!(
                        partition = %self.partition, token = token.0, seen = seen.0,
                        "production has seen a newer token than the store gives out: it was lost and begun anew, or a control \
                         plane with another store is at work; acquiring the partition above that token"
                    );
                    self.membership.release_below(&self.partition, seen).await;
                    // Two that drive one production would chase each other.
                    let soon = self.runtime.sleep_until(self.membership.soon());
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

    /// One ownership, with what runs beside it.
    async fn enforce(
        &mut self,
        token: FencingToken,
        asked: Vec<Input>,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<End, Error> {
        let beside = self.all_beside(token);
        let ended = self.enforce_alone(token, asked, shutdown).await;
        for task in beside {
            task.end().await;
        }
        ended
    }

    /// One ownership, from recovery to its end.
    async fn enforce_alone(
        &mut self,
        token: FencingToken,
        asked: Vec<Input>,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<End, Error> {
        let intent = intent::Intent::new(
            self.runtime.clone(),
            self.store.clone(),
            self.partition.clone(),
            self.incarnations.clone(),
        );
        let (recovered, watch) =
            match futures::future::select(Box::pin(intent.recover()), &mut *shutdown).await {
                Either::Left((recovered, _)) => recovered?,
                Either::Right(_) => return Ok(End::Shutdown),
            };
        let (records, entries) = mpsc::unbounded();
        self.spawn_scribe(token, entries);
        let (watch, sender) = (Arc::new(watch), self.sender.clone());
        let follow = move || Arc::clone(&watch).follow(sender.clone()).boxed();
        let _following = self.beside("following intent", Arc::new(follow));
        let mut effects = Effects::default();
        let (now, config) = (self.runtime.now(), self.config.clone());
        let kernel = Kernel::recover(
            now,
            config,
            self.registry.configs(),
            token,
            recovered,
            &mut effects,
        );
        let mut ownership = Ownership {
            runtime: self.runtime.clone(),
            kernel,
            effects,
            calls: self.calls(token),
            telemetry: telemetry::Telemetry::new(&self.partition),
            records,
            tickets: 0,
            observers: BTreeMap::new(),
            settling: Vec::new(),
            alarm: None,
            ahead: Vec::new(),
            retired: Retired::default(),
            feed: feed::Feed::default(),
            refused: None,
            violation: None,
            pulse: self.pulse.clone(),
        };
        let lease = self.membership.lease_until().await;
        self.pulse.watch(true);
        let ended = ownership.enforce(lease, asked, &mut self.inputs, shutdown);
        let ended = ended.await;
        self.pulse.watch(false);
        ended
    }

    fn all_beside(&self, token: FencingToken) -> Vec<Beside> {
        let start = |(name, task): (&&'static str, &WhileOwner<R>)| {
            let (task, handle) = (task.clone(), self.handle());
            self.beside(name, Arc::new(move || task(token, handle.clone())))
        };
        self.while_owner.iter().map(start).collect()
    }

    fn beside(&self, name: &'static str, make: beside::Make) -> Beside {
        Beside::start(&self.runtime, &self.partition, &self.troubles, name, make)
    }

    fn spawn_scribe(&self, token: FencingToken, entries: UnboundedReceiver<Vec<Entry>>) {
        let (store, partition) = (self.store.clone(), self.partition.clone());
        let scribe = Scribe::new(
            self.runtime.clone(),
            store,
            partition,
            token,
            Inside::new(token, self.sender.clone()),
            entries,
        );
        self.runtime.spawn(Box::pin(scribe.run()));
    }

    fn calls(&self, token: FencingToken) -> Calls<R> {
        Calls {
            runtime: self.runtime.clone(),
            registry: self.registry.clone(),
            diffs: self.diffs.clone(),
            pushes: self.pushes.clone(),
            checks: self.checks.clone(),
            token,
            events: Inside::new(token, self.sender.clone()),
            lease: LeaseEnd::default(),
            running: BTreeMap::new(),
            blocked: Blocked::default(),
        }
    }
}

/// One ownership of the partition: a kernel and everything around it that dies with it.
struct Ownership<R> {
    runtime: R,
    kernel: Kernel,
    effects: Effects,
    calls: Calls<R>,
    telemetry: telemetry::Telemetry,
    records: UnboundedSender<Vec<Entry>>,
    tickets: u64,
    observers: BTreeMap<u64, oneshot::Sender<Result<Observation, String>>>,
    settling: Vec<(Settle, oneshot::Sender<bool>)>,
    alarm: Option<(Mono, BoxFuture<'static, ()>)>,
    /// To be written before what the kernel records next.
    ahead: Vec<Entry>,
    retired: Retired,
    feed: feed::Feed,
    /// Why the person's word at hand is refused.
    refused: Option<String>,
    /// An invariant that does not hold: it ends this ownership.
    violation: Option<String>,
    /// Answers as long as the loop runs.
    pulse: Pulse,
}

impl<R: Runtime> Ownership<R> {
    /// From the first lease to the end.
    async fn enforce(
        &mut self,
        lease: Mono,
        asked: Vec<Input>,
        inputs: &mut UnboundedReceiver<Input>,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<End, Error> {
        self.renewed(lease);
        for input in asked {
            if let Some(end) = self.take(input) {
                return end;
            }
        }
        self.run(inputs, shutdown).await
    }

    async fn run(
        &mut self,
        inputs: &mut UnboundedReceiver<Input>,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<End, Error> {
        loop {
            if let Some(end) = self.violated() {
                return end;
            }
            self.set_alarm();
            let alarm = async {
                match &mut self.alarm {
                    Some((_, alarm)) => alarm.await,
                    None => futures::future::pending().await,
                }
            };
            let mut first = None;
            futures::select_biased! {
                () = shutdown.fuse() => return Ok(End::Shutdown),
                input = inputs.next() => first = input,
                () = Box::pin(alarm).fuse() => self.alarm = None,
            }
            match first {
                None => self.step(Event::Tick),
                Some(input) => {
                    if let Some(end) = self.take(input) {
                        return end;
                    }
                    for _ in 0..BATCH {
                        let Ok(input) = inputs.try_recv() else { break };
                        if let Some(end) = self.take(input) {
                            return end;
                        }
                    }
                }
            }
        }
    }

    fn set_alarm(&mut self) {
        let now = self.runtime.now();
        let wake = self.kernel.next_wake(now);
        if wake != self.alarm.as_ref().map(|alarm| alarm.0) {
            self.alarm = wake.map(|at| (at, self.runtime.sleep_until(at)));
        }
    }

    /// Takes one input in. `Some`: the ownership has ended.
    fn take(&mut self, input: Input) -> Option<Result<End, Error>> {
        match input {
            Input::Kernel(Event::Renewed(until)) => self.renewed(until),
            Input::Kernel(event) => {
                self.calls.ended(&event);
                self.step(event);
            }
            Input::Observe { asset, reply } => {
                self.tickets += 1;
                self.observers.insert(self.tickets, reply);
                let ticket = self.tickets;
                self.step(Event::Observe { ticket, asset });
            }
            Input::Usage { shared, but, reply } => {
                let usage = self.kernel.usage(self.runtime.now(), &shared, &but);
                drop(reply.send(usage));
            }
            // Whoever asked has given up, and may have asked somebody else since: too late to do it now.
            given_up if given_up.is_given_up() => {}
            Input::Tell(command, reply) => self.tell(*command, reply),
            Input::Pin(asset, pin, reply) => self.pin(asset, pin, reply),
            Input::Actuate(step, reply) => self.actuate(*step, reply),
            Input::Retire(retiring) => self.retire(retiring),
            Input::Spared(spared) => self.retired.spare(&spared),
            Input::Feed(follower) => self.feed.follow(&mut self.kernel, follower),
            Input::WaitSettled(what, reply) => {
                self.settling.push((what, reply));
                self.answer_settled();
            }
            // Whoever asked may have gone: then nobody is told.
            Input::Status(reply) => drop(reply.send(self.kernel.status())),
            Input::Words(reply) => {
                let words = self.kernel.words(self.runtime.now());
                drop(reply.send(words))
            }
            Input::Branches(reply) => drop(reply.send(self.kernel.branches().clone())),
            Input::Explain(asset, reply) => {
                drop(reply.send(self.kernel.explain(self.runtime.now(), &asset)))
            }
            Input::Assets(reply) => drop(reply.send(self.kernel.assets().collect())),
            Input::Cited(reply) => drop(reply.send(self.kernel.cited())),
            Input::Of(token, input) if token == self.calls.token => return self.take(*input),
            Input::Of(..) => {}
            Input::Lost => return Some(Ok(End::Lost)),
            Input::Fenced(seen) => return Some(Ok(End::Fenced(seen))),
            Input::Stopped(why) => return Some(Err(Error::Stopped(why))),
        }
        self.violated()
    }

    fn renewed(&mut self, until: Mono) {
        self.pulse.answer();
        self.calls.lease.set(until);
        self.step(Event::Renewed(until));
    }

    fn tell(&mut self, command: Command, reply: Reply) {
        let said = format!("{command:?}");
        self.step(Event::Person(command));
        match self.refused.take() {
            Some(why) => {
                tracing::info!(word = said, why, "refused a person's word");
                // The speaker may have gone.
                let _ = reply.send(Err(Refused::Word(why)));
            }
            None => {
                tracing::info!(word = said, "took a person's word");
                self.when_durable(reply);
            }
        }
    }

    fn violated(&mut self) -> Option<Result<End, Error>> {
        let violation = self.violation.take()?;
        Some(Err(Error::Violated(violation)))
    }

    /// Answers once everything recorded so far is durable.
    fn when_durable(&mut self, reply: Reply) {
        // Of a step that broke something nothing is recorded: whoever asked hears that nobody enforces any more.
        if self.violation.is_some() {
            return;
        }
        // A closed scribe has said why: that ends this ownership.
        let _ = self.records.unbounded_send(vec![Entry::Answer(reply)]);
    }

    /// Feeds an event, and everything that follows from it at once, to the kernel.
    fn step(&mut self, event: Event) {
        if self.violation.is_some() {
            return;
        }
        let mut next = Some(event);
        let mut ready = std::collections::VecDeque::new();
        let mut now = self.runtime.now();
        for turn in 1.. {
            let Some(event) = next.take().or_else(|| ready.pop_front()) else {
                return;
            };
            if turn % CLOCK_EVERY == 0 {
                now = self.runtime.now();
            }
            self.telemetry.ended(&event);
            if let Err(violation) = self.kernel_step(now, event) {
                self.violation = Some(violation);
                return;
            }
            self.refused = self.effects.refused.take().or(self.refused.take());
            self.write();
            self.feed.tell(&mut self.effects.feed);
            for (ticket, answer) in self.effects.replies.drain(..) {
                if let Some(observer) = self.observers.remove(&ticket) {
                    let _ = observer.send(answer);
                }
            }
            for call in self.effects.calls.drain(..) {
                ready.extend(self.calls.perform(now, call));
            }
            if std::mem::take(&mut self.effects.settled_changed) {
                self.telemetry.settled(&self.kernel);
                self.answer_settled();
            }
        }
    }

    /// `Err`: what must never happen, seen before anything followed from it.
    fn kernel_step(&mut self, now: Now, event: Event) -> Result<(), String> {
        let step = AssertUnwindSafe(|| self.kernel.step(now, event, &mut self.effects));
        catch_unwind(step).map_err(|panic| format!("the kernel panicked: {}", said(&*panic)))?;
        self.effects.violation.take().map_or(Ok(()), Err)
    }

    fn write(&mut self) {
        if self.effects.records.is_empty() && self.ahead.is_empty() {
            return;
        }
        let mut entries = std::mem::take(&mut self.ahead);
        entries.extend(self.effects.records.drain(..).map(Entry::Kernel));
        // A closed scribe has said why: that ends this ownership.
        let _ = self.records.unbounded_send(entries);
    }

    fn answer_settled(&mut self) {
        if self.settling.is_empty() {
            return;
        }
        let kernel = &self.kernel;
        let settled = |what: &Settle| match what {
            Settle::All(no) => Some(kernel.all_settled_at(*no)),
            Settle::Asset(asset, no) => kernel.is_settled_at(asset, *no),
        };
        for (what, reply) in std::mem::take(&mut self.settling) {
            match settled(&what) {
                Some(false) if reply.is_canceled() => {}
                Some(false) => self.settling.push((what, reply)),
                // Whoever asked may have gone: then nobody is told.
                known => drop(reply.send(known.is_some())),
            }
        }
    }
}
