//! Version order: a provider never runs an older version than its consumer, such as a schema and the job that uses it.

use plugin_sdk::{Transition, observe::Link};
use prodspec_model::{AssetId, addons::Need};
use serde_json::json;

use super::{
    OrderRule, Push, Question, Seen, Wait,
    rule::cures,
    way_out::{of_consumer, of_provider},
};

/// Ends a wait for a version that an asset does not get to at its present pin.
const STAYS: &str = "at its present pin it does not get there: edit it, or roll it out to an incarnation in which \
     it does";

/// Orders changes of version along `Need::Version` edges, by the versions that run.
///
/// A provider that falls also keeps the version that a push of its consumer is about to bring, so that it does not lock
/// out a consumer that drifted down. A rollback or repair of the provider keeps it for rollbacks and repairs only, so
/// that it does not wait for an edit (R16).
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
            Some(fall) if fall.to < fall.from => {
                let is_cure = cures(push.request().cause);
                let consumers = ends(push.consumers());
                questions.extend(consumers.map(|consumer| falls(consumer, fall, is_cure)));
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

/// The question for a provider: its version may not fall below the version that a consumer runs, or is about to run.
fn falls(consumer: AssetId, fall: Transition<Option<u64>>, is_cure: bool) -> Question {
    let Transition { from, to } = fall;
    Question::new([consumer.clone()], move |seen| {
        let runs = seen.version(&consumer);
        let soon = about_to_run(seen, &consumer, is_cure).filter(|soon| *soon <= from);
        if runs.max(soon.flatten()) <= to {
            return Vec::new();
        }
        let (left, now) = (show(to), show(runs));
        let reason = match runs > to {
            true => format!("must fall first: it runs {now}, {left} would be left"),
            false => {
                let soon = show(soon.flatten());
                format!("is to run {soon}, {left} would be left")
            }
        };
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

/// The version that a push of `consumer` is about to bring, if the provider has to keep it. `is_cure`: the provider is
/// itself rolled back or repaired.
fn about_to_run(seen: &Seen, consumer: &AssetId, is_cure: bool) -> Option<Option<u64>> {
    let counts = !is_cure || seen.cause(consumer).is_some_and(cures);
    brings(seen, consumer).filter(|_| counts)
}

fn show(version: Option<u64>) -> String {
    version.map_or("nothing".into(), |version| format!("version {version}"))
}

fn ends(links: &[Link]) -> impl Iterator<Item = AssetId> {
    let matters = |link: &&Link| link.need == Need::Version;
    links.iter().filter(matters).map(|link| link.asset.clone())
}
