//! Checks capacity edges in intent: the capacity of a provider must cover the sum of the demand of its consumers.

use std::collections::BTreeMap;

use plugin_sdk::{AssetView, Problems, Validator};
use prodspec_model::addons::{DependsOn, Need};

/// Refuses a provider whose intended capacity, in any unit, is less than the sum of the intended capacities of its
/// consumers. Providers and consumers whose types declare no capacity are ignored. An asset under turndown has a
/// capacity of 0.
#[derive(Debug, Clone, Copy)]
pub struct CapacityFits;

impl Validator for CapacityFits {
    fn name(&self) -> &str {
        "capacity"
    }

    fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        let Some(capacity) = view.capacity(view.asset()) else {
            return;
        };
        for (unit, demand) in demand(view) {
            let has = capacity.get(&unit).copied().unwrap_or(0);
            let needs: u128 = demand.iter().map(|(_, need)| u128::from(*need)).sum();
            if needs > u128::from(has) {
                let shown: Vec<String> = demand
                    .iter()
                    .map(|(id, need)| format!("`{id}` {need}"))
                    .collect();
                let message = format!(
                    "is meant to have {has} {unit}, its consumers need {needs} ({}); raise its capacity or lower theirs",
                    shown.join(", ")
                );
                problems.push(view.problem(message).field("payload"));
            }
        }
    }
}

/// The consumers of the asset with the capacity that each needs, by unit.
fn demand(view: &AssetView<'_>) -> BTreeMap<String, Vec<(String, u64)>> {
    let mut demand: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for consumer in view.referrers() {
        let Some(has) = view.capacity(&consumer) else {
            continue;
        };
        let units: std::collections::BTreeSet<String> = DependsOn::edges_of(&consumer)
            .into_iter()
            .filter(|edge| edge.provider.id.as_str() == view.asset().id_str())
            .filter_map(|edge| match edge.need {
                Need::Capacity { unit } => Some(unit),
                _ => None,
            })
            .collect();
        for unit in units {
            let need = has.get(&unit).copied().unwrap_or(0);
            demand
                .entry(unit)
                .or_default()
                .push((consumer.id_str().to_owned(), need));
        }
    }
    demand
}
