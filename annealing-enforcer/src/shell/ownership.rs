//! One ownership of a partition: takes inputs in, feeds them to the kernel, performs what the kernel asks for.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures::{
    FutureExt, StreamExt,
    channel::{
        mpsc::{UnboundedReceiver, UnboundedSender},
        oneshot,
    },
    future::{AbortHandle, BoxFuture},
};
use plane_runtime::{Kernel as _, Runtime};
use plugin_sdk::{FencingToken, Mono, Now, plugin};

use super::{
    End, Error, Input, Settle,
    askers::Askers,
    beside::said,
    calls::Calls,
    feed, halt,
    pulse::Pulse,
    retire::{Refused, Reply, Retired},
    scribe::Entry,
    telemetry,
};
use crate::kernel::{Command, Effects, Event, Kernel};

/// Answers that are there at once are steps of one moment; in a long row of them the clock is read again so often.
const CLOCK_EVERY: usize = 16;

/// Events taken before the shell lets others run.
const BATCH: usize = 2048;

/// What came of waiting for what happens next.
pub(super) enum Turn {
    /// Something happened, and is taken in.
    Went,
    /// What was waited for, at the longest, has come.
    Until,
    /// The ownership has ended.
    Over(Result<End, Error>),
}

/// One ownership of the partition: a kernel and everything around it that dies with it.
pub(super) struct Ownership<R> {
    pub(super) runtime: R,
    pub(super) kernel: Kernel,
    pub(super) effects: Effects,
    pub(super) calls: Calls<R>,
    pub(super) telemetry: telemetry::Telemetry,
    pub(super) records: UnboundedSender<Vec<Entry>>,
    pub(super) askers: Askers,
    pub(super) settling: Vec<(Settle, oneshot::Sender<bool>)>,
    pub(super) alarm: Option<(Mono, BoxFuture<'static, ()>)>,
    /// To be written before what the kernel records next.
    pub(super) ahead: Vec<Entry>,
    pub(super) retired: Retired,
    pub(super) feed: feed::Feed,
    /// Why the person's word at hand is refused.
    pub(super) refused: Option<String>,
    /// An invariant that does not hold: it ends this ownership.
    pub(super) violation: Option<String>,
    /// Answers as long as the loop runs.
    pub(super) pulse: Pulse,
    /// How long pushes under way have to end when it is shut down.
    pub(super) drain: Duration,
    /// Ends what runs beside.
    pub(super) beside: Vec<AbortHandle>,
}

impl<R: Runtime> Ownership<R> {
    pub(super) fn new(
        kernel: Kernel,
        effects: Effects,
        calls: Calls<R>,
        records: UnboundedSender<Vec<Entry>>,
    ) -> Self {
        Self {
            runtime: calls.runtime.clone(),
            kernel,
            effects,
            telemetry: telemetry::Telemetry::new(&calls.partition),
            calls,
            records,
            askers: Askers::default(),
            settling: Vec::new(),
            alarm: None,
            ahead: Vec::new(),
            retired: Retired::default(),
            feed: feed::Feed::default(),
            refused: None,
            violation: None,
            pulse: Pulse::default(),
            drain: Duration::ZERO,
            beside: Vec::new(),
        }
    }

    /// From the first lease to the end.
    pub(super) async fn enforce(
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

    pub(super) async fn run(
        &mut self,
        inputs: &mut UnboundedReceiver<Input>,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<End, Error> {
        loop {
            match self.turn(inputs, shutdown).await {
                Turn::Went => {}
                Turn::Until => return self.drain(inputs).await,
                Turn::Over(ended) => return ended,
            }
        }
    }

    /// Takes in what happens next, unless `until` comes first.
    pub(super) async fn turn(
        &mut self,
        inputs: &mut UnboundedReceiver<Input>,
        until: &mut BoxFuture<'static, ()>,
    ) -> Turn {
        if let Some(end) = self.violated() {
            return Turn::Over(end);
        }
        self.set_alarm();
        let alarm = async {
            match &mut self.alarm {
                Some((_, alarm)) => alarm.await,
                None => futures::future::pending().await,
            }
        };
        let mut next = None;
        futures::select_biased! {
            () = until.fuse() => return Turn::Until,
            input = inputs.next() => next = input,
            () = Box::pin(alarm).fuse() => self.alarm = None,
        }
        if next.is_none() {
            self.step(Event::Tick);
        }
        for _ in 0..=BATCH {
            let Some(input) = next.take() else { break };
            if let Some(end) = self.take(input) {
                return Turn::Over(end);
            }
            next = inputs.try_recv().ok();
        }
        if let Some(end) = next.and_then(|input| self.take(input)) {
            return Turn::Over(end);
        }
        Turn::Went
    }

    pub(super) fn set_alarm(&mut self) {
        let now = self.runtime.now();
        let wake = self.kernel.next_wake(now);
        if wake != self.alarm.as_ref().map(|alarm| alarm.0) {
            self.alarm = wake.map(|at| (at, self.runtime.sleep_until(at)));
        }
    }

    /// Takes one input in. `Some`: the ownership has ended.
    pub(super) fn take(&mut self, input: Input) -> Option<Result<End, Error>> {
        match input {
            Input::Kernel(Event::Renewed(until)) => self.renewed(until),
            Input::Kernel(event) => {
                self.calls.ended(&event);
                if let Some(seen) = self.given_out_twice(&event) {
                    return Some(Ok(End::Fenced(seen)));
                }
                self.step(event);
            }
            Input::Observe { asset, reply } => {
                let asked = self.askers.observe(asset, reply);
                self.step(asked);
            }
            Input::Usage { shared, but, reply } => {
                let asked = self.askers.usage(shared, but, reply);
                self.step(asked);
            }
            // The caller has given up, and may have asked another process since: too late to do it now.
            given_up if given_up.is_given_up() => {}
            Input::Tell(command, reply) => self.tell(*command, reply),
            // The speaker may have gone.
            Input::Clear(_, reply) => drop(reply.send(Err(halt::not_stopped()))),
            Input::Pin(asset, pin, reply) => self.pin(asset, pin, reply),
            Input::Actuate(step, reply) => self.actuate(*step, reply),
            Input::Retire(retiring) => self.retire(retiring),
            Input::Spared(spared) => self.retired.spare(&spared),
            Input::Feed(follower) => self.feed.follow(&mut self.kernel, follower),
            Input::WaitSettled(what, reply) => {
                self.settling.push((what, reply));
                self.answer_settled();
            }
            // The caller may have gone.
            Input::Status(reply) => {
                let status = self.kernel.status(self.runtime.now());
                drop(reply.send(status))
            }
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

    /// A provider refuses the newest of all calls that were made for an asset under this token, and has seen no newer one:
    /// the store was put back, and gives out again what it gave out before.
    fn given_out_twice(&self, event: &Event) -> Option<FencingToken> {
        let (run, error) = match event {
            Event::DiffDone { run, answer } => (run, answer.as_ref().err()?),
            Event::PushDone { run, answer } => (run, answer.as_ref().err()?),
            _ => return None,
        };
        match error {
            plugin::Error::Fenced {
                seen: Some(seen), ..
            } if *seen == self.calls.token => self.kernel.is_newest(*run).then_some(*seen),
            _ => None,
        }
    }

    pub(super) fn renewed(&mut self, until: Mono) {
        self.pulse.answer();
        let begins_until = match self.kernel.is_broken_on_purpose() {
            true => Mono(u64::MAX),
            false => until,
        };
        self.calls.lease.set(begins_until);
        self.step(Event::Renewed(until));
    }

    pub(super) fn tell(&mut self, command: Command, reply: Reply) {
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

    pub(super) fn violated(&mut self) -> Option<Result<End, Error>> {
        let violation = self.violation.take()?;
        Some(Ok(End::Violated(violation)))
    }

    /// Answers once everything recorded so far is durable.
    pub(super) fn when_durable(&mut self, reply: Reply) {
        // Of a step that broke something nothing is recorded: the caller hears that enforcement has ended.
        if self.violation.is_some() {
            return;
        }
        // A closed scribe has said why: that ends this ownership.
        let _ = self.records.unbounded_send(vec![Entry::Answer(reply)]);
    }

    /// Feeds an event, and everything that follows from it at once, to the kernel.
    pub(super) fn step(&mut self, event: Event) {
        if self.violation.is_some() {
            return;
        }
        let mut next = Some(event);
        let mut ready = VecDeque::new();
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
            for notice in self.effects.notices.drain(..) {
                self.telemetry.tell(notice);
            }
            self.askers.answer(&mut self.effects);
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
    pub(super) fn kernel_step(&mut self, now: Now, event: Event) -> Result<(), String> {
        let step = AssertUnwindSafe(|| self.kernel.step(now, event, &mut self.effects));
        catch_unwind(step).map_err(|panic| format!("the kernel panicked: {}", said(&*panic)))?;
        self.effects.violation.take().map_or(Ok(()), Err)
    }

    pub(super) fn write(&mut self) {
        if self.effects.records.is_empty() && self.ahead.is_empty() {
            return;
        }
        let mut entries = std::mem::take(&mut self.ahead);
        entries.extend(self.effects.records.drain(..).map(Entry::Kernel));
        // A closed scribe has said why: that ends this ownership.
        let _ = self.records.unbounded_send(entries);
    }

    pub(super) fn answer_settled(&mut self) {
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
                // The caller may have gone.
                known => drop(reply.send(known.is_some())),
            }
        }
    }
}
