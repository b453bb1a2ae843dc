//! R19: extends a selection so that the dependency solver never waits for an asset that is not selected.
//!
//! A selection is closed over edges whose both ends change capacity. It also includes providers whose version or turn
//! a selected consumer waits for, and consumers that make room for each other at a provider that does not change.
//! Ties that intent does not show are reported by checks: if an asset under way waits for another one, that one is
//! added then.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{AssetTypes, Target};
use prodspec_model::{
    Asset, AssetId, Incarnation,
    addons::{DependsOn, Edge, Need},
};

/// The content that an asset is held to before it moves.
#[derive(Debug)]
pub(in crate::kernel) enum Before {
    /// The asset is held to this content.
    Asset(Asset),
    /// The asset is left alone.
    Nothing,
    /// The asset is pinned to an incarnation that is not loaded.
    Unknown,
}

/// The targets that each target takes along, by place, and the reverse.
#[derive(Debug, Clone, Default)]
pub(in crate::kernel) struct Closure {
    takes: BTreeMap<u32, BTreeSet<u32>>,
    taken_by: BTreeMap<u32, BTreeSet<u32>>,
}

impl Closure {
    /// Computes the closure of `targets`, which are sorted by id, between their contents `before` and at `to`.
    pub(in crate::kernel) fn of(
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
        let mut used_by: BTreeMap<(AssetId, String), Use> = BTreeMap::new();
        for (consumer, target) in (0..).zip(targets) {
            let (was, after) = (before(&target.asset), to.asset(&target.asset));
            let (had, has) = (declared(was.asset()), declared(after.as_ref()));
            for edge in had.union(&has) {
                let (other, id) = (place(&edge.provider.id), &edge.provider.id);
                let Need::Capacity { unit } = &edge.need else {
                    if let Some(other) = other {
                        closure.add(consumer, other);
                    }
                    continue;
                };
                let uses = |declared: &BTreeSet<Edge>, asset| match declared.contains(edge) {
                    true => intended(asset, unit, types),
                    false => Some(0),
                };
                let Some(after) = uses(&has, after.as_ref()) else {
                    continue;
                };
                let Some(moves) = moves(&was, uses(&had, was.asset()), after) else {
                    continue;
                };
                let there = to.asset(id);
                match other.filter(|_| changes(&before(id), there.as_ref(), unit, types)) {
                    Some(other) => {
                        closure.add(consumer, other);
                        closure.add(other, consumer);
                    }
                    None => used_by
                        .entry((id.clone(), unit.clone()))
                        .or_default()
                        .note(consumer, moves),
                }
            }
        }
        for ((provider, unit), uses) in used_by {
            let used = |id: &AssetId| used(&before(id), &provider, &unit, types);
            let others = to.snapshot().referrers(provider.as_str()).into_iter();
            let others = others.filter(|id| place(id).is_none_or(|at| !uses.notes(at)));
            let there = capacity(&before(&provider), &unit, types);
            if !uses.falling.is_empty() && !uses.fits(others.map(|id| used(&id)), there) {
                closure.make_room(&uses);
            }
        }
        closure
    }

    /// The provider does not change: a consumer whose use rises may need the room of one whose use falls.
    fn make_room(&mut self, uses: &Use) {
        for &consumer in &uses.rising {
            for &other in &uses.falling {
                self.add(consumer, other);
            }
        }
    }

    /// Makes `taker` take `taken` along. Returns whether that is new.
    pub(in crate::kernel) fn add(&mut self, taker: u32, taken: u32) -> bool {
        self.taken_by.entry(taken).or_default().insert(taker);
        self.takes.entry(taker).or_default().insert(taken)
    }

    /// Makes all of `tied` that are among `targets`, which are sorted by id, move together.
    pub(in crate::kernel) fn tie(&mut self, targets: &[Target], tied: &[AssetId]) {
        let place = |id| targets.binary_search_by(|target| target.asset.cmp(id)).ok();
        let places: Vec<u32> = tied.iter().filter_map(place).map(|at| at as u32).collect();
        for pair in places.windows(2) {
            self.add(pair[0], pair[1]);
            self.add(pair[1], pair[0]);
        }
    }

    /// For each place in `drawn`, returns the first target for which `takes` is true and that takes it along.
    pub(in crate::kernel) fn ties(
        &self,
        takes: impl Fn(u32) -> bool,
        drawn: impl Iterator<Item = u32>,
    ) -> Vec<(u32, u32)> {
        let by = |place: &u32| {
            let mut takers = self.taken_by.get(place).into_iter().flatten();
            takers.find(|taker| takes(**taker)).copied()
        };
        drawn
            .filter_map(|place| Some((by(&place)?, place)))
            .collect()
    }

    /// Returns `places` and all targets that they take along, in ascending order.
    pub(in crate::kernel) fn close(&self, places: impl IntoIterator<Item = u32>) -> Vec<u32> {
        follow(&self.takes, places)
    }

    /// Returns `places` and all targets that take them along, in ascending order. On the way back the former wait for
    /// the latter.
    pub(in crate::kernel) fn close_back(&self, places: impl IntoIterator<Item = u32>) -> Vec<u32> {
        follow(&self.taken_by, places)
    }
}

/// The use of one unchanged provider by targets, in one unit.
#[derive(Default)]
struct Use {
    /// Consumers whose use rises or may rise.
    rising: BTreeSet<u32>,
    /// Consumers whose use falls or may fall.
    falling: BTreeSet<u32>,
    /// The total use after all rises and before any fall. `None`: it is not known.
    most: Option<u128>,
}

impl Use {
    fn note(&mut self, consumer: u32, (before, after): (Option<u64>, u64)) {
        let first = self.rising.is_empty() && self.falling.is_empty();
        let so_far = if first { Some(0) } else { self.most };
        let own = before.map(|before| u128::from(before.max(after)));
        self.most = so_far.zip(own).map(|(so_far, own)| so_far + own);
        if before.is_none_or(|before| after > before) {
            self.rising.insert(consumer);
        }
        if before.is_none_or(|before| after < before) {
            self.falling.insert(consumer);
        }
    }

    fn notes(&self, consumer: u32) -> bool {
        self.rising.contains(&consumer) || self.falling.contains(&consumer)
    }

    /// Whether the capacity `there` has room for these consumers beside the use of `others`.
    fn fits(&self, others: impl Iterator<Item = Option<u64>>, there: Option<u64>) -> bool {
        let others: Option<u128> = others.map(|used| used.map(u128::from)).sum();
        let all = self.most.zip(others).map(|(most, others)| most + others);
        all.zip(there)
            .is_some_and(|(all, there)| all <= u128::from(there))
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
        for &next in edges.get(&place).into_iter().flatten() {
            if found.insert(next) {
                rest.push(next);
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the dependency edges that an asset declares.
pub(in crate::kernel) fn declared(asset: Option<&Asset>) -> BTreeSet<Edge> {
    let edges = asset.map_or_else(Vec::new, DependsOn::edges_of);
    edges.into_iter().collect()
}

/// Whether the capacity of an asset in `unit` changes or may change. Of a type that declares no capacity this is not
/// known, and counts as no change.
fn changes(before: &Before, after: Option<&Asset>, unit: &str, types: &AssetTypes) -> bool {
    if let Before::Unknown = before {
        return true;
    }
    let after = intended(after, unit, types);
    matches!((capacity(before, unit, types), after), (Some(before), Some(after)) if before != after)
}

/// Returns how the use of a provider changes or may change: the use before, if that is known, and after. `None`: it
/// does not change, or the type declares no capacity.
fn moves(before: &Before, used: Option<u64>, after: u64) -> Option<(Option<u64>, u64)> {
    if let Before::Unknown = before {
        return Some((None, after));
    }
    let used = used?;
    (used != after).then_some((Some(used), after))
}

/// Returns the use of a provider by an asset before it moves. `None`: it is not known.
fn used(before: &Before, provider: &AssetId, unit: &str, types: &AssetTypes) -> Option<u64> {
    match before {
        Before::Asset(asset) if !needs(Some(asset), provider, unit) => Some(0),
        before => capacity(before, unit, types),
    }
}

fn needs(asset: Option<&Asset>, provider: &AssetId, unit: &str) -> bool {
    declared(asset).iter().any(|edge| {
        edge.provider.id == *provider
            && matches!(&edge.need, Need::Capacity { unit: needed } if needed == unit)
    })
}

fn capacity(before: &Before, unit: &str, types: &AssetTypes) -> Option<u64> {
    match before {
        Before::Unknown => None,
        before => intended(before.asset(), unit, types),
    }
}

/// Returns the capacity of an asset in `unit`; zero if the asset does not exist. `None`: its type declares no
/// capacity.
fn intended(asset: Option<&Asset>, unit: &str, types: &AssetTypes) -> Option<u64> {
    let Some(asset) = asset else { return Some(0) };
    let capacity = types.capacity(asset)?;
    Some(capacity.get(unit).copied().unwrap_or_default())
}
