//! Performs the kernel's calls. Diffs, checks and pushes are code of users: they run in tasks beside the loop, where a
//! call that blocks its thread does not block the loop. Only plugins that declare that they answer from memory are
//! called in place. A call that panics counts as failed.

use std::{
    collections::BTreeMap,
    sync::Arc,
    task::{Context, Poll},
};

use control_plane_runtime::{Runtime, catch_panic, catch_panic_in};
use control_plane_store::limit;
use futures::future::{AbortHandle, Abortable, BoxFuture};
use plugin_sdk::{
    AssetIntent, AssetPlugin, Blobs, CheckRequest, Diff, DiffRequest, FencingToken,
    IncarnationReader, Mono, Now, PushRequest, Pushed, Run, Verdict, plugin,
    service::{Checks, Stack},
};
use prodspec_model::{Asset, Incarnation, PartitionId};

use super::{
    blocked::{Blocked, Blocks, Named, Watched},
    input::Input,
    lease::LeaseEnd,
    owned_sender::OwnedSender,
    view::View,
};
use crate::{
    kernel::{Call, CheckCall, Event, PushCall, SlotNo, Target},
    registry::Registry,
};

/// The plugins, checks and layers of one ownership, and its calls under way.
pub(crate) struct Calls<R> {
    pub(crate) runtime: R,
    pub(crate) partition: PartitionId,
    /// The external contents that incarnations refer to.
    pub(crate) contents: Arc<dyn Blobs>,
    pub(crate) registry: Registry,
    pub(crate) diffs: Option<Stack<DiffRequest, Diff>>,
    pub(crate) pushes: Option<Stack<PushRequest, Pushed>>,
    pub(crate) checks: Checks,
    pub(crate) token: FencingToken,
    pub(crate) events: OwnedSender,
    /// The time until which a push may begin.
    pub(crate) lease: LeaseEnd,
    /// Calls that run as tasks, by slot and run number.
    pub(crate) running: BTreeMap<(SlotNo, u32), Task>,
    /// Counts the calls that block their threads after their deadline, by plugin.
    pub(crate) blocked: Blocked,
}

/// A call that runs as a task.
pub(crate) struct Task {
    abort: AbortHandle,
    blocks: Blocks,
}

impl<R: Runtime> Calls<R> {
    /// Starts a call. Returns its answer if it is there at once; otherwise the answer arrives as an input later.
    pub(crate) fn perform(&mut self, now: Now, call: Call) -> Option<Event> {
        match call {
            Call::Diff(target) => self.diff(target),
            Call::Push(push) => self.push(push),
            Call::Check(check) => self.check(now, check),
            Call::Abandon(run) => {
                if let Some(task) = self.running.remove(&(SlotNo::of_run(run), run.n)) {
                    task.abort.abort();
                    task.blocks.past_deadline();
                }
                None
            }
        }
    }

    /// Forgets the task of a call whose answer arrived.
    pub(crate) fn ended(&mut self, event: &Event) {
        if let Event::DiffDone { run, .. }
        | Event::CheckDone { run, .. }
        | Event::PushDone { run, .. }
        | Event::PushNotStarted { run, .. } = event
            && !self.running.is_empty()
        {
            self.running.remove(&(SlotNo::of_run(*run), run.n));
        }
    }

    fn diff(&mut self, target: Target) -> Option<Event> {
        let (run, kind) = (target.run, target.plugin);
        let registered = self.registry.at(kind)?;
        if let Some(why) = self.blocked.refuses(Some(kind)) {
            let answer = Err(plugin::Error::transient(why));
            return Some(Event::DiffDone { run, answer });
        }
        if registered.config.in_memory && self.diffs.is_none() {
            let request = self.diff_request(&target);
            if let Some(answer) = diff_in_place(&*registered.plugin, request) {
                fenced(&self.events, self.token, answer.as_ref().err());
                return Some(Event::DiffDone { run, answer });
            }
        }
        let (plugin, stack) = (registered.plugin.clone(), self.diffs.clone());
        let (events, token) = (self.events.clone(), self.token);
        let named = Named::of(Some(kind), "diff", &target.asset);
        let request = self.diff_request(&target);
        let answer = async move {
            let answer = diff(stack, plugin, request).await;
            fenced(&events, token, answer.as_ref().err());
            Event::DiffDone { run, answer }
        };
        self.start(run, Box::pin(answer), named, false)
    }

    fn push(&mut self, push: PushCall) -> Option<Event> {
        let PushCall {
            target:
                Target {
                    run,
                    plugin,
                    asset,
                    incarnation,
                    ..
                },
            cause,
            change,
            continuation,
            turndown,
            begin_by,
        } = push;
        let not_started = Event::PushNotStarted { run, continuation };
        let registered = self.registry.at(plugin)?.clone();
        if self.blocked.refuses(Some(plugin)).is_some() {
            return Some(not_started);
        }
        let named = Named::of(Some(plugin), "push", &asset);
        let (events, token) = (self.events.clone(), self.token);
        let intent = self.intent(incarnation, asset);
        let request = PushRequest::new(intent, token, run, change)
            .cause(cause)
            .continuation(continuation);
        let stack = self.pushes.clone();
        let in_place = registered.config.in_memory && stack.is_none();
        let may_begin = self.may_begin(begin_by);
        let answer = async move {
            // R10: lease and age are compared with a fresh clock at the moment when the push begins.
            if !may_begin() {
                let intent = &request.intent;
                tracing::info!(asset = %intent.id(), incarnation = %intent.incarnation(), "the push was not started: its evidence or the lease has expired; diffing again first");
                return not_started;
            }
            // A follow-up goes on with a push that has its line.
            if !continuation {
                tracing::info!(asset = %request.asset_id(), incarnation = %request.incarnation(), ?cause, turndown, "push");
            }
            let push = async |request| registered.change(request).await;
            let answer = call(stack, request, push, "push", plugin::Error::unknown).await;
            fenced(&events, token, answer.as_ref().err());
            Event::PushDone { run, answer }
        };
        self.start(run, Box::pin(answer), named, in_place)
    }

    fn diff_request(&self, target: &Target) -> DiffRequest {
        let intent = self.intent(target.incarnation.clone(), target.asset.clone());
        let run = Run {
            n: target.fence,
            ..target.run
        };
        DiffRequest::new(intent, self.token, run)
    }

    pub(super) fn intent(&self, incarnation: Incarnation, asset: Asset) -> AssetIntent {
        AssetIntent::new(incarnation, asset).with_blobs(self.contents.clone())
    }

    /// Returns a function that says whether a push may begin when it is called: before `begin_by` and before the end of
    /// the lease as it is then.
    fn may_begin(&self, begin_by: Mono) -> impl Fn() -> bool + Send + use<R> {
        let (runtime, lease) = (self.runtime.clone(), self.lease.clone());
        move || {
            let now = runtime.now().mono;
            now < begin_by && now < lease.get()
        }
    }

    fn check(&mut self, now: Now, check: CheckCall) -> Option<Event> {
        let run = check.target.run;
        if let Some(why) = self.blocked.refuses(None) {
            let answer = Err(why);
            return Some(Event::CheckDone { run, answer });
        }
        let named = Named::of(None, "check", &check.target.asset);
        let checked = self.checked(now, check);
        let answer = async move {
            let answer = checked.await;
            Event::CheckDone { run, answer }
        };
        self.start(run, Box::pin(answer), named, false)
    }

    /// Runs the checks. A panic of one is an error, too.
    pub(super) fn checked(
        &self,
        now: Now,
        check: CheckCall,
    ) -> impl Future<Output = Result<Verdict, String>> + Send + use<R> {
        let newest = IncarnationReader::new(check.latest.clone()).with_blobs(self.contents.clone());
        let view = View {
            kernel: self.events.clone(),
            at: check.target.incarnation.clone(),
            latest: check.latest,
            edges: check.edges,
            brought: check.brought,
            renamed: check.renamed,
        };
        let intent = self.intent(check.target.incarnation, check.target.asset);
        let request = CheckRequest::new(intent, check.change, check.observed, now)
            .cause(check.cause)
            .ahead(check.ahead)
            .approvals(check.approvals)
            .newest(newest)
            .view(Arc::new(view));
        let checks = self.checks.clone();
        async move {
            let answer = catch_panic_in(checks.call(request)).await;
            let answer = answer.unwrap_or_else(|_| Err("a check panicked".into()));
            answer.map_err(|error| format!("the checks failed: {error}"))
        }
    }

    /// Runs a call in a task beside the loop. If `in_place`, it is polled once here first, and its answer is returned
    /// if it is ready.
    fn start(
        &mut self,
        run: Run,
        mut answer: BoxFuture<'static, Event>,
        named: Named,
        in_place: bool,
    ) -> Option<Event> {
        let mut unheard = Context::from_waker(std::task::Waker::noop());
        if in_place && let Poll::Ready(event) = answer.as_mut().poll(&mut unheard) {
            return Some(event);
        }
        let (abort, registration) = AbortHandle::new_pair();
        let blocks = self.blocked.watch(named);
        let answer = Watched::new(answer, blocks.clone());
        self.running
            .insert((SlotNo::of_run(run), run.n), Task { abort, blocks });
        let events = self.events.clone();
        self.runtime.spawn_call(Box::pin(async move {
            if let Ok(event) = Abortable::new(answer, registration).await {
                // Without a receiver the enforcer has stopped.
                let _ = events.send(Input::Kernel(event));
            }
        }));
        None
    }
}

impl<R> Drop for Calls<R> {
    /// Aborts the calls under way when the ownership ends: the next owner treats their pushes as open. Calls that have
    /// not begun do not begin any more.
    fn drop(&mut self) {
        self.lease.set(Mono(0));
        for task in self.running.values() {
            task.abort.abort();
        }
    }
}

/// Calls a diff in place. `None`: the answer is not there at once, and this call is dropped.
fn diff_in_place(
    plugin: &dyn AssetPlugin,
    request: DiffRequest,
) -> Option<Result<Diff, plugin::Error>> {
    let mut unheard = Context::from_waker(std::task::Waker::noop());
    match catch_panic(|| plugin.diff(request).as_mut().poll(&mut unheard)) {
        Ok(Poll::Ready(answer)) => Some(answer),
        Ok(Poll::Pending) => None,
        Err(_) => Some(Err(panicked("diff", plugin::Error::transient))),
    }
}

/// The error, in the class `class`, for a call in which the plugin panicked.
fn panicked(call: &str, class: fn(String) -> plugin::Error) -> plugin::Error {
    class(format!("the plugin panicked in {call}"))
}

/// Calls the diff of a plugin through its layers, if there are any.
pub(super) async fn diff(
    stack: Option<Stack<DiffRequest, Diff>>,
    plugin: Arc<dyn AssetPlugin>,
    request: DiffRequest,
) -> Result<Diff, plugin::Error> {
    let diff = async |request| plugin.diff(request).await;
    call(stack, request, diff, "diff", plugin::Error::transient).await
}

/// Makes one call of a plugin, through its layers if there are any. A panic, and an error that is not the plugin's own,
/// such as a layer's, are returned in the class `otherwise`.
async fn call<Q, A>(
    stack: Option<Stack<Q, A>>,
    request: Q,
    plugin: impl AsyncFnOnce(Q) -> Result<A, plugin::Error>,
    name: &str,
    otherwise: fn(String) -> plugin::Error,
) -> Result<A, plugin::Error> {
    let call = async {
        match stack {
            Some(stack) => {
                let answer = stack.call(request).await;
                answer.map_err(|error| plugin::Error::of(error, otherwise))
            }
            None => plugin(request).await,
        }
    };
    let answer = catch_panic_in(call).await;
    answer.unwrap_or_else(|_| Err(panicked(name, otherwise)))
}

/// Ends the ownership if `error` says that production has seen a newer token.
fn fenced(events: &OwnedSender, token: FencingToken, error: Option<&plugin::Error>) {
    if let Some(plugin::Error::Fenced {
        seen: Some(seen), ..
    }) = error
        && *seen > token
        && seen.0 <= limit::VERSION
    {
        let _ = events.send(Input::Fenced(*seen));
    }
}
