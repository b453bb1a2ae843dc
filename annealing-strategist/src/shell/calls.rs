//! The calls of kernels: user code that selects targets and judges their health.

use std::sync::Arc;

use control_plane_runtime::Runtime;
use control_plane_store::Write;
use plugin_sdk::{Actuator, BoxError, Cause, ChecksAhead, Mono, with_causes};

use super::Strategist;
use crate::kernel::{Call, Event};

/// Lets a selection ask the checks of `enforcement` about pushes to the rollout's incarnation.
pub(super) fn asks_checks(call: &mut Call, enforcement: &Arc<dyn Actuator<Write = Write>>) {
    let Call::Select(_, request) = call else {
        return;
    };
    let Some(to) = request.reader.bound_to().cloned() else {
        return;
    };
    let enforcement = enforcement.clone();
    request.checks =
        ChecksAhead::new(move |assets| enforcement.would_wait(&to, assets, Cause::Intent));
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
