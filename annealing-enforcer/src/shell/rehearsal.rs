//! Rehearses a takeover for a plan: a kernel recovers as a new owner's would, rollouts move pins, and the kernel diffs
//! every asset and decides. Diffs and checks are real; nothing is written, and no push is called.

use std::{collections::VecDeque, time::Duration};

use control_plane_runtime::{Kernel as _, Runtime};
use futures::{FutureExt, StreamExt, channel::mpsc::UnboundedReceiver};
use plugin_sdk::{FeedItem, FencingToken, Mono, RehearsedRollouts};
use prodspec_model::Incarnation;

use super::{askers::Askers, calls::Calls, error::Error, input::Input};
use crate::{
    config::{Config, TypeConfig},
    kernel::{Call, Effects, Event, Kernel, News, Recovered},
};

/// The token of plans, which own nothing. Providers never fence this token (R84).
pub(super) const TOKEN: FencingToken = FencingToken(0);

/// Replaces the waits and deadlines that a plan must not reach: retries, drift scans, ends of pushes.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// A kernel that recovers and decides without an ownership.
pub(super) struct Rehearsal<'r, R> {
    kernel: Kernel,
    effects: Effects,
    calls: Calls<R>,
    inputs: UnboundedReceiver<Input>,
    askers: Askers,
    recorded: u64,
    rollouts: &'r mut dyn RehearsedRollouts,
    /// Items of the feed that rollouts have not taken in yet.
    feed: Vec<FeedItem>,
}

impl<'r, R: Runtime> Rehearsal<'r, R> {
    /// Recovers a kernel from the partition's records; no call is started yet.
    pub(super) fn new(
        config: &Config,
        recovered: Recovered,
        calls: Calls<R>,
        inputs: UnboundedReceiver<Input>,
        rollouts: &'r mut dyn RehearsedRollouts,
    ) -> Self {
        let mut effects = Effects::default();
        let config = config
            .clone()
            .drift_period(NEVER)
            .backoff_base(NEVER)
            .backoff_cap(NEVER);
        let unending = |kind: TypeConfig| kind.push_deadline(NEVER).push_total(NEVER);
        let kinds = calls.registry.configs().into_iter().map(unending).collect();
        let now = calls.runtime.now();
        let kernel = Kernel::recover(now, config, kinds, TOKEN, recovered, &mut effects);
        Self {
            kernel,
            effects,
            calls,
            inputs,
            askers: Askers::default(),
            recorded: 0,
            rollouts,
            feed: Vec::new(),
        }
    }

    /// Publishes `incarnation` to the kernel, moves the pins that rollouts move, and diffs every asset, until no call is
    /// under way and no pin moves.
    ///
    /// # Errors
    /// [`Error::Plan`] when the kernel finds an invariant broken, [`Error::Rollouts`] when the rollouts fail.
    pub(super) async fn run(mut self, incarnation: Incarnation) -> Result<Kernel, Error> {
        self.step(Event::Publish(incarnation))?;
        self.feed = vec![
            FeedItem::Took(self.kernel.latest().clone()),
            FeedItem::Standings(self.kernel.follow_pinned()),
        ];
        // Without a lease no diff starts yet: an asset whose pin moves is diffed once.
        while self.roll_out().await? {}
        self.step(Event::Renewed(Mono(u64::MAX)))?;
        // Changed assets go first, as under an owner, where the drift scan gets to the others later.
        self.go_on().await?;
        self.kernel.look_at_all(self.calls.runtime.now());
        self.step(Event::Tick)?;
        self.go_on().await?;
        Ok(self.kernel)
    }

    /// Goes on until no call is under way and no pin moves.
    async fn go_on(&mut self) -> Result<(), Error> {
        loop {
            self.finish_calls().await?;
            if !self.roll_out().await? {
                return Ok(());
            }
        }
    }

    /// Takes the steps of rollouts that follow from the kernel's news. Returns whether there were any.
    async fn roll_out(&mut self) -> Result<bool, Error> {
        if self.feed.is_empty() {
            return Ok(false);
        }
        let items = std::mem::take(&mut self.feed);
        let steps = self.rollouts.steps(items).await;
        let steps = steps.map_err(Error::Rollouts)?;
        let any = !steps.is_empty();
        for step in steps {
            let (heads, moves) = (step.heads, step.moves);
            self.step(Event::Actuate { heads, moves })?;
        }
        Ok(any)
    }

    /// Processes inputs and time until no call is under way.
    async fn finish_calls(&mut self) -> Result<(), Error> {
        while !self.calls.running.is_empty() {
            let now = self.calls.runtime.now();
            let wake = self.kernel.next_wake(now).unwrap_or(now.mono + NEVER);
            let mut alarm = self.calls.runtime.sleep_until(wake).fuse();
            let input = futures::select_biased! {
                input = self.inputs.next() => input,
                () = alarm => None,
            };
            self.take(input)?;
        }
        Ok(())
    }

    /// Processes one input. `None`: an alarm of the kernel is due.
    fn take(&mut self, input: Option<Input>) -> Result<(), Error> {
        match input {
            None => self.step(Event::Tick),
            Some(Input::Of(_, input)) => self.take(Some(*input)),
            Some(Input::Kernel(event)) => {
                self.calls.ended(&event);
                self.step(event)
            }
            Some(Input::Ask(question)) => {
                let asked = self.askers.ask(question);
                self.step(asked)
            }
            // The other inputs do not concern a plan.
            Some(_) => Ok(()),
        }
    }

    /// Feeds an event to the kernel, and then all answers that are there at once. Admitted pushes are not called.
    fn step(&mut self, event: Event) -> Result<(), Error> {
        let mut ready = VecDeque::from([event]);
        while let Some(event) = ready.pop_front() {
            let now = self.calls.runtime.now();
            self.kernel.step(now, event, &mut self.effects);
            if let Some(violation) = self.effects.violation.take() {
                return Err(Error::Plan(violation));
            }
            let records = self.effects.records.drain(..).count() as u64;
            if records > 0 {
                self.recorded += records;
                ready.push_back(Event::Durable(self.recorded));
            }
            self.askers.answer(&mut self.effects);
            for call in self.effects.calls.drain(..) {
                match call {
                    Call::Push(_) => {}
                    call => ready.extend(self.calls.perform(now, call)),
                }
            }
            for news in self.effects.feed.drain(..) {
                match news {
                    News::Took(newest) => self.feed.push(FeedItem::Took(newest)),
                    News::Pinned(all) => self.feed.push(FeedItem::Standings(all)),
                    News::Followed(_) => {}
                }
            }
            self.effects.notices.clear();
        }
        Ok(())
    }
}
