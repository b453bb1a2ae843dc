//! Performs the kernel's calls: each is polled once in place, so that in-memory plugins cost no task, and handed to a
//! task of its own if it is not done by then. Panics and dropped calls become failures.

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{
    FutureExt,
    future::{AbortHandle, Abortable, BoxFuture},
};
use plane_runtime::Runtime;
use plugin_sdk::{
    CheckRequest, Diff, DiffRequest, FencingToken, IncarnationReader, Now, PushRequest, Pushed,
    Run, plugin,
    service::{Checks, Stack},
};

use super::{
    Input,
    inside::Inside,
    view::{Eyes, View},
};
use crate::{
    kernel::{Call, CheckCall, Event, PushCall, Target},
    registry::Registry,
};

/// What the kernel's calls are made of.
pub(crate) struct Calls<R> {
    pub(crate) runtime: R,
    pub(crate) registry: Registry,
    pub(crate) diffs: Option<Stack<DiffRequest, Diff>>,
    pub(crate) pushes: Option<Stack<PushRequest, Pushed>>,
    pub(crate) checks: Checks,
    pub(crate) token: FencingToken,
    pub(crate) events: Inside,
    /// Calls that became tasks, by slot and number.
    pub(crate) running: BTreeMap<(u32, u32), AbortHandle>,
}

impl<R: Runtime> Calls<R> {
    /// Starts a call. An answer that is there at once is returned, others come in later.
    pub(crate) fn perform(&mut self, now: Now, call: Call) -> Option<Event> {
        match call {
            Call::Diff(target) => self.diff(target),
            Call::Push(push) => self.push(push),
            Call::Check(check) => self.check(now, check),
            Call::Abandon(run) => {
                if let Some(task) = self.running.remove(&(run.slot, run.n)) {
                    task.abort();
                }
                None
            }
        }
    }

    /// The task of a call has ended.
    pub(crate) fn ended(&mut self, event: &Event) {
        if let Event::DiffDone { run, .. }
        | Event::CheckDone { run, .. }
        | Event::PushDone { run, .. } = event
            && !self.running.is_empty()
        {
            self.running.remove(&(run.slot, run.n));
        }
    }

    fn diff(&mut self, target: Target) -> Option<Event> {
        let Target {
            run,
            plugin,
            asset,
            incarnation,
        } = target;
        let request = DiffRequest {
            asset: asset.id(),
            incarnation: incarnation.id().clone(),
            token: self.token,
            run,
            reader: IncarnationReader::at(incarnation, asset),
        };
        let stack = self.diffs.clone();
        let registered = self.registry.at(plugin)?.plugin.clone();
        let answer = async move {
            let call = async {
                match stack {
                    Some(stack) => stack
                        .call(request)
                        .await
                        .map_err(|error| class_of(error, plugin::Error::transient)),
                    None => registered.diff(request).await,
                }
            };
            let answer = AssertUnwindSafe(call).catch_unwind().await;
            let answer = answer
                .unwrap_or_else(|_| Err(plugin::Error::transient("the plugin panicked in diff")));
            Event::DiffDone { run, answer }
        };
        self.start(run, Box::pin(answer))
    }

    fn push(&mut self, push: PushCall) -> Option<Event> {
        let PushCall {
            target:
                Target {
                    run,
                    plugin,
                    asset,
                    incarnation,
                },
            cause,
            change,
            continuation,
            turndown,
        } = push;
        let request = PushRequest {
            asset: asset.id(),
            incarnation: incarnation.id().clone(),
            token: self.token,
            run,
            cause,
            change,
            continuation,
            reader: IncarnationReader::at(incarnation, asset),
        };
        tracing::info!(asset = %request.asset, incarnation = %request.incarnation, ?cause, turndown, "push");
        let stack = self.pushes.clone();
        let registered = self.registry.at(plugin)?.clone();
        let answer = async move {
            let call = async {
                match stack {
                    Some(stack) => stack
                        .call(request)
                        .await
                        .map_err(|error| class_of(error, plugin::Error::unknown)),
                    None => registered.change(request).await,
                }
            };
            let answer = AssertUnwindSafe(call).catch_unwind().await;
            let answer = answer
                .unwrap_or_else(|_| Err(plugin::Error::unknown("the plugin panicked in push")));
            Event::PushDone { run, answer }
        };
        self.start(run, Box::pin(answer))
    }

    fn check(&mut self, now: Now, check: CheckCall) -> Option<Event> {
        let CheckCall {
            target:
                Target {
                    run,
                    asset,
                    incarnation,
                    ..
                },
            change,
            observed,
            cause,
            edges,
            latest,
            brought,
        } = check;
        let eyes = Eyes::Kernel(self.events.clone());
        let view = View {
            eyes,
            at: incarnation.clone(),
            latest,
            edges,
            brought,
        };
        let request = CheckRequest {
            asset: asset.id(),
            incarnation: incarnation.id().clone(),
            change,
            observed,
            cause,
            now: now.wall,
            mono: now.mono,
            reader: IncarnationReader::at(incarnation, asset),
            view: Some(Arc::new(view)),
        };
        let checks = self.checks.clone();
        let answer = async move {
            let answer = AssertUnwindSafe(checks.call(request)).catch_unwind().await;
            let answer = answer.unwrap_or_else(|_| Err("a check panicked".into()));
            Event::CheckDone {
                run,
                answer: answer.map_err(|error| format!("the checks failed: {error}")),
            }
        };
        self.start(run, Box::pin(answer))
    }

    fn start(&mut self, run: Run, mut answer: BoxFuture<'static, Event>) -> Option<Event> {
        let mut nobody = Context::from_waker(std::task::Waker::noop());
        if let Poll::Ready(event) = answer.as_mut().poll(&mut nobody) {
            return Some(event);
        }
        let (task, registration) = AbortHandle::new_pair();
        self.running.insert((run.slot, run.n), task);
        let events = self.events.clone();
        self.runtime.spawn(Box::pin(async move {
            if let Ok(event) = Abortable::new(answer, registration).await {
                // Nobody to tell: the enforcer has stopped.
                let _ = events.send(Input::Kernel(event));
            }
        }));
        None
    }
}

impl<R> Drop for Calls<R> {
    /// An enforcer that stops drops its calls: the next owner treats their pushes as open.
    fn drop(&mut self) {
        for task in self.running.values() {
            task.abort();
        }
    }
}

/// A plugin's own error as it is; any other, such as a layer's, in the class given.
fn class_of(error: plugin_sdk::BoxError, otherwise: fn(String) -> plugin::Error) -> plugin::Error {
    match error.downcast::<plugin::Error>() {
        Ok(own) => *own,
        Err(other) => otherwise(other.to_string()),
    }
}
