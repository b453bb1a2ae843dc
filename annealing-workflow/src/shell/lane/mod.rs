//! One ownership of a lane: the loop around the kernel, and its journal.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use control_plane_runtime::{Kernel as _, Outage, Runtime};
use control_plane_store::{
    Error, Version, Write,
    journal::{Journal, Ticket},
    record::{self, Rewrites},
};
use futures::{FutureExt, StreamExt, channel::mpsc::UnboundedReceiver, future::BoxFuture};
use plugin_sdk::{
    Feed, FeedItem, Follow, Mono,
    operation::{ExecutionId, KeyIdentity},
};

mod commits;
mod drain;

use self::{commits::Committing, drain::Draining};
use super::{
    Input, build::Workflows, calls::Calls, feed, handle::Answer, intended, retained::Retained,
    telemetry::Telemetry, writes::writes,
};
use crate::{
    kernel::{Call, CommitNo, Effects, Event, Lane, Record, Recovered, Reply, ReplyNo},
    record::{Ended, FeedPosition},
};

/// Longest time for which records wait for others that have to reach the disk.
const LAZY: Duration = Duration::from_millis(200);

/// Maximum number of inputs that are taken before commits, the feed, the clock and other tasks get their turn.
const INPUTS: usize = 64;

/// Something to do when a step of the journal is durable.
enum Then {
    Tell(Box<dyn FnOnce() + Send>),
    Durable(CommitNo),
}

/// The state that lives as long as one ownership.
pub(super) struct Session<R> {
    workflows: Arc<Workflows<R>>,
    kernel: Lane,
    effects: Effects,
    calls: Calls<R>,
    journal: Journal,
    /// The version of the fence that every commit expects.
    fence: Version,
    /// Writes that may wait, and since when they do.
    lazy: Vec<(CommitNo, Vec<Write>)>,
    lazy_since: Option<Mono>,
    thens: VecDeque<(Ticket, Then)>,
    /// Assets to follow, or not any more.
    follow: Vec<Follow>,
    replies: BTreeMap<ReplyNo, Answer<Reply>>,
    next_reply: u64,
    waiting: BTreeMap<ExecutionId, Vec<Answer<Option<Ended>>>>,
    /// The ticket of the last answer to another process, until it is durable.
    answered: Option<Ticket>,
    /// The last ticket of the journal.
    last: Ticket,
    broken: Option<String>,
    /// What newer program versions have put into the records.
    rewrites: Rewrites,
    retained: Retained,
    telemetry: Telemetry,
    /// The outage of commits.
    outage: Outage,
    /// The owners whose records of survival have been taken in.
    survived: BTreeSet<KeyIdentity>,
    draining: Option<Draining>,
}

impl<R> Drop for Session<R> {
    /// Lets the port forget the waits for production. The tasks of other calls end with `calls`.
    fn drop(&mut self) {
        for wait in self.kernel.waits() {
            self.calls.forget(wait);
        }
    }
}

/// What an ownership begins with.
pub(super) struct Stored {
    pub(super) recovered: Recovered,
    /// The identity of the keys that this ownership gives.
    pub(super) identity: KeyIdentity,
    pub(super) rewrites: Rewrites,
    pub(super) retained: Retained,
}

/// Lets other tasks go on.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| match std::mem::replace(&mut yielded, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// The wait for a time.
struct Alarm {
    at: Mono,
    rings: BoxFuture<'static, ()>,
}

impl<R: Runtime> Session<R> {
    pub(super) fn new(
        workflows: Arc<Workflows<R>>,
        calls: Calls<R>,
        journal: Journal,
        fence: Version,
        stored: Stored,
    ) -> Self {
        let telemetry = Telemetry::new(&workflows.partition);
        let mut effects = Effects::default();
        let mut settings = workflows.settings.clone();
        settings.identity = stored.identity;
        let survived = stored.recovered.survived.clone();
        let kernel = Lane::recover(
            settings,
            journal.token(),
            stored.recovered,
            Some(calls.incarnation().clone()),
            workflows.runtime.now(),
            &mut effects,
        );
        Self {
            calls,
            journal,
            fence,
            workflows,
            kernel,
            effects,
            lazy: Vec::new(),
            lazy_since: None,
            thens: VecDeque::new(),
            follow: Vec::new(),
            replies: BTreeMap::new(),
            next_reply: 0,
            waiting: BTreeMap::new(),
            answered: None,
            last: Ticket(0),
            broken: None,
            rewrites: stored.rewrites,
            retained: stored.retained,
            telemetry,
            outage: Outage::default(),
            survived,
            draining: None,
        }
    }

    /// Runs until the ownership ends. `true`: it has ended in order, and all is handed over.
    pub(super) async fn run(
        mut self,
        lease: Mono,
        mut feed: Feed,
        mut inputs: UnboundedReceiver<Input>,
    ) -> bool {
        self.perform();
        self.forget_survived();
        self.leased(lease);
        let intended = intended::all(self.calls.incarnation());
        self.step(Event::Intended(Box::new(intended)));
        let mut committing: Option<Committing> = None;
        let mut alarm = self.alarm();
        let mut taken = 0;
        while self.broken.is_none() {
            if self.is_handed_over() {
                return true;
            }
            self.follow(&feed);
            if committing.is_none() {
                committing = self.next_commit();
            }
            // One that is set for an earlier time only wakes the loop too soon.
            if self.next_wake() < alarm.at {
                alarm = self.alarm();
            }
            futures::select_biased! {
                committed = commits::result(&mut committing).fuse() => {
                    committing = None;
                    if !self.committed(committed).await {
                        return false;
                    }
                }
                fed = feed.next().fuse() => match fed {
                    Some(fed) => self.fed(fed),
                    None => return false,
                },
                input = inputs.next() => taken += self.take_lot(input, &mut inputs),
                () = (&mut alarm.rings).fuse() => {
                    self.tick();
                    alarm = self.alarm();
                }
            }
            // Answers from memory follow one another without a pause.
            if taken >= INPUTS {
                taken = 0;
                self.tick();
                yield_now().await;
            }
        }
        if let Some(why) = &self.broken {
            tracing::error!(partition = %self.workflows.partition, why, "the workflows stop until the partition has another owner");
        }
        false
    }

    /// Follows the assets that the kernel has asked for, or not any more, in the order in which it did.
    fn follow(&mut self, feed: &Feed) {
        for what in self.follow.drain(..) {
            feed.follow(what);
        }
    }

    fn fed(&mut self, fed: FeedItem) {
        match fed {
            FeedItem::Lease(until) => self.leased(until),
            FeedItem::Took(incarnation) => {
                let intended = intended::changed(self.calls.incarnation(), &incarnation);
                self.calls.took(incarnation.clone());
                self.step(Event::Took(incarnation, Box::new(intended)));
                self.calls.spare(&self.kernel.in_use());
            }
            FeedItem::Standings(standings) => self.step(Event::Stands(standings)),
            FeedItem::Drains(until) => self.drain(until),
            _ => {}
        }
    }

    /// Takes an input and those that are there already. Returns how many.
    fn take_lot(&mut self, first: Option<Input>, inputs: &mut UnboundedReceiver<Input>) -> usize {
        let more = std::iter::from_fn(|| inputs.try_recv().ok());
        let mut taken = 0;
        for input in first.into_iter().chain(more).take(INPUTS) {
            self.take(input);
            taken += 1;
            if self.broken.is_some() {
                break;
            }
        }
        taken
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Answered(event) => {
                self.calls.ended(&event);
                self.step(event);
            }
            Input::Asked(event) => self.step(event),
            Input::Command(command, by, known, reply) => {
                let no = ReplyNo(self.next_reply);
                self.next_reply += 1;
                self.replies.insert(no, reply);
                self.step(Event::Heard {
                    command,
                    by,
                    known,
                    reply: no,
                });
            }
            Input::Ends(id, reply) => match self.kernel.is_live(&id) {
                true => self.waiting.entry(id).or_default().push(reply),
                // It has ended, durably or nearly so, or never was: the caller looks into the store.
                false => self.when_durable(Then::Tell(Box::new(move || drop(reply.send(None))))),
            },
            // The answer waits for the records that say the same: the next owner needs what the store says. The caller may
            // have gone.
            Input::Referenced(reply) => {
                self.flush();
                let referenced = self.kernel.referenced().into_iter().collect();
                self.when_durable(Then::Tell(Box::new(move || drop(reply.send(referenced)))));
            }
            Input::Listened(name, heard) => {
                // A listener hears again what it has not stored.
                if let Ok(write) = record::put(&self.workflows.partition, &name, &heard) {
                    // R41: what is removed from now on is written after the cursor, in the order of the journal.
                    self.retained.heard(&name, &heard.heard);
                    self.flush();
                    self.last = self.journal.record(vec![write]);
                }
            }
            Input::Found(found) => {
                let writes = self
                    .retained
                    .found(&self.workflows, &mut self.kernel, found);
                self.remove(writes);
            }
        }
    }

    /// Writes what retention removes.
    fn remove(&mut self, writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        // The journal keeps the order of the kernel's commits.
        self.flush();
        self.last = self.journal.record(writes);
    }

    fn tick(&mut self) {
        let late = self
            .lazy_since
            .is_some_and(|since| since + LAZY <= self.workflows.runtime.now().mono);
        if late {
            self.flush();
        }
        let old = self.retained.look(&self.workflows, &mut self.kernel);
        self.remove(old);
        self.step(Event::Tick);
    }

    /// The time at which the loop has to look at the clock.
    fn next_wake(&self) -> Mono {
        let lazy = self.lazy_since.map(|since| since + LAZY);
        let next = [self.kernel.next_wake(), lazy, self.drained_by()];
        let next = next.into_iter().flatten();
        next.fold(self.retained.next, Mono::min)
    }

    fn alarm(&self) -> Alarm {
        let at = self.next_wake();
        let rings = self.workflows.runtime.sleep_until(at);
        Alarm { at, rings }
    }

    fn leased(&mut self, until: Mono) {
        let now = self.workflows.runtime.now();
        self.kernel
            .step(now, Event::Lease(until), &mut self.effects);
        self.calls.leased(self.kernel.leased_until());
        self.perform();
    }

    fn step(&mut self, event: Event) {
        let now = self.workflows.runtime.now();
        self.kernel.step(now, event, &mut self.effects);
        self.perform();
    }

    /// Performs the effects of a step of the kernel.
    fn perform(&mut self) {
        let effects = std::mem::take(&mut self.effects);
        if let Some(violation) = effects.violation {
            self.broken = Some(violation);
            return;
        }
        let answered = |record: &Record| matches!(record, Record::Answered(..));
        let answers = effects.records.iter().any(answered);
        let mut told = None;
        if let Some(commit) = effects.commit {
            self.retained.reopened(&effects.records);
            match self.made(commit, effects.records) {
                Ok((made, place)) => {
                    told = place;
                    self.lazy.push((commit, made));
                }
                Err(error) => {
                    self.broken = Some(error.to_string());
                    return;
                }
            }
            self.lazy_since
                .get_or_insert(self.workflows.runtime.now().mono);
        }
        if effects.urgent || !effects.replies.is_empty() {
            self.flush();
        }
        if answers {
            self.answered = Some(self.last);
        }
        for (no, reply) in effects.replies {
            if let Some(answer) = self.replies.remove(&no) {
                // The caller may have gone.
                self.when_durable(Then::Tell(Box::new(move || drop(answer.send(reply)))));
            }
        }
        for ended in effects.ended {
            self.retained.ended(&ended, told.as_ref());
            for answer in self.waiting.remove(&ended.id).unwrap_or_default() {
                let ended = Some(ended.clone());
                self.when_durable(Then::Tell(Box::new(move || drop(answer.send(ended)))));
            }
        }
        self.follow.extend(effects.follow);
        let mut calls = effects.calls;
        // Calls in memory run now, and must not delay the others. What a step begins and abandons is abandoned.
        calls.sort_by_key(|call| {
            let abandons = matches!(call, Call::Abandon(_));
            (abandons, self.calls.is_in_memory(call))
        });
        for call in calls {
            self.calls.make(call);
        }
    }

    /// The writes of one commit, with what it adds to the feed, and the last place of that.
    fn made(
        &self,
        commit: CommitNo,
        records: Vec<Record>,
    ) -> Result<(Vec<Write>, Option<FeedPosition>), Error> {
        let partition = &self.workflows.partition;
        self.telemetry.wrote(&records, self.kernel.live_count());
        let feed = feed::rows(partition, self.fence, commit, &records)?;
        let made = records
            .into_iter()
            .map(|record| writes(partition, &self.rewrites, record));
        let mut made = made.collect::<Result<Vec<_>, _>>()?.concat();
        let place = feed::last_of(&feed);
        made.extend(feed);
        Ok((made, place))
    }

    /// Hands all writes that wait to the journal, in order, each step whole.
    fn flush(&mut self) {
        self.lazy_since = None;
        for (commit, writes) in std::mem::take(&mut self.lazy) {
            self.last = self.journal.record(writes);
            self.thens.push_back((self.last, Then::Durable(commit)));
        }
    }

    /// Does something when everything handed to the journal is durable.
    fn when_durable(&mut self, then: Then) {
        match (self.journal.is_durable(self.last), then) {
            (true, Then::Tell(tell)) => tell(),
            (_, then) => self.thens.push_back((self.last, then)),
        }
    }
}
