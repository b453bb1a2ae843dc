//! The capacity rule: at every instant, demand in production <= capacity in production, for every edge.
//!
//! A provider shrinks only after its consumers have shrunk or left. A consumer grows, or starts to use a provider, only
//! after that provider has grown.

use std::collections::BTreeSet;

use plugin_sdk::{Shared, Transition, observe::Link};
use prodspec_model::{AssetId, addons::Need};
use serde_json::{Value, json};

use super::{
    Answered, OrderRule, Push, Question, Seen, Wait,
    way_out::{of_consumer, of_provider},
};

/// Ends a wait for capacity that no push at the present pins makes.
const NO_ROOM: &str = "at their present pins none of them makes room: edit one of them, or roll it out to an \
     incarnation that does";

/// Orders changes of serving capacity along `Need::Capacity` edges.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capacity;

impl OrderRule for Capacity {
    fn questions(&self, push: &Push<'_>) -> Vec<Question> {
        let mut questions = Vec::new();
        for (unit, Transition { from, to }) in &push.effects().capacity {
            if to < from {
                questions.extend(shrink(push, unit, *to));
            } else if to > from {
                questions.extend(grow(push, unit, *to, push.providers()));
            }
        }
        questions.extend(come(push));
        questions
    }
}

/// Questions for a consumer whose push adds a provider: its whole use is new demand there, even if it does not grow.
fn come(push: &Push<'_>) -> Vec<Question> {
    let brought = push.brought();
    let unit = |link: &Link| match &link.need {
        Need::Capacity { unit } => Some(unit.clone()),
        _ => None,
    };
    let units: BTreeSet<String> = brought.iter().filter_map(unit).collect();
    let mut questions = Vec::new();
    for unit in units {
        let effect = push.effects().capacity.get(&unit).copied();
        let has = push.request().observed.capacity.get(&unit).copied();
        let has = has.unwrap_or_default();
        let Transition { from, to } = effect.unwrap_or(Transition { from: has, to: has });
        // A consumer that grows asks about all of its providers elsewhere.
        if to > 0 && to <= from {
            questions.extend(grow(push, &unit, to, &brought));
        }
    }
    questions
}

/// The question for a provider: the remaining capacity must cover the demand of its consumers.
fn shrink(push: &Push<'_>, unit: &str, left: u64) -> Option<Question> {
    let consumers = ends(push.consumers(), unit, push.asset());
    if consumers.is_empty() {
        return None;
    }
    let unit = unit.to_owned();
    Some(Question::new(consumers.clone(), move |seen: &Seen| {
        let demand = Demand::soon(seen, &consumers, &unit);
        if demand.total <= u128::from(left) {
            return Vec::new();
        }
        let total = demand.total;
        let reason = format!("must shrink first: {total} {unit} are used, {left} would be left");
        let first = demand.shrinking(seen);
        if first.is_empty() {
            let dead_end = |wait: Wait| {
                let way_out = of_consumer(seen, &wait.on).unwrap_or(NO_ROOM);
                wait.dead_end(way_out)
            };
            let waits = waits(demand.positive(), &reason, &demand, left);
            return waits.into_iter().map(dead_end).collect();
        }
        waits(first, &reason, &demand, left)
    }))
}

/// Questions for a consumer: each of `providers` must have the capacity for all its consumers, with this consumer at
/// its new value.
fn grow(push: &Push<'_>, unit: &str, to: u64, providers: &[Link]) -> Vec<Question> {
    let providers = ends(providers, unit, push.asset());
    let question = |provider: AssetId| {
        let unit = unit.to_owned();
        let shared = Shared { provider, unit };
        let asked = shared.clone();
        let about = [shared.provider.clone()];
        Question::new(about, move |seen| more(seen, &shared, to)).and_usage(asked)
    };
    providers.into_iter().map(question).collect()
}

/// Claims `to` units of a shared capacity if they fit beside the use of the other consumers. If not, names the assets
/// that have to be pushed first.
fn more(seen: &Seen, shared: &Shared, to: u64) -> Answered {
    let Shared { provider, unit } = shared;
    let Some(usage) = seen.usage(shared) else {
        return Answered::default();
    };
    let there = seen.capacity(provider, unit);
    let total = u128::from(usage.used) + u128::from(to);
    if total <= u128::from(there) {
        return shared.claim(to, there).into();
    }
    let evidence = |uses: Option<u64>| {
        let demand = u64::try_from(total).unwrap_or(u64::MAX);
        let mut evidence = json!({"unit": unit, "demand": demand, "capacity": there});
        if let Some(uses) = uses {
            evidence["uses"] = uses.into();
        }
        evidence
    };
    let short = format!("{total} {unit} of `{provider}` would be used, it has {there}");
    let reason = format!("must grow first: {short}");
    let waits_for_provider = || Wait::on(provider.clone(), reason).because(evidence(None));
    let way_out = of_provider(seen, provider);
    if let Some(way_out) = way_out.filter(|_| seen.is_gone(provider)) {
        return vec![waits_for_provider().dead_end(way_out)].into();
    }
    let grows = change(seen, provider, unit) > 0;
    let first = match &usage.shrinking[..] {
        [] if !grows => &usage.leaving[..],
        shrinking => shrinking,
    };
    let wait = |(consumer, uses): &(AssetId, u64)| {
        let reason = format!("must shrink first: {short}");
        Wait::on(consumer.clone(), reason).because(evidence(Some(*uses)))
    };
    let others = first.iter().filter(|(consumer, _)| consumer != provider);
    let mut found: Vec<_> = others.map(wait).collect();
    if grows {
        let wait = waits_for_provider();
        found.push(match way_out {
            Some(way_out) => wait.dead_end(way_out),
            None => wait,
        });
    } else if found.is_empty() {
        found = vec![waits_for_provider().dead_end(way_out.unwrap_or(NO_ROOM))];
        // R19: these consumers make room only if a rollout moves them too.
        let others = usage.using.iter();
        let others = others.filter(|(consumer, _)| consumer != provider);
        found.extend(others.map(|(consumer, uses)| {
            let reason = format!("makes room only after it is moved: {short}");
            Wait::on(consumer.clone(), reason).because(evidence(Some(*uses)))
        }));
    }
    found.into()
}

/// The use of one provider's capacity by its consumers.
struct Demand<'a> {
    unit: &'a str,
    each: Vec<(&'a AssetId, u64)>,
    total: u128,
}

impl<'a> Demand<'a> {
    /// The greater of each consumer's use now and its use at its own pin. A provider that shrinks leaves room for both,
    /// so that it does not lock out a consumer that drifted down or still has to grow.
    fn soon(seen: &Seen, consumers: &'a [AssetId], unit: &'a str) -> Self {
        let used = |consumer: &'a AssetId| match change(seen, consumer, unit) {
            1 => (consumer, seen.capacity_soon(consumer, unit)),
            _ => (consumer, seen.capacity(consumer, unit)),
        };
        let each: Vec<_> = consumers.iter().map(used).collect();
        let total = each.iter().map(|(_, used)| u128::from(*used)).sum();
        Self { unit, each, total }
    }

    /// The consumers that a push to come would let use less.
    fn shrinking(&self, seen: &Seen) -> Vec<AssetId> {
        let shrinks = |(consumer, _): &&(&AssetId, u64)| {
            seen.cause(consumer).is_some() && change(seen, consumer, self.unit) < 0
        };
        let shrinking = self.each.iter().filter(shrinks);
        shrinking.map(|(consumer, _)| (*consumer).clone()).collect()
    }

    /// The consumers with a use above 0.
    fn positive(&self) -> Vec<AssetId> {
        let positive = self.each.iter().filter(|(_, used)| *used > 0);
        positive.map(|(consumer, _)| (*consumer).clone()).collect()
    }

    /// The evidence of a wait for `asset`. It contains the use of this asset only, because a provider may wait for
    /// thousands of consumers.
    fn evidence(&self, asset: &AssetId, capacity: u64) -> Value {
        let mut evidence = json!({
            "unit": self.unit,
            "demand": u64::try_from(self.total).unwrap_or(u64::MAX),
            "capacity": capacity,
        });
        let used = self.each.binary_search_by(|(id, _)| (*id).cmp(asset));
        if let Ok(at) = used {
            evidence["uses"] = self.each[at].1.into();
        }
        evidence
    }
}

/// The direction in which a push of `asset` would change its capacity: -1, 0 or 1.
fn change(seen: &Seen, asset: &AssetId, unit: &str) -> i8 {
    let effects = seen.effects(asset);
    let change = effects.and_then(|effects| effects.capacity.get(unit));
    change.map_or(0, |it| it.to.cmp(&it.from) as i8)
}

/// The other ends of the capacity edges in `unit`, sorted and without duplicates.
fn ends(links: &[Link], unit: &str, but: &AssetId) -> Vec<AssetId> {
    let matters = |link: &&Link| {
        link.asset != *but
            && matches!(&link.need, Need::Capacity { unit: needed } if needed == unit)
    };
    let mut ends: Vec<_> = links
        .iter()
        .filter(matters)
        .map(|link| link.asset.clone())
        .collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

fn waits(on: Vec<AssetId>, reason: &str, demand: &Demand<'_>, capacity: u64) -> Vec<Wait> {
    let wait = |asset: AssetId| {
        let evidence = demand.evidence(&asset, capacity);
        Wait::on(asset, reason).because(evidence)
    };
    on.into_iter().map(wait).collect()
}
