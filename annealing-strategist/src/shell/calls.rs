//! The calls of kernels: user code that selects targets and judges their health.

use std::{panic::AssertUnwindSafe, sync::Arc};

use control_plane_runtime::{Runtime, timeout_at};
use futures::{FutureExt, channel::oneshot, future::abortable};
use plugin_sdk::{BoxError, Mono, with_causes};

use super::Strategist;
use crate::kernel::{Call, Event};

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

/// Runs user code in a task of its own, because it may block its thread.
async fn ask<T: Send + 'static>(
    runtime: &impl Runtime,
    deadline: Mono,
    asked: impl Future<Output = Result<T, BoxError>> + Send + 'static,
) -> Result<T, String> {
    let (reply, answer) = oneshot::channel();
    let (asked, abort) = abortable(AssertUnwindSafe(asked).catch_unwind());
    runtime.spawn_call(Box::pin(async move {
        if let Ok(answer) = asked.await {
            // The answer may come too late.
            let _ = reply.send(answer);
        }
    }));
    let answer = timeout_at(runtime, deadline, answer).await;
    abort.abort();
    match answer {
        Some(Ok(Ok(Ok(answer)))) => Ok(answer),
        Some(Ok(Ok(Err(error)))) => Err(with_causes(&*error)),
        Some(_) => Err("it panicked".to_owned()),
        None => Err("no answer in time".to_owned()),
    }
}
