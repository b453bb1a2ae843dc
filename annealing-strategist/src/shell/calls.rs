//! The calls of kernels: user code that selects targets and judges their health.

use std::sync::{Arc, LazyLock};

use control_plane_runtime::{Runtime, timeout_at};
use control_plane_store::Write;
use futures::{FutureExt, future::join_all};
use plugin_sdk::{Actuator, BoxError, Cause, ChecksAhead, Mono, with_causes};

use prodspec_model::{AssetId, Incarnation};

use super::Strategist;
use crate::kernel::{Call, Event};

/// The newest incarnation with the fields of a change set, made when a policy first asks for it.
pub(super) type Foreseen = LazyLock<Incarnation, Box<dyn FnOnce() -> Incarnation + Send>>;

/// The incarnations at which the targets of a rollout get their contents.
pub(super) enum Goals {
    Change(Arc<Foreseen>),
    Group {
        to: Incarnation,
        /// Where targets go that came later.
        latest: Incarnation,
    },
}

impl Goals {
    /// Sorts assets by the incarnations at which they get these `contents`.
    fn sort(
        &self,
        contents: &Incarnation,
        assets: Vec<AssetId>,
    ) -> Vec<(Incarnation, Vec<AssetId>)> {
        let (to, latest) = match self {
            Self::Change(foreseen) => return vec![(Incarnation::clone(foreseen), assets)],
            Self::Group { to, latest } => (to, latest),
        };
        let content = |of: &Incarnation, id: &AssetId| of.asset(id).map(|asset| asset.digest());
        let (own, newer): (Vec<_>, Vec<_>) = assets
            .into_iter()
            .partition(|id| content(contents, id) == content(to, id));
        let mut sorted = vec![(to.clone(), own)];
        if latest.no() > to.no() {
            sorted.push((latest.clone(), newer));
        }
        sorted
    }
}

/// Lets a selection ask the checks of `enforcement` about pushes of targets to their contents, for half of the time that a
/// selection has. From then on only targets that are known to wait are delayed: one slow plugin or check stops no others.
pub(super) fn asks_checks<R: Runtime>(
    strategist: &Strategist<R>,
    call: &mut Call,
    enforcement: &Arc<dyn Actuator<Write = Write>>,
    goals: Option<Goals>,
) {
    let Call::Select(_, request) = call else {
        return;
    };
    let Some((goals, contents)) = goals.zip(request.reader.bound_to().cloned()) else {
        return;
    };
    let (enforcement, runtime) = (enforcement.clone(), strategist.runtime.clone());
    let deadline = runtime.now().mono + strategist.config.select_deadline / 2;
    request.checks = ChecksAhead::new(move |assets| {
        let questions = goals.sort(&contents, assets).into_iter();
        let answers = questions.map(|(to, assets)| {
            let (enforcement, runtime) = (enforcement.clone(), runtime.clone());
            async move {
                let answer = enforcement.would_wait(&to, assets, Cause::Intent);
                match timeout_at(&runtime, deadline, answer).await {
                    Some(waiting) => waiting,
                    None => enforcement.would_wait(&to, Vec::new(), Cause::Intent).await,
                }
            }
        });
        join_all(answers).map(|all| all.concat()).boxed()
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
