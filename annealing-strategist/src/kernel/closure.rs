//! R19: a selection is closed over edges whose both ends change capacity, or the dependency solver would wait for an asset
//! that is never selected. The same holds for a provider whose version or turn a selected consumer waits for.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{AssetTypes, Capacity, Target};
use prodspec_model::{
    Asset, AssetId, Incarnation,
    addons::{DependsOn, Edge, Need},
};

/// What an asset is held to before it moves.
#[derive(Debug)]
pub(super) enum Before {
    /// This.
    Asset(Asset),
    /// It is left alone.
    Nothing,
    /// It is pinned to an incarnation that is not at hand.
    Unknown,
}

/// Whom each target takes with it, by place, and who takes it.
#[derive(Debug, Default)]
pub(super) struct Closure {
    takes: BTreeMap<u32, BTreeSet<u32>>,
    taken_by: BTreeMap<u32, BTreeSet<u32>>,
}

impl Closure {
    /// The closure of `targets`, which are sorted, between what is `before` and `to`.
    pub(super) fn of(
        targets: &[Target],
        before: impl Fn(&AssetId) -> Before,
        to: &Incarnation,
        types: &AssetTypes,
    ) -> Self {
        let mut closure = Self::default();
        let place = |id: &AssetId| {
            let found = targets.binary_search_by(|target| target.asset.cmp(id));
            found.ok().map(|at| at as u32)
        };
        for (consumer, target) in (0..).zip(targets) {
            let (was, after) = (before(&target.asset), to.asset(&target.asset));
            let mut edges = declared(was.asset());
            edges.extend(declared(after.as_ref()));
            edges.sort();
            edges.dedup();
            for edge in edges {
                let Some(provider) = place(&edge.provider.id) else {
                    continue;
                };
                let Need::Capacity { unit } = &edge.need else {
                    closure.add(consumer, provider);
                    continue;
                };
                let other = &edge.provider.id;
                let both = changes(&was, after.as_ref(), unit, types)
                    && changes(&before(other), to.asset(other).as_ref(), unit, types);
                if both {
                    closure.add(consumer, provider);
                    closure.add(provider, consumer);
                }
            }
        }
        closure
    }

    fn add(&mut self, who: u32, whom: u32) {
        self.takes.entry(who).or_default().insert(whom);
        self.taken_by.entry(whom).or_default().insert(who);
    }

    /// `places` and all that they take with them, rising.
    pub(super) fn close(&self, places: impl IntoIterator<Item = u32>) -> Vec<u32> {
        follow(&self.takes, places)
    }

    /// `places` and all that take them, rising: whoever goes back waits for those.
    pub(super) fn close_back(&self, places: impl IntoIterator<Item = u32>) -> Vec<u32> {
        follow(&self.taken_by, places)
    }
}

impl Before {
    fn asset(&self) -> Option<&Asset> {
        match self {
            Self::Asset(asset) => Some(asset),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

fn follow(edges: &BTreeMap<u32, BTreeSet<u32>>, places: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut found: BTreeSet<u32> = places.into_iter().collect();
    if edges.is_empty() {
        return found.into_iter().collect();
    }
    let mut rest: Vec<u32> = found.iter().copied().collect();
    while let Some(place) = rest.pop() {
        for &whom in edges.get(&place).into_iter().flatten() {
            if found.insert(whom) {
                rest.push(whom);
            }
        }
    }
    found.into_iter().collect()
}

fn declared(asset: Option<&Asset>) -> Vec<Edge> {
    let addon = asset.and_then(|asset| asset.addon::<DependsOn>().ok().flatten());
    addon.map(|addon| addon.edges).unwrap_or_default()
}

/// Whether the capacity of an asset in `unit` changes, or may. Of a type that declares none nobody can say.
fn changes(before: &Before, after: Option<&Asset>, unit: &str, types: &AssetTypes) -> bool {
    if let Before::Unknown = before {
        return true;
    }
    let before = before.asset();
    let capacity =
        |asset: Option<&Asset>| asset.map_or(Some(Capacity::new()), |a| types.capacity(a));
    match (capacity(before), capacity(after)) {
        (Some(before), Some(after)) => before.get(unit) != after.get(unit),
        _ => false,
    }
}
