//! Asks plugins and checks about pushes that would follow if pins moved, for the selections of rollouts.

use std::{collections::BTreeMap, sync::Arc};

use control_plane_runtime::{Runtime, timeout_at};
use futures::channel::oneshot;
use plugin_sdk::{Cause, Delay, Diff, DiffRequest, Now};
use prodspec_model::{AssetId, Incarnation};

use super::{
    calls::{Calls, diff},
    input::{Ahead, Differing, Foreseen, Input},
    rehearsal,
};
use crate::kernel::{Kernel, failed_check};

/// The open questions of one ownership about pushes that do not exist.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    /// The number of the last question.
    last: u64,
    open: BTreeMap<u64, Question>,
}

/// A question that plugins and checks have not answered for all its assets.
#[derive(Debug)]
struct Question {
    at: Incarnation,
    cause: Cause,
    /// Number of assets without an answer.
    left: usize,
    reply: oneshot::Sender<Vec<(AssetId, Vec<Delay>)>>,
}

impl Foresight {
    /// Begins to answer a question. One about assets that are known to wait is answered at once.
    pub(super) fn ask<R: Runtime>(
        &mut self,
        kernel: &mut Kernel,
        calls: &Calls<R>,
        question: Ahead,
    ) {
        let now = calls.runtime.now();
        self.last += 1;
        let (no, of) = (self.last, (&question.at, question.cause));
        let assets = kernel.ask_ahead(now.mono, of, question.assets);
        let looks = assets.iter().filter(|asset| {
            let part_of = (no, question.cause);
            look(kernel, calls, part_of, &question.at, asset)
        });
        let left = looks.count();
        let open = Question {
            at: question.at,
            cause: question.cause,
            left,
            reply: question.reply,
        };
        self.open.insert(no, open);
        self.answer(kernel, now, no);
    }

    /// Takes in the findings of the plugin and the checks about one asset.
    pub(super) fn found(&mut self, kernel: &mut Kernel, now: Now, found: Foreseen) {
        let Some(question) = self.open.get_mut(&found.question) else {
            return;
        };
        question.left -= 1;
        let asset = question.at.asset(&found.asset);
        if let Some((asset, checked)) = asset.zip(found.found) {
            kernel.checked_ahead(now, &asset, question.cause, checked, found.newest);
        }
        self.answer(kernel, now, found.question);
    }

    /// Answers a question whose assets all have an answer.
    fn answer(&mut self, kernel: &mut Kernel, now: Now, no: u64) {
        let is_done = |question: &Question| question.left == 0;
        if !self.open.get(&no).is_some_and(is_done) {
            return;
        }
        if let Some(question) = self.open.remove(&no) {
            let wait = kernel.would_wait(now, (&question.at, question.cause));
            // The selection may have been given up.
            let _ = question.reply.send(wait);
        }
    }
}

/// Compares an asset with production at `at`, and asks the checks if it differs. The answer comes as an input. Returns
/// `false` if there is nothing to ask.
fn look<R: Runtime>(
    kernel: &Kernel,
    calls: &Calls<R>,
    (question, cause): (u64, Cause),
    at: &Incarnation,
    asset: &AssetId,
) -> bool {
    let Some(target) = kernel.target_ahead(at, asset) else {
        return false;
    };
    if calls.blocked.refuses(Some(target.plugin)).is_some() || calls.blocked.refuses(None).is_some()
    {
        return false;
    }
    let Some(registered) = calls.registry.at(target.plugin) else {
        return false;
    };
    let limit = registered.config.diff_deadline;
    let (plugin, stack) = (registered.plugin.clone(), calls.diffs.clone());
    let request = DiffRequest::new(
        calls.intent(target.incarnation.clone(), target.asset.clone()),
        rehearsal::TOKEN,
        target.run,
    );
    let (runtime, events, asset) = (calls.runtime.clone(), calls.events.clone(), asset.clone());
    let newest = at.no();
    calls.runtime.spawn_call(Box::pin(async move {
        let deadline = runtime.now().mono + limit;
        let answer = timeout_at(&runtime, deadline, diff(stack, plugin, request)).await;
        let input = match answer {
            Some(Ok(Diff::Differs { change, observed })) => {
                let change = Arc::from(change);
                Input::Differing(Box::new(Differing {
                    question,
                    cause,
                    target,
                    change,
                    observed,
                }))
            }
            // Once it is pinned there, enforcement shows why an asset cannot be compared.
            _ => Input::Foreseen(Box::new(Foreseen {
                question,
                asset,
                found: None,
                newest,
            })),
        };
        // Without a receiver the enforcer has stopped.
        let _ = events.send(input);
    }));
    true
}

/// Asks the checks about an asset that differs. The answer comes as an input.
pub(super) fn check<R: Runtime>(kernel: &Kernel, calls: &Calls<R>, found: Differing) {
    let Differing {
        question,
        cause,
        target,
        change,
        observed,
    } = found;
    let (runtime, events) = (calls.runtime.clone(), calls.events.clone());
    let (asset, changes) = (target.asset.id(), change.clone());
    let (now, limit) = (runtime.now(), kernel.check_deadline());
    let call = kernel.check_ahead(now, target, (change, cause), observed);
    let newest = call.latest.no();
    let checked = calls.checked(now, call);
    calls.runtime.spawn_call(Box::pin(async move {
        let answer = timeout_at(&runtime, now.mono + limit, checked).await;
        let answer = answer.unwrap_or_else(|| Err(format!("no answer within {limit:?}")));
        let verdict = answer.unwrap_or_else(|why| failed_check(now, why));
        // Without a receiver the enforcer has stopped.
        let _ = events.send(Input::Foreseen(Box::new(Foreseen {
            question,
            asset,
            found: Some((changes, verdict)),
            newest,
        })));
    }));
}
