//! Version order: a provider never runs an older version than its consumer, such as a schema and the job that uses it.

use plugin_sdk::{Transition, observe::Link};
use prodspec_model::{AssetId, addons::Need};
use serde_json::json;

use super::{
    OrderRule, Push, Question, Seen, Wait,
    way_out::{of_consumer, of_provider},
};

/// Ends a wait for a version that an asset does not get to at its present pin.
const STAYS: &str = "at its present pin it does not get there: edit it, or roll it out to an incarnation in which \
     it does";

/// Orders changes of version along `Need::Version` edges, by the versions that run.
#[derive(Debug, Clone, Copy, Default)]
pub struct VersionOrder;

impl OrderRule for VersionOrder {
    fn questions(&self, push: &Push<'_>) -> Vec<Question> {
        let mut questions = come(push);
        match push.effects().version {
            Some(Transition { from, to }) if to > from => {
                let providers = ends(push.providers());
                questions.extend(providers.map(|provider| rise(provider, to)));
            }
            Some(Transition { from, to }) if to < from => {
                let consumers = ends(push.consumers());
                questions.extend(consumers.map(|consumer| fall(consumer, to)));
            }
            _ => {}
        }
        questions
    }
}

/// Questions for a consumer whose push adds a provider and does not raise its version: the provider has to run that
/// version too.
fn come(push: &Push<'_>) -> Vec<Question> {
    let runs = push.request().observed.version;
    let unchanged = Transition {
        from: runs,
        to: runs,
    };
    let Transition { from, to } = push.effects().version.unwrap_or(unchanged);
    if to.is_none() || to > from {
        return Vec::new();
    }
    let brought = push.brought();
    ends(&brought).map(|provider| rise(provider, to)).collect()
}

/// The question for a consumer: its version may not exceed the version that the provider runs.
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
        let wait = Wait::on(provider.clone(), reason).because(json!({"runs": runs, "needed": to}));
        if brings(seen, &provider).is_some_and(|brings| brings >= to) {
            return vec![wait];
        }
        vec![wait.dead_end(of_provider(seen, &provider).unwrap_or(STAYS))]
    })
}

/// The question for a provider: its version may not fall below the version that a consumer runs.
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
        let wait = Wait::on(consumer.clone(), reason).because(json!({"runs": runs, "left": to}));
        if brings(seen, &consumer).is_some_and(|brings| brings <= to) {
            return vec![wait];
        }
        vec![wait.dead_end(of_consumer(seen, &consumer).unwrap_or(STAYS))]
    })
}

/// The version that the next push of an asset brings. `None`: no push is to come that changes the version.
fn brings(seen: &Seen, asset: &AssetId) -> Option<Option<u64>> {
    seen.cause(asset)?;
    Some(seen.effects(asset)?.version?.to)
}

fn show(version: Option<u64>) -> String {
    version.map_or("nothing".into(), |version| format!("version {version}"))
}

fn ends(links: &[Link]) -> impl Iterator<Item = AssetId> {
    let matters = |link: &&Link| link.need == Need::Version;
    links.iter().filter(matters).map(|link| link.asset.clone())
}
