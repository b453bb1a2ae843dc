//! R19: a selection is closed over edges whose both ends change capacity, or the dependency solver would wait for an asset
//! that is never selected. The same holds for a provider whose version or turn a selected consumer waits for, and for
//! consumers that make room for each other at a provider that stays as it is. What intent does not show, the checks find:
//! whom they say an asset under way waits for is added then.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{AssetTypes, Target};
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

    /// The provider stays as it is: who comes may need the place of who leaves.
    fn make_room(&mut self, uses: &Use) {
        for &consumer in &uses.rising {
            for &other in &uses.falling {
                self.add(consumer, other);
            }
        }
    }

    /// `who` takes `whom` along. Says whether that is new.
    pub(super) fn add(&mut self, who: u32, whom: u32) -> bool {
        self.taken_by.entry(whom).or_default().insert(who);
        self.takes.entry(who).or_default().insert(whom)
    }

    /// Of `drawn`, what each is taken by among `all`.
    pub(super) fn ties(&self, all: &[u32], drawn: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
        let by = |place: &u32| {
            let mut takers = self.taken_by.get(place).into_iter().flatten();
            takers
                .find(|taker| all.binary_search(taker).is_ok())
                .copied()
        };
        drawn
            .filter_map(|place| Some((by(&place)?, place)))
            .collect()
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

/// What targets use of one provider that stays as it is, in one unit.
#[derive(Default)]
struct Use {
    /// Whose use rises, or may.
    rising: BTreeSet<u32>,
    /// Whose use falls, or may.
    falling: BTreeSet<u32>,
    /// What all of them use once all that rise have risen, and nobody has fallen. `None`: nobody can say.
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

    /// Whether all find room in what is `there`, beside what `others` use.
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
        for &whom in edges.get(&place).into_iter().flatten() {
            if found.insert(whom) {
                rest.push(whom);
            }
        }
    }
    found.into_iter().collect()
}

/// The edges that an asset declares.
pub(super) fn declared(asset: Option<&Asset>) -> BTreeSet<Edge> {
    let addon = asset.and_then(|asset| asset.addon::<DependsOn>().ok().flatten());
    let edges = addon.map(|addon| addon.edges).unwrap_or_default();
    edges.into_iter().collect()
}

/// Whether the capacity of an asset in `unit` changes, or may. Of a type that declares none nobody can say.
fn changes(before: &Before, after: Option<&Asset>, unit: &str, types: &AssetTypes) -> bool {
    if let Before::Unknown = before {
        return true;
    }
    let after = intended(after, unit, types);
    matches!((capacity(before, unit, types), after), (Some(before), Some(after)) if before != after)
}

/// How the use of a provider changes, or may: from what, if that is known, to what. Of a type that declares no capacity
/// nobody can say.
fn moves(before: &Before, used: Option<u64>, after: u64) -> Option<(Option<u64>, u64)> {
    if let Before::Unknown = before {
        return Some((None, after));
    }
    let used = used?;
    (used != after).then_some((Some(used), after))
}

/// What an asset uses of a provider before it moves.
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

/// The capacity of an asset in `unit`: none of what is not there.
fn intended(asset: Option<&Asset>, unit: &str, types: &AssetTypes) -> Option<u64> {
    let Some(asset) = asset else { return Some(0) };
    let capacity = types.capacity(asset)?;
    Some(capacity.get(unit).copied().unwrap_or_default())
}
