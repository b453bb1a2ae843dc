//! The shell around the kernels, one per policy group. It feeds events in and performs effects, and decides nothing.

mod build;
mod calls;
mod groups;
mod handle;
mod kernels;
mod logged;
mod recover;
mod rehearsal;
mod steps;
mod waiting;

use std::sync::Arc;

use control_plane_runtime::{Outage, Runtime};
use control_plane_store::Write;
use futures::{
    FutureExt, StreamExt,
    channel::mpsc::{self, UnboundedReceiver, UnboundedSender},
    future::BoxFuture,
};
use plugin_sdk::{Actuator, Feed, FeedItem, Follow, Standing, with_causes};
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

pub use build::{Strategist, StrategistBuilder};
pub use handle::{AskError, Handle};
pub use rehearsal::Rehearsal;

use crate::{
    kernel::{Call, Command, Event, Refused, View},
    record::By,
};
use calls::answer;
use groups::Groups;
use steps::{Steps, Work};

/// Wait before stored data that could not be read is read again.
const READ_AGAIN: std::time::Duration = std::time::Duration::from_secs(5);

/// An input from outside the feed of enforcement.
pub(crate) enum Input {
    /// A call of the group's kernel ended.
    Answered(AssetId, Event),
    Command(AssetId, Command, By, handle::Reply<Result<(), Refused>>),
    Views(handle::Reply<Vec<View>>),
    Rests(AssetId, IncarnationNo, handle::Reply<waiting::Rests>),
    Referenced(handle::Reply<Vec<IncarnationNo>>),
}

/// The strategist attached to one ownership of a partition. It does nothing before [`Attached::run`].
pub struct Attached<R> {
    pub(crate) strategist: Arc<Strategist<R>>,
    pub(crate) actuator: Arc<dyn Actuator<Write = Write>>,
    pub(crate) inputs: UnboundedReceiver<Input>,
    pub(crate) sender: UnboundedSender<Input>,
    pub(crate) task_failure: handle::Trouble,
}

impl<R: Runtime> Attached<R> {
    /// Rolls out until the ownership ends. Drop the future to end it sooner: the next owner continues from what is
    /// durable.
    pub async fn run(self) {
        let Self {
            strategist,
            actuator,
            mut inputs,
            sender,
            task_failure,
        } = self;
        let task_failure = Spoken(task_failure);
        let mut feed = actuator.feed();
        feed.follow(Follow::Pinned);
        let Some((latest, pins)) = first(&mut feed).await else {
            return;
        };
        let mut outage = Outage::default();
        let remembered = loop {
            match recover::remembered(&strategist, &latest, &pins).await {
                Ok(remembered) => break remembered,
                Err(error) => {
                    if outage.failed(strategist.runtime.now().mono) {
                        tracing::warn!(partition = %strategist.partition, error = &*error as &dyn std::error::Error, "failed to read the stored rollouts; retrying every 5 s");
                    }
                    task_failure.0.set(Some(with_causes(&*error)));
                    let again = strategist.runtime.sleep(READ_AGAIN);
                    refused_until(again, &mut inputs).await;
                }
            }
        };
        outage.over(strategist.runtime.now().mono, "reading the stored rollouts");
        task_failure.0.set(None);
        let (work, steps) = mpsc::unbounded();
        let stepping = Steps::new(&strategist, actuator, steps, remembered.rewrites).run();
        let mut stepping = Box::pin(stepping).fuse();
        let mut beside = Session {
            strategist: strategist.clone(),
            groups: Groups::new(strategist, latest, remembered.heads, pins),
            work,
            sender,
        };
        beside.begin(remembered.groups);
        loop {
            let alarm = beside.alarm();
            futures::select_biased! {
                () = stepping => return,
                fed = feed.next().fuse() => match fed {
                    Some(fed) => beside.fed(fed),
                    None => return,
                },
                input = inputs.next() => if let Some(input) = input { beside.take(input) },
                () = alarm.fuse() => beside.tick(),
            }
        }
    }
}

/// Clears the reason for missing answers when the strategist ends.
struct Spoken(handle::Trouble);

impl Drop for Spoken {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// Drops inputs until `again` is ready. Their callers get the reason why there is no answer.
async fn refused_until(again: BoxFuture<'static, ()>, inputs: &mut UnboundedReceiver<Input>) {
    let mut again = again.fuse();
    loop {
        futures::select_biased! {
            () = again => return,
            input = inputs.next() => drop(input),
        }
    }
}

/// Returns the newest incarnation and every asset with a pin of its own. `None`: the feed ended.
async fn first(feed: &mut Feed) -> Option<(Incarnation, Vec<(AssetId, Standing)>)> {
    let mut latest = None;
    loop {
        match feed.next().await? {
            FeedItem::Took(incarnation) => latest = Some(incarnation),
            FeedItem::Standings(pins) => return Some((latest?, pins)),
            _ => {}
        }
    }
}

/// The state that lives as long as one ownership.
struct Session<R> {
    strategist: Arc<Strategist<R>>,
    groups: Groups<R>,
    work: UnboundedSender<Work>,
    sender: UnboundedSender<Input>,
}

impl<R: Runtime> Session<R> {
    fn begin(&mut self, remembered: Vec<recover::Group>) {
        self.groups.add(remembered);
        self.perform();
    }

    fn fed(&mut self, fed: FeedItem) {
        match fed {
            FeedItem::Took(latest) => self.groups.took(latest),
            FeedItem::Standings(standings) => self.groups.standings_changed(standings),
            _ => return,
        }
        self.perform();
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Answered(policy, event) => self.groups.step(&policy, event),
            Input::Command(policy, command, by, reply) => {
                self.groups.person(&policy, command, by, reply);
            }
            // The caller may have gone.
            Input::Views(reply) => drop(reply.send(self.groups.views())),
            Input::Rests(policy, at, reply) => self.groups.waiting.add(policy, at, reply),
            Input::Referenced(reply) => drop(reply.send(self.groups.referenced())),
        }
        self.perform();
    }

    fn tick(&mut self) {
        self.groups.tick();
        self.perform();
    }

    /// Sleeps until the next time at which a kernel needs a tick.
    fn alarm(&self) -> BoxFuture<'static, ()> {
        match self.groups.next_wake() {
            Some(at) => self.strategist.runtime.sleep_until(at),
            None => Box::pin(futures::future::pending()),
        }
    }

    fn perform(&mut self) {
        self.groups.rest();
        for work in self.groups.work.drain(..) {
            // If the task that makes steps has ended, it has logged why, and the strategist ends too.
            let _ = self.work.unbounded_send(work);
        }
        for (policy, call) in std::mem::take(&mut self.groups.calls) {
            self.call(policy, call);
        }
    }

    /// Makes a call of a kernel. Its answer, or that it came too late, returns as an input.
    fn call(&self, policy: AssetId, call: Call) {
        let (strategist, sender) = (self.strategist.clone(), self.sender.clone());
        let task = async move {
            let event = answer(&strategist, call).await;
            // The ownership may have ended meanwhile.
            let _ = sender.unbounded_send(Input::Answered(policy, event));
        };
        self.strategist.runtime.spawn(Box::pin(task));
    }
}

impl<R> std::fmt::Debug for Attached<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached")
            .field("strategist", &self.strategist)
            .finish_non_exhaustive()
    }
}
