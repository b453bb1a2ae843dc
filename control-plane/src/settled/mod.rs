//! Waits until production has what edits have changed, or until the rollouts that carried them have gone back or stopped
//! (R36). One task per ownership serves all waits: it has one feed of enforcement, shares the runs of generation and the
//! questions about policy groups among the waits, and looks only at the waits of the asset that has changed. The decisions
//! are in [`kernel`]; the loop here feeds it and does what it says.

mod groups;
mod kernel;
mod rests;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
};

use annealing_enforcer::Handle as Enforcer;
use control_plane_runtime::{Kernel as _, Runtime, SupervisedTask};
use control_plane_store::records::{HeldField, Ledger};
use futures::{
    FutureExt, Stream, StreamExt,
    channel::mpsc::{self, UnboundedReceiver, UnboundedSender},
    future::{AbortHandle, Abortable, Aborted, BoxFuture, OptionFuture},
    stream::{self, FuturesUnordered},
};
use plugin_sdk::{
    ChangeId, Enforcement, Feed, FeedItem, Mono,
    port::{SettleReply, SettleRequest, WaitNo},
};
use prodspec_model::{AssetId, IncarnationNo};
use tokio::sync::{Mutex, watch};

use self::kernel::{Effects, Event, Kernel};
use crate::shared::Shared;

/// Maximum number of inputs that are taken before enforcement gets its turn.
const INPUTS: usize = 1_024;

/// The waits of one ownership. All are over when it is dropped.
pub(super) struct Waits {
    inputs: UnboundedSender<Input>,
    _task: SupervisedTask,
}

/// How many runs of generation had begun when the edit was durable is not known: wait for a run that begins later.
pub(super) const LATER: u64 = u64::MAX;

enum Input {
    /// A wait, and the number of runs of generation that had begun when the edit was durable.
    Settle(SettleRequest, u64, SettleReply),
    Forget(WaitNo),
}

impl Waits {
    /// Starts the task that serves the waits. It ends with this value, or with the ownership. If it panics, the waits that it
    /// had end without an answer, so the lane asks for them again, and another task serves them.
    pub(super) fn start<R: Runtime>(shared: &Arc<Shared<R>>, enforcer: &Enforcer<R>) -> Self {
        let (sender, inputs) = mpsc::unbounded();
        let (inputs, shared) = (Arc::new(Mutex::new(inputs)), shared.clone());
        let feeds = enforcer.clone();
        let make = move || {
            let session = Session::new(shared.clone(), feeds.feed());
            let inputs = inputs.clone();
            async move { session.run(&mut *inputs.lock().await).await }.boxed()
        };
        Self {
            inputs: sender,
            _task: enforcer.beside("waits for production", Arc::new(make)),
        }
    }

    /// `begun`: the number of runs of generation that had begun when the edit was durable, or [`LATER`].
    pub(super) fn settle(&self, request: SettleRequest, begun: u64, reply: SettleReply) {
        // If the ownership has ended, the reply is dropped, which says so.
        let _ = self
            .inputs
            .unbounded_send(Input::Settle(request, begun, reply));
    }

    pub(super) fn forget(&self, wait: WaitNo) {
        // After the end of the ownership there are no waits.
        let _ = self.inputs.unbounded_send(Input::Forget(wait));
    }
}

/// The answer to a question about a policy group.
type Answer = (AssetId, Option<rests::Left>);

struct Session<R> {
    shared: Arc<Shared<R>>,
    kernel: Kernel,
    effects: Effects,
    feed: Feed,
    replies: BTreeSet<SettleReply>,
    /// The run of generation that is waited for.
    run: OptionFuture<BoxFuture<'static, Option<IncarnationNo>>>,
    questions: FuturesUnordered<Abortable<BoxFuture<'static, Answer>>>,
    /// The question about each policy group that has one.
    asked: BTreeMap<AssetId, AbortHandle>,
    /// The next time at which the kernel needs a tick.
    alarm: Option<(Mono, BoxFuture<'static, ()>)>,
}

impl<R: Runtime> Session<R> {
    fn new(shared: Arc<Shared<R>>, feed: Feed) -> Self {
        Self {
            shared,
            kernel: Kernel::default(),
            effects: Effects::default(),
            feed,
            replies: BTreeSet::new(),
            run: None.into(),
            questions: FuturesUnordered::new(),
            asked: BTreeMap::new(),
            alarm: None,
        }
    }

    /// Serves waits until the ownership or the lane ends. The waits that are left end without an answer.
    async fn run(mut self, inputs: &mut UnboundedReceiver<Input>) {
        let mut overwritten = pin!(overwritten(self.shared.clone()).fuse());
        loop {
            if let Some(begun) = self.kernel.run_to_await() {
                self.run = Some(rests::sealed(self.shared.clone(), begun).boxed()).into();
            }
            self.set_alarm();
            let alarm = OptionFuture::from(self.alarm.as_mut().map(|(_, rings)| rings));
            tokio::select! {
                // What enforcement has found before counts first.
                biased;
                fed = self.feed.next() => match fed {
                    Some(FeedItem::Took(incarnation)) => self.step(Event::Took(incarnation)),
                    Some(FeedItem::Standings(all)) => self.step(Event::Stands(all)),
                    Some(_) => {}
                    None => return,
                },
                Some(sealed) = &mut self.run => {
                    self.run = None.into();
                    self.step(Event::Ran(sealed));
                },
                Some(held) = overwritten.next() => self.step(Event::Overwritten(held)),
                Some(answer) = self.questions.next() => self.answered(answer),
                Some(()) = alarm => {
                    self.alarm = None;
                    self.step(Event::Tick);
                },
                input = inputs.next() => match input {
                    Some(first) => self.take(first, inputs),
                    None => return,
                },
            }
        }
    }

    /// Takes an input and those that are there already.
    fn take(&mut self, first: Input, inputs: &mut UnboundedReceiver<Input>) {
        let more = std::iter::from_fn(|| inputs.try_recv().ok());
        for input in std::iter::once(first).chain(more).take(INPUTS) {
            match input {
                Input::Settle(request, begun, reply) => {
                    let wait = reply.wait();
                    self.replies.insert(reply);
                    self.step(Event::Settle(wait, request, begun));
                }
                Input::Forget(wait) => {
                    self.replies.remove(&wait);
                    self.step(Event::Forget(wait));
                }
            }
        }
    }

    fn answered(&mut self, answer: Result<Answer, Aborted>) {
        if let Ok((policy, left)) = answer {
            self.asked.remove(&policy);
            self.step(Event::Rests(policy, left));
        }
    }

    fn step(&mut self, event: Event) {
        let now = self.shared.runtime.now();
        self.kernel.step(now, event, &mut self.effects);
        let effects = std::mem::take(&mut self.effects);
        for (wait, end) in effects.ended {
            if let Some(reply) = self.replies.take(&wait) {
                reply.settled(end);
            }
        }
        for what in effects.follow {
            self.feed.follow(what);
        }
        for (policy, at) in effects.questions {
            if let Some(before) = self.asked.remove(&policy) {
                before.abort();
            }
            if let Some(at) = at {
                self.ask(policy, at);
            }
        }
    }

    fn ask(&mut self, policy: AssetId, at: IncarnationNo) {
        let shared = self.shared.clone();
        let asked = policy.clone();
        let question = async move {
            let left = rests::left_behind(&shared, &asked, at).await;
            (asked, left)
        };
        let (handle, registration) = AbortHandle::new_pair();
        self.questions
            .push(Abortable::new(question.boxed(), registration));
        self.asked.insert(policy, handle);
    }

    fn set_alarm(&mut self) {
        let next = self.kernel.next_wake();
        if next != self.alarm.as_ref().map(|(at, _)| *at) {
            self.alarm = next.map(|at| (at, self.shared.runtime.sleep_until(at)));
        }
    }
}

/// The changes with fields that were set by others since, and what became of these, each time that the ledger has changed.
fn overwritten<R: Runtime>(
    shared: Arc<Shared<R>>,
) -> impl Stream<Item = BTreeMap<ChangeId, String>> + Send {
    let ledger: Option<watch::Receiver<Arc<Ledger>>> = None;
    let begin = (shared.desk.subscribe(), ledger);
    stream::unfold(begin, |(mut desks, mut ledger)| async move {
        loop {
            let Some(mut published) = ledger.take() else {
                let desk = desks.wait_for(Option::is_some).await.ok()?.clone();
                let published = desk.map(|desk| desk.published());
                let now = published.as_ref().map(|it| in_words(&it.borrow()));
                if let Some(now) = now {
                    return Some((now, (desks, published)));
                }
                continue;
            };
            tokio::select! {
                changed = published.changed() => if changed.is_ok() {
                    let now = in_words(&published.borrow_and_update());
                    return Some((now, (desks, Some(published))));
                },
                // Another desk has another ledger.
                changed = desks.changed() => changed.ok()?,
            }
        }
    })
}

fn in_words(ledger: &Ledger) -> BTreeMap<ChangeId, String> {
    let mut all: BTreeMap<ChangeId, String> = BTreeMap::new();
    for field in ledger.fields().filter(|it| it.overwritten.is_some()) {
        let words = all.entry(field.change.clone()).or_default();
        if !words.is_empty() {
            words.push_str("; ");
        }
        words.push_str(&fate(field));
    }
    all
}

/// What became of a field, in words.
fn fate(field: &HeldField) -> String {
    let found = field.overwritten.as_ref().and_then(|it| it.found.as_ref());
    let path = &field.edit.path;
    match found {
        Some(found) => format!("{path} was set to {found} by another program or a person"),
        None => format!("{path} was removed by another program or a person"),
    }
}
