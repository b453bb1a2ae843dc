//! Floors: the serving capacity of some assets, below which no push may take it (R109).
//!
//! An asset counts with its last observed capacity or, while a push of it is under way, with the smaller end of that. One that
//! was not observed yet counts with 0. So a sum is never above the capacity that production has.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use plugin_sdk::{Key, Mono, Serving};
use prodspec_model::AssetId;

/// All counted floors, by the keys of the claims on them.
///
/// ```
/// use control_plane_runtime::claims::Floors;
/// use plugin_sdk::{Key, Mono, Serving};
///
/// let (mut floors, eu) = (Floors::default(), Key::from("eu"));
/// let serving = Serving { key: eu.clone(), unit: "qps".into(), assets: Default::default() };
/// floors.watch(&eu, &serving, || ["hamlet", "lear"].into(), Mono(0));
/// for asset in ["hamlet", "lear"] {
///     floors.observed(&asset, |_| Some((100, None)), Mono(1));
/// }
/// assert!(floors.fits(&"lear", &eu, 20, 120, &[]));
/// assert!(!floors.fits(&"lear", &eu, 19, 120, &[]));
/// ```
#[derive(Debug)]
pub struct Floors<H> {
    by_key: BTreeMap<Key, Floor<H>>,
    /// The keys under which each holder is counted.
    of: BTreeMap<H, BTreeSet<Key>>,
    /// Time of the next search for keys that no check asks about any more.
    forget_at: Mono,
}

/// The capacity counted under one key.
#[derive(Debug)]
struct Floor<H> {
    unit: String,
    /// The assets of the last question.
    of: Arc<BTreeSet<AssetId>>,
    asked: Mono,
    members: BTreeMap<H, Member>,
    /// The sum of the counts of all members.
    total: u128,
}

/// The capacity of the members of a floor.
#[derive(Debug)]
pub struct Kept<H> {
    /// The sum of their capacities.
    pub units: u128,
    /// Members that were not observed yet.
    pub unknown: Vec<H>,
    /// Members whose next push would give them more.
    pub growing: Vec<H>,
}

impl<H> Default for Kept<H> {
    fn default() -> Self {
        Self {
            units: 0,
            unknown: Vec::new(),
            growing: Vec::new(),
        }
    }
}

/// One asset of a floor.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Member {
    /// The last observed capacity. `None`: not observed yet.
    level: Option<u64>,
    /// When the diff that found the level had started.
    seen: Option<Mono>,
    /// The capacity after the next push. `None`: no push is known to follow.
    soon: Option<u64>,
    /// The least capacity that a push under way may leave.
    to: Option<u64>,
}

impl Member {
    fn serves(&self) -> u64 {
        let level = self.level.unwrap_or_default();
        self.to.map_or(level, |to| to.min(level))
    }
}

impl<H> Default for Floors<H> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            of: BTreeMap::new(),
            forget_at: Mono(0),
        }
    }
}

impl<H> Default for Floor<H> {
    fn default() -> Self {
        Self {
            unit: String::new(),
            of: Arc::default(),
            asked: Mono(0),
            members: BTreeMap::new(),
            total: 0,
        }
    }
}

impl<H: Ord + Clone> Floor<H> {
    fn member(&self, holder: &H) -> Member {
        self.members.get(holder).copied().unwrap_or_default()
    }

    /// Replaces a member and updates the sum. Returns whether the sum rose.
    fn put(&mut self, holder: &H, member: impl Into<Option<Member>>) -> bool {
        let (before, member) = (self.total, member.into());
        let old = match member {
            Some(member) => self.members.insert(holder.clone(), member),
            None => self.members.remove(holder),
        };
        self.total -= u128::from(old.unwrap_or_default().serves());
        self.total += u128::from(member.unwrap_or_default().serves());
        self.total > before
    }

    /// The sum of all members except `holder`.
    fn others(&self, holder: &H) -> u128 {
        self.total - u128::from(self.member(holder).serves())
    }
}

impl<H: Ord + Clone> Floors<H> {
    /// Counts these assets under `key` from now on, and no others. Levels of those that were counted before are kept.
    /// `members` is called if they are not those of the question before.
    pub fn watch(
        &mut self,
        key: &Key,
        serving: &Serving,
        members: impl FnOnce() -> BTreeSet<H>,
        now: Mono,
    ) {
        let floor = self.by_key.entry(key.clone()).or_default();
        floor.asked = now;
        let is_other = floor.unit != serving.unit;
        if !is_other && Arc::ptr_eq(&floor.of, &serving.assets) {
            return;
        }
        let members = members();
        (floor.unit, floor.of) = (serving.unit.clone(), serving.assets.clone());
        let known: Vec<H> = floor.members.keys().cloned().collect();
        for holder in known.iter().filter(|it| is_other || !members.contains(*it)) {
            floor.put(holder, None);
            forget_key(&mut self.of, holder, key);
        }
        for holder in members {
            floor.members.entry(holder.clone()).or_default();
            self.of.entry(holder).or_default().insert(key.clone());
        }
    }

    /// Returns the capacity under `key` of all members except `holder`.
    pub fn served(&self, key: &Key, holder: &H) -> Kept<H> {
        let Some(floor) = self.by_key.get(key) else {
            return Kept::default();
        };
        let others = floor.members.iter().filter(|(it, _)| *it != holder);
        let unknown = others.clone().filter(|(_, it)| it.level.is_none());
        let growing = others.filter(|(_, it)| it.soon > it.level);
        Kept {
            units: floor.others(holder),
            unknown: unknown.map(|(it, _)| it.clone()).collect(),
            growing: growing.map(|(it, _)| it.clone()).collect(),
        }
    }

    /// Whether the members serve at least the floor with `holder` at `keeps`, if the `others` made their pushes before it; each
    /// of them with the capacity that it keeps.
    pub fn fits(
        &self,
        holder: &H,
        key: &Key,
        keeps: u64,
        at_least: u64,
        others: &[(&H, u64)],
    ) -> bool {
        let Some(floor) = self.by_key.get(key) else {
            return keeps >= at_least;
        };
        let gone = |(other, keeps): &(&H, u64)| {
            let serves = floor.member(other).serves();
            u128::from(serves.saturating_sub(*keeps))
        };
        let gone: u128 = others.iter().map(gone).sum();
        let left = floor.others(holder).saturating_sub(gone) + u128::from(keeps);
        left >= u128::from(at_least)
    }

    /// Notes that a push of `holder` begins, with a claim or without. `leaves` returns the capacity after it, by unit.
    pub fn pushing(&mut self, holder: &H, leaves: impl Fn(&str) -> Option<u64>) {
        for key in self.of.get(holder).into_iter().flatten() {
            let Some(floor) = self.by_key.get_mut(key) else {
                continue;
            };
            let member = floor.member(holder);
            let to = leaves(&floor.unit);
            floor.put(holder, Member { to, ..member });
        }
    }

    /// Notes that the outcome of a push of `holder` is known. Until the next diff it counts with the smaller end. Returns the keys
    /// under which the push took capacity away: others may have waited for it.
    pub fn ended(&mut self, holder: &H) -> Vec<Key> {
        let mut fell = Vec::new();
        for key in self.of.get(holder).into_iter().flatten() {
            let Some(floor) = self.by_key.get_mut(key) else {
                continue;
            };
            let member = floor.member(holder);
            let level = member.level.map(|_| member.serves());
            if level < member.level {
                fell.push(key.clone());
            }
            let to = None;
            floor.put(
                holder,
                Member {
                    level,
                    to,
                    ..member
                },
            );
        }
        fell
    }

    /// Takes in a diff of `holder` that had started at `started`, with no push under way since. `capacity` returns, by unit, the
    /// capacity in production, and the one after the next push. Returns the keys under which more is free now.
    pub fn observed(
        &mut self,
        holder: &H,
        capacity: impl Fn(&str) -> Option<(u64, Option<u64>)>,
        started: Mono,
    ) -> Vec<Key> {
        let mut rose = Vec::new();
        for key in self.of.get(holder).into_iter().flatten() {
            let Some(floor) = self.by_key.get_mut(key) else {
                continue;
            };
            let Some((level, soon)) = capacity(&floor.unit) else {
                continue;
            };
            let member = floor.member(holder);
            if member.seen > Some(started) {
                continue;
            }
            let seen = Member {
                level: Some(level),
                seen: Some(started),
                soon,
                ..member
            };
            if floor.put(holder, seen) {
                rose.push(key.clone());
            }
        }
        rose
    }

    /// Forgets a holder that is no asset any more.
    pub fn gone(&mut self, holder: &H) {
        for key in self.of.remove(holder).unwrap_or_default() {
            if let Some(floor) = self.by_key.get_mut(&key) {
                floor.put(holder, None);
                // Its id may come back.
                floor.of = Arc::default();
            }
        }
    }

    /// Ends the watch of keys without a question for `age`.
    pub fn forget(&mut self, now: Mono, age: Duration) {
        if now < self.forget_at {
            return;
        }
        self.forget_at = now + age;
        let not_before = now - age;
        let under_way = |floor: &Floor<H>| floor.members.values().any(|it| it.to.is_some());
        let old = |floor: &mut Floor<H>| floor.asked < not_before && !under_way(floor);
        for (key, floor) in self.by_key.extract_if(.., |_, floor| old(floor)) {
            for holder in floor.members.keys() {
                forget_key(&mut self.of, holder, &key);
            }
        }
    }

    /// Number of keys in use and of assets counted.
    pub fn size(&self) -> usize {
        self.by_key.len() + self.of.len()
    }

    /// Recounts all sums, for tests and audits.
    ///
    /// # Errors
    /// The key whose sum differs from the recount.
    pub fn recounted(&self) -> Result<(), Key> {
        let sum = |floor: &Floor<H>| {
            floor
                .members
                .values()
                .map(|it| u128::from(it.serves()))
                .sum()
        };
        let wrong = self
            .by_key
            .iter()
            .find(|(_, floor)| floor.total != sum(floor));
        wrong.map_or(Ok(()), |(key, _)| Err(key.clone()))
    }
}

fn forget_key<H: Ord>(of: &mut BTreeMap<H, BTreeSet<Key>>, holder: &H, key: &Key) {
    if let Some(keys) = of.get_mut(holder) {
        keys.remove(key);
        if keys.is_empty() {
            of.remove(holder);
        }
    }
}
