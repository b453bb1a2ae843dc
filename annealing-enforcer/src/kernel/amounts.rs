//! Counted amounts: what each asset has of a shared capacity, and what pushes under way may take of it (R9, R16).
//!
//! An asset counts with the larger of what production was last seen to give it and what its push claims. Sums and orders
//! are kept up to date, so that no question and no admission goes through the other consumers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use plugin_sdk::{Key, Mono, Now, Shared};
use prodspec_model::AssetId;

/// The round of what was never looked up.
const NEVER: u64 = u64::MAX;

/// All amounts, by what they are counted under.
#[derive(Debug, Default)]
pub(super) struct Amounts {
    by_key: BTreeMap<Key, Amount>,
    /// The keys that each asset is a consumer under, as far as they are watched.
    of: BTreeMap<u32, BTreeSet<Key>>,
    /// Who consumes what may have changed in many places: it is found again where it is asked for.
    round: u64,
    /// How many are watched.
    watched: usize,
    /// When it is worth while to look what is no longer asked about.
    forget_at: Mono,
}

/// One of them.
#[derive(Debug, Default)]
struct Amount {
    shares: BTreeMap<u32, Share>,
    /// The sum of what all shares count.
    total: u128,
    by_age: BTreeSet<(Option<Mono>, u32)>,
    shrinking: BTreeSet<u32>,
    leaving: BTreeSet<u32>,
    /// Consumers that use anything, by how much.
    using: BTreeSet<(u64, u32)>,
    watched: Option<Watched>,
}

/// What a check asked about.
#[derive(Debug)]
struct Watched {
    shared: Shared,
    asked: Mono,
    /// The round in which its consumers were looked up.
    round: u64,
    /// Consumers that enforcement does not know.
    strangers: Vec<AssetId>,
}

/// What one asset has.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Share {
    /// What production was last seen to give it, and what a push under way or ended since may have added.
    level: u64,
    /// What a push to come would leave it.
    soon: Option<u64>,
    /// That push is of content that consumes it no longer.
    leaves: bool,
    /// What its push under way takes.
    claim: u64,
    /// When the finding of the level was made.
    seen: Option<Now>,
    /// It is a consumer, claim or not.
    consumes: bool,
}

impl Share {
    fn counts(&self) -> u128 {
        self.level.max(self.claim).into()
    }
}

impl Amount {
    /// Changes the share of `slot`, and all that follows from it.
    fn put(&mut self, slot: u32, share: Share) {
        let old = match share == Share::default() {
            true => self.shares.remove(&slot),
            false => self.shares.insert(slot, share),
        };
        if let Some(old) = old {
            self.total -= old.counts();
            self.by_age.remove(&(old.seen.map(|seen| seen.mono), slot));
            self.using.remove(&(old.level, slot));
        }
        if share.consumes && share.level > 0 {
            self.using.insert((share.level, slot));
        }
        self.total += share.counts();
        if share.consumes {
            self.by_age.insert((share.seen.map(|seen| seen.mono), slot));
        }
        let shrinks = share.soon.is_some_and(|soon| soon < share.level);
        let leaves = share.leaves && share.level > 0;
        for (set, belongs) in [(&mut self.shrinking, shrinks), (&mut self.leaving, leaves)] {
            match belongs {
                true => set.insert(slot),
                false => set.remove(&slot),
            };
        }
    }

    fn share(&self, slot: u32) -> Share {
        self.shares.get(&slot).copied().unwrap_or_default()
    }

    /// What all but `slot` have.
    fn others(&self, slot: u32) -> u128 {
        self.total - self.share(slot).counts()
    }

    /// Consumers beside `slot` without a finding from `not_before` or later, see [`Amounts::sum`].
    fn unknown(
        &self,
        slot: u32,
        not_before: Mono,
        in_flight: impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = u32> {
        let old = self.by_age.range(..(Some(not_before), 0));
        let others = old.filter(move |entry| entry.1 != slot);
        let unknown = others.filter(move |entry| entry.0.is_none() || !in_flight(entry.1));
        unknown.map(|entry| entry.1)
    }

    /// When the oldest finding was made that counts in a sum without `slot`.
    fn oldest(&self, slot: u32, not_before: Mono, in_flight: impl Fn(u32) -> bool) -> Option<Now> {
        let mut young = self.by_age.range((Some(not_before), 0)..);
        let counts = |entry: &&(Option<Mono>, u32)| entry.1 != slot && !in_flight(entry.1);
        let (_, oldest) = young.find(counts)?;
        self.share(*oldest).seen
    }

    /// Makes `slot` a consumer, or ends that. Of a new one nothing is known.
    fn consumes(&mut self, slot: u32, consumes: bool) {
        let share = self.share(slot);
        let share = match consumes {
            true => Share { consumes, ..share },
            // What is claimed still counts; what was seen is of no use any more.
            false => Share {
                claim: share.claim,
                ..Share::default()
            },
        };
        self.put(slot, share);
    }
}

/// The consumers' sum, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) used: u128,
    /// When the oldest finding was made.
    pub(super) oldest: Option<Now>,
    /// Consumers without a finding from `not_before` or later: some of them, at least one if there is any.
    pub(super) unknown: Vec<u32>,
    /// Consumers that enforcement does not know: some of them, at least one if there is any.
    pub(super) strangers: Vec<AssetId>,
    /// With what they use now.
    pub(super) shrinking: Vec<(u32, u64)>,
    pub(super) leaving: Vec<(u32, u64)>,
    /// The largest first.
    pub(super) using: Vec<(u32, u64)>,
}

impl Amounts {
    /// Whether `slot` may have `units` of `limit` under `key`, with what all others have or may get.
    pub(super) fn fits(&self, slot: u32, key: &Key, units: u64, limit: u64) -> bool {
        let others = self.by_key.get(key).map_or(0, |it| it.others(slot));
        others + u128::from(units) <= u128::from(limit)
    }

    /// A push of `slot` takes `units`.
    pub(super) fn claim(&mut self, slot: u32, key: &Key, units: u64) {
        let amount = self.by_key.entry(key.clone()).or_default();
        let share = amount.share(slot);
        let claim = share.claim.max(units);
        amount.put(slot, Share { claim, ..share });
    }

    /// The outcome of a push of `slot` is known: it may have all that was claimed, until it is looked at.
    pub(super) fn release(&mut self, slot: u32, key: &Key) {
        let Some(amount) = self.by_key.get_mut(key) else {
            return;
        };
        let share = amount.share(slot);
        let released = match share.consumes {
            true => Share {
                level: share.level.max(share.claim),
                claim: 0,
                ..share
            },
            false => Share::default(),
        };
        amount.put(slot, released);
        if amount.watched.is_none() && amount.shares.is_empty() {
            self.by_key.remove(key);
        }
    }

    /// A diff of `slot` that started then, with no push of it since, found `capacity`: by unit, what production has and
    /// what a push to come would leave. Says under which keys the asset counts less than before. `of_intent`: the diff is
    /// of the asset's intent, so that its change is the push to come; `keeps`: whether that content still consumes something.
    pub(super) fn observed(
        &mut self,
        slot: u32,
        capacity: impl Fn(&str) -> Option<(u64, Option<u64>)>,
        started: Now,
        of_intent: bool,
        keeps: impl Fn(&Shared) -> bool,
    ) -> Vec<Key> {
        let mut fell = Vec::new();
        for key in self.of.get(&slot).into_iter().flatten() {
            let Some(amount) = self.by_key.get_mut(key) else {
                continue;
            };
            let Some(shared) = amount.watched.as_ref().map(|it| &it.shared) else {
                continue;
            };
            let Some((level, soon)) = capacity(&shared.unit) else {
                continue;
            };
            let left = of_intent && soon.is_some() && !keeps(shared);
            let share = amount.share(slot);
            if share.seen.is_some_and(|seen| seen.mono > started.mono) {
                continue;
            }
            let before = amount.total;
            let (soon, leaves) = match of_intent {
                true => (soon, left),
                false => (share.soon, share.leaves),
            };
            let seen = Some(started);
            amount.put(
                slot,
                Share {
                    level,
                    soon,
                    leaves,
                    seen,
                    ..share
                },
            );
            if amount.total < before {
                fell.push(key.clone());
            }
        }
        fell
    }

    /// Whether nothing is watched, so that changed edges need not be told.
    pub(super) fn watches_nothing(&self) -> bool {
        self.watched == 0
    }

    /// Who consumes what has changed in many places.
    pub(super) fn next_round(&mut self) {
        self.round += 1;
    }

    /// Watches `shared` from now on. Says whether its consumers have to be given.
    pub(super) fn watch(&mut self, shared: &Shared, now: Mono) -> bool {
        let key = Key::capacity(&shared.provider, &shared.unit);
        let amount = self.by_key.entry(key).or_default();
        self.watched += usize::from(amount.watched.is_none());
        let watched = amount.watched.get_or_insert_with(|| Watched {
            shared: shared.clone(),
            asked: now,
            round: NEVER,
            strangers: Vec::new(),
        });
        watched.asked = now;
        watched.round != self.round
    }

    /// Who has claimed anything under `key`.
    pub(super) fn holders(&self, key: &Key) -> impl Iterator<Item = u32> {
        let shares = self.by_key.get(key).into_iter().flat_map(|it| &it.shares);
        shares
            .filter(|(_, share)| share.claim > 0)
            .map(|(slot, _)| *slot)
    }

    /// What is watched under `key`, if its consumers have to be given again.
    pub(super) fn outdated(&self, key: &Key) -> Option<Shared> {
        let watched = self.by_key.get(key)?.watched.as_ref()?;
        (watched.round != self.round).then(|| watched.shared.clone())
    }

    /// All consumers of `shared`. What is known of those that were consumers before stays known.
    pub(super) fn set_consumers(
        &mut self,
        shared: &Shared,
        consumers: BTreeSet<u32>,
        strangers: Vec<AssetId>,
    ) {
        let key = Key::capacity(&shared.provider, &shared.unit);
        let Some(amount) = self.by_key.get_mut(&key) else {
            return;
        };
        if let Some(watched) = &mut amount.watched {
            (watched.round, watched.strangers) = (self.round, strangers);
        }
        let known: Vec<u32> = amount.by_age.iter().map(|entry| entry.1).collect();
        for slot in known.into_iter().filter(|slot| !consumers.contains(slot)) {
            amount.consumes(slot, false);
            forget_key(&mut self.of, slot, &key);
        }
        for slot in consumers {
            amount.consumes(slot, true);
            self.of.entry(slot).or_default().insert(key.clone());
        }
    }

    /// `slot` consumes exactly these, of all that is watched.
    pub(super) fn set_consumed(&mut self, slot: u32, shared: impl Iterator<Item = Shared>) {
        let keys = shared.map(|it| Key::capacity(&it.provider, &it.unit));
        let watched = |key: &Key| {
            let amount = self.by_key.get(key);
            amount.is_some_and(|amount| amount.watched.is_some())
        };
        let keys: BTreeSet<Key> = keys.filter(watched).collect();
        let before = self.of.remove(&slot).unwrap_or_default();
        for key in before.symmetric_difference(&keys) {
            if let Some(amount) = self.by_key.get_mut(key) {
                amount.consumes(slot, keys.contains(key));
            }
        }
        if !keys.is_empty() {
            self.of.insert(slot, keys);
        }
    }

    /// What all but `slot` use of what is watched under `key`. Findings from before `not_before` do not count, but for
    /// assets whose push is under way: they cannot be looked at, and count with what they have and may get.
    pub(super) fn sum(
        &self,
        key: &Key,
        slot: u32,
        not_before: Mono,
        most: usize,
        in_flight: impl Fn(u32) -> bool,
    ) -> Sum {
        let Some(amount) = self.by_key.get(key) else {
            return Sum::default();
        };
        let strangers = amount.watched.iter().flat_map(|it| &it.strangers);
        let unknown = amount.unknown(slot, not_before, &in_flight);
        // One at least, so that a sum which is not known is never taken for one that is.
        let at_least = most.max(1);
        let mut sum = Sum {
            used: amount.others(slot),
            oldest: amount.oldest(slot, not_before, &in_flight),
            unknown: unknown.take(at_least).collect(),
            strangers: strangers.take(at_least).cloned().collect(),
            ..Sum::default()
        };
        let named = |set: &BTreeSet<u32>| {
            let others = set.iter().filter(|&&consumer| consumer != slot);
            let with = others.map(|&consumer| (consumer, amount.share(consumer).level));
            with.take(most).collect()
        };
        sum.shrinking = named(&amount.shrinking);
        sum.leaving = named(&amount.leaving);
        let using = amount.using.iter().rev();
        let using = using.filter(|entry| entry.1 != slot).take(most);
        sum.using = using.map(|&(level, consumer)| (consumer, level)).collect();
        sum
    }

    /// All consumers of what is watched under `key`, `slot` left out, without a finding that counts: see [`Amounts::sum`].
    pub(super) fn unknown(
        &self,
        key: &Key,
        slot: u32,
        not_before: Mono,
        in_flight: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        let amount = self.by_key.get(key);
        let unknown = amount.map(|it| it.unknown(slot, not_before, in_flight).collect());
        unknown.unwrap_or_default()
    }

    /// Watches nothing any longer that was not asked about for so long.
    pub(super) fn forget(&mut self, now: Mono, age: Duration) {
        if now < self.forget_at {
            return;
        }
        self.forget_at = now + age;
        let not_before = now - age;
        let old = |amount: &Amount| {
            let watched = amount.watched.as_ref();
            watched.is_some_and(|watched| watched.asked < not_before)
        };
        for (key, amount) in self.by_key.iter_mut().filter(|(_, amount)| old(amount)) {
            amount.watched = None;
            self.watched -= 1;
            for slot in std::mem::take(&mut amount.by_age)
                .into_iter()
                .map(|it| it.1)
            {
                amount.consumes(slot, false);
                forget_key(&mut self.of, slot, key);
            }
        }
        let is_used = |amount: &Amount| amount.watched.is_some() || !amount.shares.is_empty();
        self.by_key.retain(|_, amount| is_used(amount));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len() + self.of.len()
    }
}

fn forget_key(of: &mut BTreeMap<u32, BTreeSet<Key>>, slot: u32, key: &Key) {
    if let Some(keys) = of.get_mut(&slot) {
        keys.remove(key);
        if keys.is_empty() {
            of.remove(&slot);
        }
    }
}
