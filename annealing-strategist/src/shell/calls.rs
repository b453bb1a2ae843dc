//! The calls of kernels: user code that selects targets and judges their health.

use std::sync::{Arc, LazyLock};

use control_plane_runtime::{Runtime, timeout_at};
use control_plane_store::Write;
use plugin_sdk::{Actuator, BoxError, Cause, ChecksAhead, Mono, with_causes};

use prodspec_model::Incarnation;

use super::Strategist;
use crate::kernel::{Call, Event};

/// The contents that targets would get, made when a policy first asks for them.
pub(super) type Foreseen = LazyLock<Incarnation, Box<dyn FnOnce() -> Incarnation + Send>>;

fn foreseen(to: Incarnation) -> Foreseen {
    LazyLock::new(Box::new(move || to))
}

/// Lets a selection ask the checks of `enforcement` about pushes of targets to their contents at `to`, for half of the time
/// that a selection has. From then on only targets that are known to wait are delayed: one slow plugin or check stops no
/// others.
pub(super) fn asks_checks<R: Runtime>(
    strategist: &Strategist<R>,
    call: &mut Call,
    enforcement: &Arc<dyn Actuator<Write = Write>>,
    of_change: Option<Arc<Foreseen>>,
) {
    let Call::Select(_, request) = call else {
        return;
    };
    let bound = || request.reader.bound_to().cloned();
    let Some(to) = of_change.or_else(|| Some(Arc::new(foreseen(bound()?)))) else {
        return;
    };
    let (enforcement, runtime) = (enforcement.clone(), strategist.runtime.clone());
    let deadline = runtime.now().mono + strategist.config.select_deadline / 2;
    request.checks = ChecksAhead::new(move |assets| {
        let (enforcement, runtime, to) = (enforcement.clone(), runtime.clone(), to.clone());
        Box::pin(async move {
            let answer = enforcement.would_wait(&to, assets, Cause::Intent);
            match timeout_at(&runtime, deadline, answer).await {
                Some(waiting) => waiting,
                None => enforcement.would_wait(&to, Vec::new(), Cause::Intent).await,
            }
        })
    });
}

/// Makes a call. A panic and a missed deadline are answers, too.
pub(super) async fn answer<R: Runtime>(strategist: &Arc<Strategist<R>>, call: Call) -> Event {
    let (asked, config) = (strategist.clone(), &strategist.config);
    let runtime = &strategist.runtime;
    let now = runtime.now().mono;
    match call {
        Call::Select(call, request) => {
            let asked = async move { asked.select.call(*request).await };
            let answer = ask(runtime, now + config.select_deadline, asked).await;
            Event::Selected { call, answer }
        }
        Call::Judge(call, request) => {
            let asked = async move { asked.health.call(*request).await };
            let answer = ask(runtime, now + config.validate_deadline, asked).await;
            Event::Judged { call, answer }
        }
    }
}

/// Asks a stack. An error, a panic and a missed deadline are answers, too.
async fn ask<T: Send + 'static>(
    runtime: &impl Runtime,
    deadline: Mono,
    asked: impl Future<Output = Result<T, BoxError>> + Send + 'static,
) -> Result<T, String> {
    match control_plane_runtime::call(runtime, deadline, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(with_causes(&*error)),
        Err(none) => Err(none.to_string()),
    }
}
