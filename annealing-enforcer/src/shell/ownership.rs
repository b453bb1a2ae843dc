//! One ownership of a partition: feeds inputs to the kernel and performs the kernel's effects.

use std::{collections::VecDeque, time::Duration};

use control_plane_runtime::{Kernel as _, Runtime, catch_panic};
use futures::{
    FutureExt, StreamExt,
    channel::mpsc::{UnboundedReceiver, UnboundedSender},
    future::BoxFuture,
};
use plugin_sdk::{Diff, FencingToken, Mono, Now, Run, plugin};

use super::{
    ahead::{self, Foresight},
    askers::Askers,
    attached::Attached,
    beside::Beside,
    calls::Calls,
    error::Error,
    input::{Input, Refused, Reply},
    journal::Entry,
    pulse::Pulse,
    retired::Retired,
    settling::Settling,
    telemetry,
};
use crate::kernel::{Command, Effects, Event, Kernel};

/// Answers that are there at once are processed with one reading of the clock; after this many events, and before all
/// diffs that ended together, it is read again.
const CLOCK_EVERY: usize = 16;

/// Maximum number of inputs taken in one turn, before other tasks of the executor run.
const BATCH: usize = 2048;

/// Why an ownership ended.
pub(super) enum End {
    /// The caller of [`Enforcer::run`](crate::Enforcer::run) shuts it down.
    Shutdown,
    /// Another process owns the partition.
    Lost,
    /// Production has seen this token: it is newer than this ownership's, or the store gave it out twice.
    Fenced(FencingToken),
    /// An invariant did not hold; the text says which.
    Violated(String),
    /// An operator cleared the stop: enforcement starts again under a new token.
    Again,
}

/// The result of one turn of the loop.
pub(super) enum Turn {
    /// An input or the alarm was processed.
    Went,
    /// The future that limits the wait has completed.
    Until,
    /// The ownership has ended.
    Over(Result<End, Error>),
}

/// One ownership of the partition: its kernel, and all state that ends with it.
pub(super) struct Ownership<R> {
    pub(super) runtime: R,
    pub(super) kernel: Kernel,
    pub(super) effects: Effects,
    pub(super) calls: Calls<R>,
    pub(super) telemetry: telemetry::Telemetry,
    pub(super) records: UnboundedSender<Vec<Entry>>,
    pub(super) askers: Askers,
    pub(super) foresight: Foresight,
    pub(super) settling: Settling,
    pub(super) alarm: Option<(Mono, BoxFuture<'static, ()>)>,
    /// Writes to put before the kernel's next records, in the same step of the journal.
    pub(super) ahead: Vec<Entry>,
    pub(super) retired: Retired,
    pub(super) attached: Attached,
    /// Why the command being processed is refused; `None` if it is accepted.
    pub(super) refused: Option<String>,
    /// The invariant that does not hold, if any: it ends this ownership.
    pub(super) violation: Option<String>,
    /// Set each time the loop processes a renewal of the lease.
    pub(super) pulse: Pulse,
    /// How long pushes under way have to end on shutdown.
    pub(super) drain: Duration,
    /// The tasks that run beside this ownership.
    pub(super) beside: Beside,
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
            foresight: Foresight::default(),
            settling: Settling::default(),
            alarm: None,
            ahead: Vec::new(),
            retired: Retired::default(),
            attached: Attached::default(),
            refused: None,
            violation: None,
            pulse: Pulse::default(),
            drain: Duration::ZERO,
            beside: Beside::default(),
        }
    }

    /// Enforces from the first lease to the end of the ownership. `asked` are the inputs that arrived before it.
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

    /// Processes the next inputs or the alarm, unless `until` completes first.
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

    /// Processes one input. `Some`: the ownership has ended.
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
            Input::Ask(question) => {
                let asked = self.askers.ask(question);
                self.step(asked);
            }
            // An owner obeys a command although its caller has given up: the caller cannot know whether it did.
            Input::Tell(command, reply) => self.tell(*command, reply),
            // The caller has given up, and may have asked another process since: the input is not processed.
            given_up if given_up.is_given_up() => {}
            // The caller may have gone.
            Input::Clear(_, reply) => drop(reply.send(Err(Refused::nothing_stopped()))),
            Input::Ahead(_) | Input::Differing(_) | Input::Foreseen(_) => self.foresee(input),
            Input::Pin(asset, pin, reply) => self.pin(asset, pin, reply),
            Input::Actuate(step, reply) => self.actuate(*step, reply),
            Input::Retire(retiring) => self.retire(retiring),
            Input::Decided(assets) => self.forget_gone(assets),
            Input::Retained(retained) => self.retired.spare(&retained),
            Input::Attach(feed, items) => self.attached.begin(&mut self.kernel, feed, items),
            Input::Follow(feed, what) => self.attached.follow(&mut self.kernel, feed, what),
            Input::Wait(what, reply) => self.settling.wait(&self.kernel, what, reply),
            // The caller may have gone.
            Input::Status(reply) => {
                let status = self.kernel.status(self.runtime.now());
                drop(reply.send(status))
            }
            Input::Interventions(reply) => {
                let words = self.kernel.interventions(self.runtime.now());
                drop(reply.send(words))
            }
            Input::Awaiting(reply) => {
                let sets = self.kernel.awaiting_approval(self.runtime.now());
                drop(reply.send(sets))
            }
            Input::Branches(reply) => drop(reply.send(self.kernel.branches().clone())),
            Input::Explain(asset, reply) => {
                drop(reply.send(self.kernel.explain(self.runtime.now(), &asset)))
            }
            Input::Assets(reply) => drop(reply.send(self.kernel.assets().collect())),
            Input::Referenced(reply) => drop(reply.send(self.kernel.referenced())),
            Input::Of(token, input) if token == self.calls.token => return self.take(*input),
            Input::Of(..) => {}
            Input::Lost => return Some(Ok(End::Lost)),
            // One that an engine beside an earlier ownership reports says nothing of this one.
            Input::Fenced(seen) if seen < self.calls.token => {}
            Input::Fenced(seen) => return Some(Ok(End::Fenced(seen))),
            Input::Stopped(why) => return Some(Err(Error::Stopped(why))),
        }
        self.violated()
    }

    /// Processes an input about pushes that would follow if pins moved.
    fn foresee(&mut self, input: Input) {
        match input {
            Input::Ahead(question) => {
                self.foresight.ask(&mut self.kernel, &self.calls, *question);
            }
            Input::Differing(found) => ahead::check(&self.kernel, &self.calls, *found),
            Input::Foreseen(found) => {
                let now = self.runtime.now();
                self.foresight.found(&mut self.kernel, now, *found);
            }
            _ => {}
        }
    }

    /// Detects a token that the store gave out twice because it was restored: a provider fences the newest call of an
    /// asset, and has seen this very token. Returns that token.
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
        self.attached.renewed(&mut self.kernel, until);
        self.step(Event::Renewed(until));
    }

    pub(super) fn tell(&mut self, command: Command, reply: Reply) {
        let said = format!("{command:?}");
        self.step(Event::Person(command));
        match self.refused.take() {
            Some(why) => {
                tracing::info!(command = said, why, "refused an operator's command");
                // The caller may have gone.
                let _ = reply.send(Err(Refused::Word(why)));
            }
            None => {
                tracing::info!(command = said, "accepted an operator's command");
                self.when_durable(reply);
            }
        }
    }

    pub(super) fn violated(&mut self) -> Option<Result<End, Error>> {
        let violation = self.violation.take()?;
        Some(Ok(End::Violated(violation)))
    }

    /// Sends `Ok` to `reply` once everything recorded so far is durable.
    pub(super) fn when_durable(&mut self, reply: Reply) {
        // A step that breaks an invariant records nothing: `reply` is dropped, and the caller gets an error.
        if self.violation.is_some() {
            return;
        }
        // A journal writer that has ended has sent its reason, which ends this ownership.
        let _ = self.records.unbounded_send(vec![Entry::Answer(reply)]);
    }

    /// Feeds an event to the kernel, and then all answers of calls that are there at once.
    pub(super) fn step(&mut self, event: Event) {
        if self.violation.is_some() {
            return;
        }
        let mut ready = VecDeque::from([event]);
        let mut diffs = Vec::new();
        let mut now = self.runtime.now();
        for turn in 1.. {
            let Some(event) = ready.pop_front().or_else(|| together(&mut diffs)) else {
                return;
            };
            if turn % CLOCK_EVERY == 0 || matches!(event, Event::DiffsDone(_)) {
                now = self.runtime.now();
            }
            self.telemetry.ended(&event);
            if let Err(violation) = self.kernel_step(now, event) {
                self.violation = Some(violation);
                return;
            }
            self.refused = self.effects.refused.take().or(self.refused.take());
            self.write();
            self.attached
                .report(&mut self.kernel, &mut self.effects.feed);
            for notice in self.effects.notices.drain(..) {
                self.telemetry.tell(notice);
            }
            self.askers.answer(&mut self.effects);
            for call in self.effects.calls.drain(..) {
                match self.calls.perform(now, call) {
                    Some(Event::DiffDone { run, answer }) => diffs.push((run, answer)),
                    other => ready.extend(other),
                }
            }
            if std::mem::take(&mut self.effects.settled_changed) {
                self.telemetry.settled(&self.kernel);
                self.settling.changed(&self.kernel);
            }
        }
    }

    /// One step of the kernel. `Err`: an invariant does not hold, or the kernel panicked; no effect was performed.
    pub(super) fn kernel_step(&mut self, now: Now, event: Event) -> Result<(), String> {
        catch_panic(|| self.kernel.step(now, event, &mut self.effects))
            .map_err(|panic| format!("the kernel panicked: {panic}"))?;
        self.effects.violation.take().map_or(Ok(()), Err)
    }

    pub(super) fn write(&mut self) {
        if self.effects.records.is_empty() && self.ahead.is_empty() {
            return;
        }
        let mut entries = std::mem::take(&mut self.ahead);
        entries.extend(self.effects.records.drain(..).map(Entry::Kernel));
        // A journal writer that has ended has sent its reason, which ends this ownership.
        let _ = self.records.unbounded_send(entries);
    }
}

/// Takes all diffs that ended, if there are any, as one event.
fn together(diffs: &mut Vec<(Run, Result<Diff, plugin::Error>)>) -> Option<Event> {
    (!diffs.is_empty()).then(|| Event::DiffsDone(std::mem::take(diffs)))
}
