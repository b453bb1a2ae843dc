//! Static order: a provider is in sync at its own pin before its consumer is pushed.

use plugin_sdk::{Cause, Diff, observe::Link};
use prodspec_model::{AssetId, addons::Need};

use super::{OrderRule, Push, Question, Seen, Wait};

/// Orders all pushes along `Need::Order` edges.
///
/// A change of intent waits until the provider is in sync at its own pin. A rollback or a drift repair waits for a
/// provider only while that provider is itself being rolled back or repaired. A pending edit of the provider never
/// delays a rollback or repair (R6, R16).
#[derive(Debug, Clone, Copy, Default)]
pub struct StaticOrder;

impl OrderRule for StaticOrder {
    fn questions(&self, push: &Push<'_>) -> Vec<Question> {
        let cures = cures(push.request().cause);
        let matters = |link: &&Link| link.need == Need::Order;
        let question = |link: &Link| {
            let provider = link.asset.clone();
            Question::new([provider.clone()], move |seen| {
                Vec::from_iter(wait(seen, provider, cures))
            })
        };
        push.providers()
            .iter()
            .filter(matters)
            .map(question)
            .collect()
    }
}

/// Whether a push with this cause restores earlier content or repairs drift.
fn cures(cause: Cause) -> bool {
    matches!(cause, Cause::Drift | Cause::Rollback)
}

fn wait(seen: &Seen, provider: AssetId, cures_asker: bool) -> Option<Wait> {
    if matches!(seen.diff(&provider), Some(Diff::InSync { .. })) {
        return None;
    }
    match seen.cause(&provider) {
        Some(cause) if cures_asker && !cures(cause) => None,
        Some(_) => Some(Wait::on(provider, "must be in sync first")),
        None if cures_asker => None,
        None => Some(
            Wait::on(
                provider,
                "must be in sync first, but has no intent, so it will not be pushed",
            )
            .dead_end(
                "put it into intent again, remove the edge, or repair it in production by hand",
            ),
        ),
    }
}
