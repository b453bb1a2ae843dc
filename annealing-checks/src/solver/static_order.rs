//! Static order: a provider is in sync before its consumer is pushed.

use plugin_sdk::{Diff, observe::Link};
use prodspec_model::addons::Need;

use super::{OrderRule, Push, Question, Wait};

/// Orders all pushes along `Need::Order` edges.
#[derive(Debug, Clone, Copy, Default)]
pub struct StaticOrder;

impl OrderRule for StaticOrder {
    fn questions(&self, push: &Push<'_>) -> Vec<Question> {
        let matters = |link: &&Link| link.need == Need::Order;
        let question = |link: &Link| {
            let provider = link.asset.clone();
            Question::new([provider.clone()], move |seen| match seen.diff(&provider) {
                Some(Diff::InSync { .. }) => Vec::new(),
                _ => vec![Wait::on(provider, "must be in sync first")],
            })
        };
        push.providers()
            .iter()
            .filter(matters)
            .map(question)
            .collect()
    }
}
