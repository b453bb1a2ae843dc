//! R19: a selection is closed over edges whose both ends change capacity, or the dependency solver would wait for an asset
//! that is never selected. The same holds for a provider whose version or turn a selected consumer waits for.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{AssetTypes, Capacity, Target};
use prodspec_model::{
    Asset, AssetId, Incarnation,
    addons::{DependsOn, Edge, Need},
};

/// Whom each target takes with it, by place.
#[derive(Debug, Default)]
pub(super) struct Closure(BTreeMap<u32, BTreeSet<u32>>);

impl Closure {
    /// The closure of `targets`, which are sorted, between two incarnations.
    pub(super) fn of(
        targets: &[Target],
        from: Option<&Incarnation>,
        to: &Incarnation,
        types: &AssetTypes,
    ) -> Self {
        let mut takes = Self::default();
        let place = |id: &AssetId| {
            let found = targets.binary_search_by(|target| target.asset.cmp(id));
            found.ok().map(|at| at as u32)
        };
        let old = |id: &AssetId| from?.asset(id);
        for (consumer, target) in (0..).zip(targets) {
            let (before, after) = (old(&target.asset), to.asset(&target.asset));
            let mut edges = declared(before.as_ref());
            edges.extend(declared(after.as_ref()));
            edges.sort();
            edges.dedup();
            for edge in edges {
                let Some(provider) = place(&edge.provider.id) else {
                    continue;
                };
                let Need::Capacity { unit } = &edge.need else {
                    takes.add(consumer, provider);
                    continue;
                };
                let other = &edge.provider.id;
                let both = changes(before.as_ref(), after.as_ref(), unit, types)
                    && changes(old(other).as_ref(), to.asset(other).as_ref(), unit, types);
                if both {
                    takes.add(consumer, provider);
                    takes.add(provider, consumer);
                }
            }
        }
        takes
    }

    fn add(&mut self, who: u32, whom: u32) {
        self.0.entry(who).or_default().insert(whom);
    }

    /// `places` and all that they take with them, rising.
    pub(super) fn close(&self, places: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut found: BTreeSet<u32> = places.into_iter().collect();
        if self.0.is_empty() {
            return found.into_iter().collect();
        }
        let mut rest: Vec<u32> = found.iter().copied().collect();
        while let Some(place) = rest.pop() {
            for &whom in self.0.get(&place).into_iter().flatten() {
                if found.insert(whom) {
                    rest.push(whom);
                }
            }
        }
        found.into_iter().collect()
    }
}

fn declared(asset: Option<&Asset>) -> Vec<Edge> {
    let addon = asset.and_then(|asset| asset.addon::<DependsOn>().ok().flatten());
    addon.map(|addon| addon.edges).unwrap_or_default()
}

/// Whether the capacity of an asset in `unit` changes. Of a type that declares none nobody can say.
fn changes(before: Option<&Asset>, after: Option<&Asset>, unit: &str, types: &AssetTypes) -> bool {
    let capacity =
        |asset: Option<&Asset>| asset.map_or(Some(Capacity::new()), |a| types.capacity(a));
    match (capacity(before), capacity(after)) {
        (Some(before), Some(after)) => before.get(unit) != after.get(unit),
        _ => false,
    }
}
