//! Intent along capacity edges is consistent: what consumers are meant to need fits what their provider is meant to have.

use std::collections::BTreeMap;

use plugin_sdk::{AssetView, Problems, Validator};
use prodspec_model::addons::{DependsOn, Need};

/// For every provider and unit: the intended capacities of its consumers together fit its own. Providers and
/// consumers whose types declare no capacity are left out.
#[derive(Debug, Clone, Copy)]
pub struct CapacityFits;

impl Validator for CapacityFits {
    fn name(&self) -> &str {
        "capacity"
    }

    fn asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
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
                    "is meant to have {has} {unit}, its consumers need {needs} ({}); give it more or them less",
                    shown.join(", ")
                );
                problems.push(view.problem(message).field("payload"));
            }
        }
    }
}

/// Who needs how much of the asset, by unit.
fn demand(view: &AssetView<'_>) -> BTreeMap<String, Vec<(String, u64)>> {
    let mut demand: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    for consumer in view.referrers() {
        let Ok(Some(needs)) = consumer.addon::<DependsOn>() else {
            continue;
        };
        let Some(has) = view.capacity(&consumer) else {
            continue;
        };
        let units: std::collections::BTreeSet<String> = needs
            .edges
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
