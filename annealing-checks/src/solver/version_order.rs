//! Version order: a provider never runs an older version than its consumer, so that a schema fits what *runs*.

use plugin_sdk::observe::Link;
use prodspec_model::{AssetId, addons::Need};
use serde_json::json;

use super::{OrderRule, Push, Question, Wait};

/// Orders changes of version along `Need::Version` edges, by the versions that run.
#[derive(Debug, Clone, Copy, Default)]
pub struct VersionOrder;

impl OrderRule for VersionOrder {
    fn questions(&self, push: &Push<'_>) -> Vec<Question> {
        match push.effects().version {
            Some((from, to)) if to > from => {
                let providers = ends(push.providers());
                providers.map(|provider| rise(provider, to)).collect()
            }
            Some((from, to)) if to < from => {
                let consumers = ends(push.consumers());
                consumers.map(|consumer| fall(consumer, to)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// As a consumer: not above what the provider runs.
fn rise(provider: AssetId, to: Option<u64>) -> Question {
    Question::new([provider.clone()], move |seen| {
        let runs = seen.version(&provider);
        if runs >= to {
            return Vec::new();
        }
        let reason = format!(
            "must rise first: it runs {}, {} is needed",
            show(runs),
            show(to)
        );
        vec![Wait::on(provider, reason).because(json!({"runs": runs, "needed": to}))]
    })
}

/// As a provider: not below what a consumer runs.
fn fall(consumer: AssetId, to: Option<u64>) -> Question {
    Question::new([consumer.clone()], move |seen| {
        let runs = seen.version(&consumer);
        if runs <= to {
            return Vec::new();
        }
        let reason = format!(
            "must fall first: it runs {}, {} would be left",
            show(runs),
            show(to)
        );
        vec![Wait::on(consumer, reason).because(json!({"runs": runs, "left": to}))]
    })
}

fn show(version: Option<u64>) -> String {
    version.map_or("nothing".into(), |version| format!("version {version}"))
}

fn ends(links: &[Link]) -> impl Iterator<Item = AssetId> {
    let matters = |link: &&Link| link.need == Need::Version;
    links.iter().filter(matters).map(|link| link.asset.clone())
}
