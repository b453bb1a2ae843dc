//! Static order: a provider is in sync at its own pin before its consumer is pushed.

use plugin_sdk::{Diff, observe::Link};
use prodspec_model::{AssetId, addons::Need};

use super::{OrderRule, Push, Question, Seen, Wait, rule::cures, way_out::of_provider};

/// Orders all pushes along `Need::Order` edges.
///
/// A change of intent waits until the provider is in sync at its own pin. A rollback or a drift repair waits for a
/// provider only while that provider is itself being rolled back or repaired. A pending edit of the provider never
/// delays a rollback or repair, nor does a provider that left intent or is gone (R6, R16).
///
/// A modelled-only provider counts as in sync: it has nothing in production to wait for.
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
            .and_modelled_only()
        };
        push.providers()
            .iter()
            .filter(matters)
            .map(question)
            .collect()
    }
}

fn wait(seen: &Seen, provider: AssetId, cures_asker: bool) -> Option<Wait> {
    let in_sync = matches!(seen.diff(&provider), Some(Diff::InSync { .. }));
    if in_sync || seen.is_modelled_only(&provider) {
        return None;
    }
    let Some(way_out) = of_provider(seen, &provider) else {
        let ends = seen.cause(&provider).is_some_and(cures);
        let waits = ends || !cures_asker;
        return waits.then(|| Wait::on(provider, "must be in sync first"));
    };
    if cures_asker {
        return None;
    }
    let reason = match seen.is_gone(&provider) {
        true => "must be in sync first, but is gone",
        false => "must be in sync first, but has no intent, so it will not be pushed",
    };
    Some(Wait::on(provider, reason).dead_end(way_out))
}
