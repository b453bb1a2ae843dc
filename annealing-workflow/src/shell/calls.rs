//! The calls of the kernel: functions, probes and the dispatch stack. They are code of users and run in tasks beside the
//! loop, except those that say that they answer from memory. The kernel ends a call that has no answer in time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use control_plane_runtime::{Runtime, catch_panic_in};
use control_plane_store::record::Rewrites;
use futures::{
    channel::mpsc::UnboundedSender,
    future::{AbortHandle, BoxFuture, abortable},
};
use plugin_sdk::{
    DispatchRequest, Edits, Enforcement, Holder, Mono,
    operation::{EffectKey, Probed, Ran, Start},
    plugin,
    port::{SettleEnds, WaitNo},
    with_causes,
};
use prodspec_model::{Incarnation, IncarnationNo};

use super::{Input, build::Workflows, recover::load_key, request};
use crate::kernel::{Call, CallNo, Event, Run};

/// Longest time for which a call should keep the loop, if it says that it answers from memory.
const IN_MEMORY: Duration = Duration::from_millis(100);

/// Why a call has no answer although it has ended.
const PANICKED: &str = "it panicked";

/// Makes the calls of one ownership. Those in flight are dropped with it.
pub(super) struct Calls<R> {
    pub(super) workflows: Arc<Workflows<R>>,
    enforcement: Arc<dyn Enforcement>,
    sender: UnboundedSender<Input>,
    leased: Leased,
    /// Hands the ends of waits for production to the loop.
    pub(super) settled: SettleEnds,
    pub(super) edits: Option<Arc<dyn Edits>>,
    /// Takes the executions that have ended and may hold fields.
    pub(super) ended: UnboundedSender<Holder>,
    latest: Incarnation,
    /// Older incarnations that calls in flight read.
    older: BTreeMap<IncarnationNo, Incarnation>,
    /// The tasks of calls without an answer. Waits for production have none.
    in_flight: BTreeMap<CallNo, AbortHandle>,
}

/// Until when calls may begin, for those that read before they begin.
#[derive(Clone, Default)]
struct Leased(Arc<AtomicU64>);

impl Leased {
    fn is_over(&self, now: Mono, begins_by: Mono) -> bool {
        let until = Mono(self.0.load(Ordering::Relaxed));
        now >= until.min(begins_by)
    }
}

impl<R: Runtime> Calls<R> {
    pub(super) fn new(
        workflows: Arc<Workflows<R>>,
        enforcement: Arc<dyn Enforcement>,
        sender: UnboundedSender<Input>,
        (edits, ended): (Option<Arc<dyn Edits>>, UnboundedSender<Holder>),
        latest: Incarnation,
    ) -> Self {
        let told = sender.clone();
        let settled = move |wait: WaitNo, end| {
            let settled = Event::Settled(CallNo(wait.0), end);
            // The ownership may have ended meanwhile.
            let _ = told.unbounded_send(Input::Answered(settled));
        };
        Self {
            settled: SettleEnds::new(settled),
            leased: Leased::default(),
            workflows,
            enforcement,
            sender,
            edits,
            ended,
            latest,
            older: BTreeMap::new(),
            in_flight: BTreeMap::new(),
        }
    }

    /// The newest incarnation.
    pub(super) fn incarnation(&self) -> &Incarnation {
        &self.latest
    }

    /// Calls may begin until then.
    pub(super) fn leased(&self, until: Mono) {
        self.leased.0.store(until.0, Ordering::Relaxed);
    }

    /// A newer incarnation is in force.
    pub(super) fn took(&mut self, incarnation: Incarnation) {
        let before = std::mem::replace(&mut self.latest, incarnation);
        self.older.insert(before.no(), before);
    }

    /// Forgets the incarnations that no call reads any more.
    pub(super) fn spare(&mut self, used: &BTreeSet<IncarnationNo>) {
        self.older.retain(|no, _| used.contains(no));
    }

    pub(super) fn make(&mut self, call: Call) {
        match call {
            Call::Run(no, run) => self.run(no, *run),
            Call::Probe(no, function, key) => self.probe(no, &function, key),
            Call::Dispatch(no, request) => self.dispatch(no, *request),
            Call::Edit(no, edit) => self.edit(no, *edit),
            Call::Settle(no, request) => self.settle(no, *request),
            Call::Release(holder) => self.release(holder),
            Call::Abandon(no) => self.abandon(no),
        }
    }

    /// Whether a call runs in the loop.
    pub(super) fn is_in_memory(&self, call: &Call) -> bool {
        match call {
            Call::Run(_, run) => self.answers_from_memory(&run.function),
            Call::Dispatch(..) => self.workflows.dispatch_in_memory,
            _ => false,
        }
    }

    fn answers_from_memory(&self, function: &str) -> bool {
        let info = self.workflows.function(function);
        info.is_some_and(|info| info.in_memory)
    }

    /// Removes a call that has ended.
    pub(super) fn ended(&mut self, event: &Event) {
        if let Event::Dispatched(no, _)
        | Event::Answered(no, _)
        | Event::PutOff(no, _)
        | Event::Probed(no, _)
        | Event::Edited(no, _)
        | Event::Settled(no, _) = event
        {
            self.in_flight.remove(no);
        }
    }

    fn dispatch(&mut self, no: CallNo, request: DispatchRequest) {
        let reader = plugin_sdk::IncarnationReader::new(self.latest.clone());
        let asked = self.workflows.dispatch.call(request.reader(reader));
        let made = Box::pin(async move {
            let asked = async { asked.await.map_err(|error| with_causes(&*error)) };
            let answer = catch_panic_in(asked).await;
            let answer = answer.unwrap_or_else(|_| Err(PANICKED.to_owned()));
            Event::Dispatched(no, answer)
        });
        let in_memory = self.workflows.dispatch_in_memory;
        self.start(no, made, in_memory.then_some("the dispatch stack"));
    }

    /// What telling keys needs.
    pub(super) fn keys(&self) -> (Arc<Workflows<R>>, UnboundedSender<Input>) {
        (self.workflows.clone(), self.sender.clone())
    }

    fn run(&mut self, no: CallNo, run: Run) {
        let Some(function) = self.workflows.functions.get(&run.function).cloned() else {
            return self.answer(
                no,
                Err(plugin::Error::transient("the function is not registered")),
            );
        };
        let incarnation = match self.older.get(&run.incarnation) {
            Some(older) => older.clone(),
            None => self.latest.clone(),
        };
        let (workflows, enforcement) = (self.workflows.clone(), self.enforcement.clone());
        let sender = self.sender.clone();
        let name = run.function.clone();
        let in_memory = self.answers_from_memory(&name);
        let leased = self.leased.clone();
        let made = Box::pin(async move {
            let begins_by = run.begins_by;
            let mut answer = match request::request(
                &workflows.runtime,
                &*enforcement,
                &workflows.incarnations,
                run,
                incarnation,
            )
            .await
            {
                Err(why @ plugin::Error::Throttled { .. }) => return Event::PutOff(no, why),
                Err(error) => Err(error),
                // The store was slow, or the process stood still. The function was not called, so this is no failure of it.
                Ok(_) if leased.is_over(workflows.runtime.now().mono, begins_by) => {
                    let why = "the lease, or the time of the call, was over before it began";
                    return Event::PutOff(no, plugin::Error::throttled(why, Duration::ZERO));
                }
                Ok(request) => {
                    let token = request.fence.token;
                    let called = catch_panic_in(async { function.run(request).await }).await;
                    // Only the newest call of a step is waited for, so no other call of this owner has fenced it.
                    if let Ok(Err(plugin::Error::Fenced {
                        seen: Some(seen), ..
                    })) = &called
                        && *seen >= token
                    {
                        enforcement.fenced(*seen);
                    }
                    called.unwrap_or_else(|_| Err(plugin::Error::unknown(PANICKED)))
                }
            };
            if let Ok(Ran::Done(done)) = &answer
                && let Err(error) = tell_keys(&workflows, &sender, &done.starts).await
            {
                answer = Err(plugin::Error::unknown(with_causes(&error)));
            }
            Event::Answered(no, answer)
        });
        self.start(no, made, in_memory.then_some(&*name));
    }

    fn probe(&mut self, no: CallNo, function: &str, key: EffectKey) {
        let Some(probe) = self.workflows.probes.get(function).cloned() else {
            return;
        };
        let (workflows, sender) = (self.workflows.clone(), self.sender.clone());
        self.spawn(no, async move {
            let asked = catch_panic_in(async { probe.probe(key).await }).await;
            let mut answer = asked.unwrap_or_else(|_| Err(plugin::Error::transient(PANICKED)));
            if let Ok(Probed::Happened(done)) = &answer
                && let Err(error) = tell_keys(&workflows, &sender, &done.starts).await
            {
                answer = Err(plugin::Error::transient(with_causes(&error)));
            }
            Event::Probed(no, answer)
        });
    }

    fn answer(&self, no: CallNo, answer: Result<Ran, plugin::Error>) {
        // The ownership may have ended meanwhile.
        let _ = self
            .sender
            .unbounded_send(Input::Answered(Event::Answered(no, answer)));
    }

    /// Runs a call in a task of its own and hands its answer to the loop.
    pub(super) fn spawn(&mut self, no: CallNo, made: impl Future<Output = Event> + Send + 'static) {
        self.start(no, Box::pin(made), None);
    }

    /// Runs a call in a task of its own and hands its answer to the loop. `in_memory`: the name of a callee that says that
    /// it answers from memory. Its call is polled once in the loop first, and needs no task if the answer is there.
    fn start(&mut self, no: CallNo, mut made: BoxFuture<'static, Event>, in_memory: Option<&str>) {
        if let Some(name) = in_memory
            && let Some(event) = self.at_once(&mut made, name)
        {
            // In its turn, so that a chain of such calls does not keep the loop from others.
            let _ = self.sender.unbounded_send(Input::Answered(event));
            return;
        }
        let task = self.task(no, made);
        self.workflows.runtime.spawn_call(task);
    }

    /// The task of a call, which hands its answer to the loop.
    pub(super) fn task(
        &mut self,
        no: CallNo,
        made: impl Future<Output = Event> + Send + 'static,
    ) -> BoxFuture<'static, ()> {
        let (made, handle) = abortable(made);
        self.in_flight.insert(no, handle);
        let sender = self.sender.clone();
        Box::pin(async move {
            if let Ok(event) = made.await {
                // The ownership may have ended meanwhile.
                let _ = sender.unbounded_send(Input::Answered(event));
            }
        })
    }

    /// Polls a call once in the loop. `None`: it has no answer yet.
    fn at_once(&self, made: &mut BoxFuture<'static, Event>, name: &str) -> Option<Event> {
        let begun = self.workflows.runtime.now().mono;
        let mut unheard = Context::from_waker(Waker::noop());
        let polled = made.as_mut().poll(&mut unheard);
        let took = self.workflows.runtime.now().mono.since(begun);
        if took > IN_MEMORY {
            let partition = &self.workflows.partition;
            tracing::warn!(%partition, name, ?took, "what is declared `in_memory` has kept the loop of the workflows from other work");
        }
        match polled {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }
}

/// Tells the kernel what the store knows of the keys of these starts, which an answer asks for.
pub(super) async fn tell_keys<R: Runtime>(
    workflows: &Workflows<R>,
    sender: &UnboundedSender<Input>,
    starts: &[Start],
) -> Result<(), control_plane_store::Error> {
    let mut known = Vec::new();
    for start in starts {
        if let Some(key) = &start.key {
            let rewrites = Rewrites::default();
            known.extend(load_key(workflows, &rewrites, &start.workflow, key).await?);
        }
    }
    if !known.is_empty() {
        // The ownership may have ended meanwhile.
        let _ = sender.unbounded_send(Input::Answered(Event::Known(known)));
    }
    Ok(())
}

impl<R> Calls<R> {
    /// Drops the future of a call whose answer does not count any more, or lets the port forget a wait.
    fn abandon(&mut self, no: CallNo) {
        match self.in_flight.remove(&no) {
            Some(task) => task.abort(),
            None if no.is_wait() => self.forget(no),
            None => {}
        }
    }
}

impl<R> Drop for Calls<R> {
    fn drop(&mut self) {
        for task in self.in_flight.values() {
            task.abort();
        }
    }
}
