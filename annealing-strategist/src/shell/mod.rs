//! The shell around the kernels, one per policy group. It feeds events in and performs effects, and decides nothing.

mod build;
mod calls;
mod carried;
mod change_steps;
mod changes;
mod groups;
mod hand_over;
mod handle;
mod kernels;
mod logged;
mod playing;
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
use plugin_sdk::{
    Actuator, BoxError, Edits, Feed, FeedItem, Follow, Holder, Pin, RolloutId, Standing, plugin,
    port::{SettleEnd, SettleEnds, SettleReply, WaitNo},
    with_causes,
};
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

pub use build::{Strategist, StrategistBuilder};
pub use carried::LetIn;
pub use handle::{AskError, Handle};
pub use rehearsal::Rehearsal;

use crate::{
    change::{self, HandOver, LiveChange, Planned, PlannedTarget},
    kernel::{Call, Command, Event, Heads, Refused, View},
    line::StoppedLine,
    preview::Course,
    record::By,
};
use calls::{answer, asks_checks};
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
    /// Asks for the live rollout of a group or a change, to play it.
    Course(AssetId, handle::Reply<Result<Course, Refused>>),
    Rests(AssetId, IncarnationNo, handle::Reply<waiting::Rests>),
    Referenced(handle::Reply<Vec<IncarnationNo>>),
    /// A change has begun: its records are in the store.
    RollOut(Box<Planned>, handle::Reply<Result<(), Refused>>),
    /// Waits for assets that come and may join a live change.
    Arrivals(handle::Reply<Vec<LiveChange>>),
    /// Asks for a live change.
    LiveChange(AssetId, handle::Reply<Option<LiveChange>>),
    /// A live change gets other values.
    HandOver(Box<HandOver>, By, handle::Reply<Result<(), Refused>>),
    /// Assets that came join a change, and others do not. Answered with whether the change is live.
    Join(
        (AssetId, Holder, RolloutId),
        Vec<PlannedTarget>,
        Vec<AssetId>,
        handle::Reply<()>,
    ),
    /// The line is stopped, or goes on.
    Line(Option<StoppedLine>, handle::Reply<Result<(), Refused>>),
    /// A train lets an incarnation into the group of a stage.
    LetIn(AssetId, Incarnation, handle::Reply<Result<LetIn, Refused>>),
    /// Pins that a change has moved are durable.
    Moved(AssetId, Vec<(AssetId, Pin)>),
    /// A call about the fields of a change ended.
    Fields(AssetId, changes::Answer),
    /// A wait for production ended.
    Settled(WaitNo, SettleEnd),
    /// The ends of changes are durable, and the records of their targets are deleted: the fields of these holders are given up.
    Over(Vec<Holder>),
}

/// The strategist attached to one ownership of a partition. It does nothing before [`Attached::run`].
pub struct Attached<R> {
    pub(crate) strategist: Arc<Strategist<R>>,
    pub(crate) actuator: Arc<dyn Actuator<Write = Write>>,
    /// The port to intent. `None`: no source can be edited.
    pub(crate) edits: Option<Arc<dyn Edits>>,
    pub(crate) inputs: UnboundedReceiver<Input>,
    pub(crate) sender: UnboundedSender<Input>,
    pub(crate) task_failure: handle::Trouble,
}

impl<R: Runtime> Attached<R> {
    /// Sets the port over which changes edit sources. Without it, changes wait.
    #[must_use]
    pub fn with_edits(mut self, edits: Arc<dyn Edits>) -> Self {
        self.edits = Some(edits);
        self
    }

    /// Rolls out until the ownership ends. Drop the future to end it sooner: the next owner continues from what is
    /// durable.
    pub async fn run(self) {
        let Self {
            strategist,
            actuator,
            edits,
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
        let found = (&latest, &*pins);
        let remembered = remembered(&strategist, found, &task_failure.0, &mut inputs).await;
        let (work, steps) = mpsc::unbounded();
        let rewrites = remembered.rewrites.clone();
        let stepping = Steps::new(&strategist, actuator.clone(), steps, rewrites).run();
        let mut stepping = Box::pin(stepping).fuse();
        let (over, ended) = mpsc::unbounded();
        let releasing = release(strategist.runtime.clone(), edits.clone(), ended);
        let mut releasing = Box::pin(releasing).fuse();
        let mut beside = Session::new(
            strategist,
            work,
            sender,
            (actuator, edits),
            (latest, pins),
            &remembered.heads,
            over,
        );
        beside.begin(remembered);
        loop {
            beside.follow(&feed);
            let alarm = beside.alarm();
            futures::select_biased! {
                () = stepping => return,
                // Without a port there is nothing to give up.
                () = releasing => {}
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

/// Reads what is stored, however often the store fails meanwhile.
async fn remembered<R: Runtime>(
    strategist: &Strategist<R>,
    (latest, pins): (&Incarnation, &[(AssetId, Standing)]),
    trouble: &handle::Trouble,
    inputs: &mut UnboundedReceiver<Input>,
) -> recover::Remembered {
    let mut outage = Outage::default();
    loop {
        match recover::remembered(strategist, latest, pins).await {
            Ok(remembered) => {
                outage.over(strategist.runtime.now().mono, "reading the stored rollouts");
                trouble.set(None);
                return remembered;
            }
            Err(error) => {
                if outage.failed(strategist.runtime.now().mono) {
                    tracing::warn!(partition = %strategist.partition, error = &*error as &dyn std::error::Error, "failed to read the stored rollouts; retrying every 5 s");
                }
                trouble.set(Some(with_causes(&*error)));
                let again = strategist.runtime.sleep(READ_AGAIN);
                refused_until(again, inputs).await;
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
    /// Enforcement of the ownership, whose checks selections ask.
    actuator: Arc<dyn Actuator<Write = Write>>,
    edits: Option<Arc<dyn Edits>>,
    /// Takes the ends of waits for production.
    ends: SettleEnds,
    /// Takes the changes that have ended, whose fields are given up.
    over: UnboundedSender<Vec<Holder>>,
}

impl<R: Runtime> Session<R> {
    fn new(
        strategist: Arc<Strategist<R>>,
        work: UnboundedSender<Work>,
        sender: UnboundedSender<Input>,
        (actuator, edits): (Arc<dyn Actuator<Write = Write>>, Option<Arc<dyn Edits>>),
        (latest, pins): (Incarnation, Vec<(AssetId, Standing)>),
        heads: &Heads,
        over: UnboundedSender<Vec<Holder>>,
    ) -> Self {
        let mut groups = Groups::new(strategist.clone(), latest, heads.clone(), pins);
        groups.changes.sender = Some(sender.clone());
        let inputs = sender.clone();
        let ends = SettleEnds::new(move |wait, end| {
            // The ownership may have ended meanwhile.
            let _ = inputs.unbounded_send(Input::Settled(wait, end));
        });
        Self {
            strategist,
            groups,
            work,
            sender,
            actuator,
            edits,
            ends,
            over,
        }
    }

    fn begin(&mut self, remembered: recover::Remembered) {
        self.groups.line = remembered.line;
        self.groups.carried = remembered.carried;
        let targets = remembered.changes.iter().flat_map(|it| &it.targets);
        let targets = targets.map(|(asset, _)| asset);
        self.groups.changes.busy = changes::groups_of(targets, &self.groups.latest);
        self.groups.add(remembered.groups);
        for stored in &remembered.changes {
            let begun = self.groups.begin_change(stored);
            self.note_unread(&stored.rollout.policy, begun);
        }
        // Not before: the group of a change that has not begun yet would count as one without changes.
        self.groups.note_changes();
        let mut holders = Vec::new();
        for recover::Over {
            key,
            holder,
            targets,
        } in remembered.over
        {
            holders.push(holder);
            if !targets.is_empty() {
                self.groups.work.push(Work::Forget(key, targets));
            }
        }
        let sender = self.sender.clone();
        let over = move || drop(sender.unbounded_send(Input::Over(holders)));
        self.groups.work.push(Work::then(over));
        self.perform();
    }

    fn note_unread(&self, key: &AssetId, begun: Result<(), BoxError>) {
        if let Err(error) = begun {
            tracing::error!(partition = %self.strategist.partition, change = %key, error = &*error as &dyn std::error::Error, "failed to read the stored data of a change; it stands still, and its fields stay held");
        }
    }

    /// Follows the targets of live changes.
    fn follow(&mut self, feed: &Feed) {
        for follow in self.groups.changes.follow.drain(..) {
            feed.follow(follow);
        }
    }

    fn fed(&mut self, fed: FeedItem) {
        match fed {
            FeedItem::Took(latest) => {
                let changed = self.groups.took(latest);
                self.groups.took_changes(&changed);
            }
            FeedItem::Standings(standings) => {
                self.groups.stand_changes(&standings);
                self.groups.standings_changed(standings);
            }
            _ => return,
        }
        self.perform();
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Answered(key, event) if self.groups.changes.has(&key) => {
                self.groups.step_change(&key, event);
            }
            Input::Answered(policy, event) => self.groups.step(&policy, event),
            Input::Command(policy, command, by, reply) => {
                self.groups.person(&policy, command, by, reply);
            }
            // The caller may have gone.
            Input::Views(reply) => drop(reply.send(self.groups.views())),
            Input::Course(key, reply) => drop(reply.send(self.groups.course(&key))),
            Input::Rests(key, at, reply) if self.groups.changes.has(&key) => {
                self.groups.changes.waiting.add(key, at, reply);
            }
            Input::Rests(policy, at, reply) => self.groups.waiting.add(policy, at, reply),
            Input::RollOut(planned, reply) => {
                let begun = self.groups.begin_change(&planned.into_stored());
                self.groups.note_changes();
                let answer = begun.map_err(|error| Refused(with_causes(&*error)));
                drop(reply.send(answer));
            }
            Input::Arrivals(reply) => self.groups.changes.asking.push(reply),
            // The caller may have gone.
            Input::LiveChange(key, reply) => drop(reply.send(self.groups.changes.live(&key))),
            Input::HandOver(to, by, reply) => self.groups.hand_change_over(&to, by, reply),
            Input::Join(of, targets, beside, reply) => {
                self.groups.arrived((&of.0, &of.1, of.2), &targets, beside);
                // The caller may have gone.
                let _ = reply.send(());
            }
            Input::Line(line, reply) => self.groups.set_line(line, reply),
            Input::LetIn(policy, to, reply) => {
                let answer = self.groups.let_in(&policy, &to);
                self.groups.work.push(Work::tell(reply, answer));
            }
            Input::Moved(key, moves) => self.groups.moved(&key, &moves),
            Input::Fields(key, answer) => self.groups.answered(&key, answer),
            Input::Settled(wait, end) => self.groups.settled(wait, end),
            // The session may have ended meanwhile: the next owner gives them up.
            Input::Over(holders) => drop(self.over.unbounded_send(holders)),
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
        self.groups.note_taken();
        self.groups.rest();
        for work in self.groups.work.drain(..) {
            // If the task that makes steps has ended, it has logged why, and the strategist ends too.
            let _ = self.work.unbounded_send(work);
        }
        for (policy, call) in std::mem::take(&mut self.groups.calls) {
            self.call(policy, call);
        }
        for (key, call) in std::mem::take(&mut self.groups.changes.calls) {
            self.call_source(key, call);
        }
    }

    /// Makes a call of a kernel. Its answer, or that it came too late, returns as an input.
    fn call(&mut self, policy: AssetId, mut call: Call) {
        let goals = self.groups.goals(&policy);
        asks_checks(&self.strategist, &mut call, &self.actuator, goals);
        let (strategist, sender) = (self.strategist.clone(), self.sender.clone());
        let task = async move {
            let event = answer(&strategist, call).await;
            // The ownership may have ended meanwhile.
            let _ = sender.unbounded_send(Input::Answered(policy, event));
        };
        self.strategist.runtime.spawn(Box::pin(task));
    }

    /// Makes a call of a change about its fields.
    fn call_source(&mut self, key: AssetId, call: change::Call) {
        let edits = self.edits.clone();
        let none = || plugin::Error::transient("no port to intent is attached");
        let sender = self.sender.clone();
        let task: BoxFuture<'static, ()> = match call {
            change::Call::Edit(call, edit) => Box::pin(async move {
                let made = match edits {
                    Some(edits) => edits.edit(&edit).await,
                    None => Err(none()),
                };
                let answer = changes::Answer::Edited(call, edit.id, made);
                // The ownership may have ended meanwhile.
                let _ = sender.unbounded_send(Input::Fields(key, answer));
            }),
            change::Call::Look(call, edit) => Box::pin(async move {
                let found = match edits {
                    Some(edits) => edits.missing(&edit).await,
                    None => Err(none()),
                };
                let answer = changes::Answer::Looked(call, edit.id, found);
                // The ownership may have ended meanwhile.
                let _ = sender.unbounded_send(Input::Fields(key, answer));
            }),
            change::Call::Settle(call, request) => {
                let wait = self.groups.changes.wait(&key, call);
                let reply = SettleReply::new(wait, self.ends.clone());
                // Without a port, the dropped reply ends the wait, which begins again later.
                if let Some(edits) = edits {
                    edits.settle(request, reply);
                }
                return;
            }
        };
        self.strategist.runtime.spawn(task);
    }
}

/// Gives up the fields of changes that have ended. It is tried again until it succeeds, or the next owner does it.
async fn release(
    runtime: impl Runtime,
    edits: Option<Arc<dyn Edits>>,
    over: UnboundedReceiver<Vec<Holder>>,
) {
    let Some(edits) = &edits else { return };
    let runtime = &runtime;
    let released = |over: Vec<Holder>| async move {
        let mut outage = Outage::default();
        while let Err(error) = given_up(&**edits, &over).await {
            if outage.failed(runtime.now().mono) {
                tracing::warn!(
                    error = &*error as &dyn std::error::Error,
                    "failed to give up the fields of changes that have ended; retrying every 5 s"
                );
            }
            runtime.sleep(READ_AGAIN).await;
        }
    };
    over.for_each_concurrent(None, released).await;
}

/// Gives up all fields of those of `over` that hold any.
async fn given_up(edits: &dyn Edits, over: &[Holder]) -> Result<(), BoxError> {
    let holders = edits.holders().await?;
    for holder in over.iter().filter(|it| holders.contains(it)) {
        edits.release(holder).await?;
    }
    Ok(())
}

impl<R> std::fmt::Debug for Attached<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached")
            .field("strategist", &self.strategist)
            .finish_non_exhaustive()
    }
}
