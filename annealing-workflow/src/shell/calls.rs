//! The calls of the kernel: functions, probes and the dispatch stack. They are code of users and run in tasks beside the
//! loop.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use control_plane_runtime::{Runtime, call};
use control_plane_store::record::Rewrites;
use futures::{
    channel::mpsc::UnboundedSender,
    future::{AbortHandle, abortable},
};
use plugin_sdk::{
    Enforcement,
    operation::{EffectKey, Probed, Ran, Start},
    plugin, with_causes,
};
use prodspec_model::{Incarnation, IncarnationNo};

use super::{Input, build::Workflows, recover::load_key, request};
use crate::{
    intent::Intent,
    kernel::{Call, CallNo, Event, Run},
};

/// Time for an answer of a probe or of the dispatch stack.
const LOOK: Duration = Duration::from_secs(10);

/// Makes the calls of one ownership. Those in flight are dropped with it.
pub(super) struct Calls<R> {
    pub(super) workflows: Arc<Workflows<R>>,
    enforcement: Arc<dyn Enforcement>,
    sender: UnboundedSender<Input>,
    pub(super) intent: Option<Arc<dyn Intent>>,
    latest: Incarnation,
    /// Older incarnations that calls in flight read.
    older: BTreeMap<IncarnationNo, Incarnation>,
    in_flight: Arc<Mutex<BTreeMap<CallNo, AbortHandle>>>,
}

impl<R: Runtime> Calls<R> {
    pub(super) fn new(
        workflows: Arc<Workflows<R>>,
        enforcement: Arc<dyn Enforcement>,
        sender: UnboundedSender<Input>,
        intent: Option<Arc<dyn Intent>>,
        latest: Incarnation,
    ) -> Self {
        Self {
            workflows,
            enforcement,
            sender,
            intent,
            latest,
            older: BTreeMap::new(),
            in_flight: Arc::default(),
        }
    }

    /// The newest incarnation.
    pub(super) fn incarnation(&self) -> &Incarnation {
        &self.latest
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

    pub(super) fn make(&self, call: Call) {
        match call {
            Call::Run(no, run) => self.run(no, *run),
            Call::Probe(no, function, key) => self.probe(no, &function, key),
            Call::Dispatch(no, request) => {
                let reader = plugin_sdk::IncarnationReader::new(self.latest.clone());
                let (workflows, request) = (self.workflows.clone(), request.reader(reader));
                self.spawn(no, async move {
                    let asked = {
                        let workflows = workflows.clone();
                        async move { workflows.dispatch.call(request).await }
                    };
                    let until = workflows.runtime.now().mono + LOOK;
                    let answer = match call_until(&workflows, until, asked).await {
                        Ok(Ok(dispatch)) => Ok(dispatch),
                        Ok(Err(error)) => Err(with_causes(&*error)),
                        Err(none) => Err(none),
                    };
                    Event::Dispatched(no, answer)
                });
            }
            Call::Edit(no, edit) => self.edit(no, *edit),
            Call::Settle(no, edit) => self.settle(no, *edit),
            Call::Release(holder) => self.release(holder),
            Call::Abandon(no) => {
                let handle = lock(&self.in_flight).remove(&no);
                if let Some(handle) = handle {
                    handle.abort();
                }
            }
        }
    }

    /// What telling keys needs.
    pub(super) fn keys(&self) -> (Arc<Workflows<R>>, UnboundedSender<Input>) {
        (self.workflows.clone(), self.sender.clone())
    }

    fn run(&self, no: CallNo, run: Run) {
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
        self.spawn(no, async move {
            let until = run.until;
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
                // The process stood still until then. The function was not called, so this is no failure of it.
                Ok(_) if workflows.runtime.now().mono >= until => {
                    let why = "the deadline of the call passed before it began";
                    return Event::PutOff(no, plugin::Error::throttled(why, Duration::ZERO));
                }
                Ok(request) => {
                    let called = async move { function.run(request).await };
                    match call_until(&workflows, until, called).await {
                        Ok(answer) => answer,
                        Err(none) => Err(plugin::Error::unknown(none)),
                    }
                }
            };
            if let Ok(Ran::Done(done)) = &answer
                && let Err(error) = tell_keys(&workflows, &sender, &done.starts).await
            {
                answer = Err(plugin::Error::unknown(with_causes(&error)));
            }
            Event::Answered(no, answer)
        });
    }

    fn probe(&self, no: CallNo, function: &str, key: EffectKey) {
        let Some(probe) = self.workflows.probes.get(function).cloned() else {
            return;
        };
        let (workflows, sender) = (self.workflows.clone(), self.sender.clone());
        self.spawn(no, async move {
            let asked = async move { probe.probe(key).await };
            let until = workflows.runtime.now().mono + LOOK;
            let mut answer = match call_until(&workflows, until, asked).await {
                Ok(answer) => answer,
                Err(none) => Err(plugin::Error::transient(none)),
            };
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
    pub(super) fn spawn(&self, no: CallNo, made: impl Future<Output = Event> + Send + 'static) {
        let (made, handle) = abortable(made);
        lock(&self.in_flight).insert(no, handle);
        let (sender, in_flight) = (self.sender.clone(), self.in_flight.clone());
        self.workflows.runtime.spawn(Box::pin(async move {
            let ended = made.await;
            lock(&in_flight).remove(&no);
            if let Ok(event) = ended {
                // The ownership may have ended meanwhile.
                let _ = sender.unbounded_send(Input::Answered(event));
            }
        }));
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

async fn call_until<R: Runtime, T: Send + 'static>(
    workflows: &Workflows<R>,
    until: plugin_sdk::Mono,
    made: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    call(&workflows.runtime, until, made)
        .await
        .map_err(|none| none.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R> Drop for Calls<R> {
    fn drop(&mut self) {
        for handle in lock(&self.in_flight).values() {
            handle.abort();
        }
    }
}
