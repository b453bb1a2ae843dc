//! Counted amounts: the share that each asset has of a capacity, and the amount that pushes under way may take of it
//! (R9, R16).
//!
//! An asset counts with its level, the amount that production was last seen to give it, or with the claim of its push,
//! whichever is larger. Sums and orders are kept up to date, so that no question and no admission visits the other
//! consumers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use plugin_sdk::{Key, Mono, Now, Shared};
use prodspec_model::AssetId;

use super::numbers::SlotNo;

/// The round of a capacity whose consumers were never looked up.
const NEVER: u64 = u64::MAX;

/// All counted amounts, by the key of their capacity.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Amounts {
    by_key: BTreeMap<Key, Amount>,
    /// The watched keys under which each asset is a consumer, by slot.
    of: BTreeMap<SlotNo, BTreeSet<Key>>,
    /// Rises when consumers may have changed in many places. Consumers looked up in an earlier round are looked up
    /// again when a check asks for them.
    round: u64,
    /// Number of watched keys.
    watched: usize,
    /// Time of the next search for keys that no check asks about any more.
    forget_at: Mono,
}

/// The amount counted under one key.
#[derive(Debug, Default)]
struct Amount {
    shares: BTreeMap<SlotNo, Share>,
    /// The sum of the counts of all shares.
    total: u128,
    by_age: BTreeSet<(Option<Mono>, SlotNo)>,
    shrinking: BTreeSet<SlotNo>,
    leaving: BTreeSet<SlotNo>,
    /// Consumers with a level above zero, ordered by level.
    using: BTreeSet<(u64, SlotNo)>,
    watched: Option<Watched>,
}

/// A capacity that checks asked about.
#[derive(Debug)]
struct Watched {
    shared: Shared,
    asked: Mono,
    /// The round in which its consumers were looked up.
    round: u64,
    /// Consumers that enforcement does not know.
    strangers: Vec<AssetId>,
}

/// The share of one asset.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Share {
    /// The amount that production was last seen to give the asset, plus what a push under way or ended since may have
    /// added.
    level: u64,
    /// The amount that the next push would leave the asset. `None`: not known.
    soon: Option<u64>,
    /// `true`: the content of the next push no longer consumes the shared capacity.
    leaves: bool,
    /// The amount that the push under way claims.
    claim: u64,
    /// Time of the diff that found the level. `None`: no diff yet.
    seen: Option<Now>,
    /// `true`: the asset is a consumer, with or without a claim.
    consumes: bool,
}

impl Share {
    fn counts(&self) -> u128 {
        self.level.max(self.claim).into()
    }
}

impl Amount {
    /// Replaces the share of `slot` and updates the sums and orders.
    fn put(&mut self, slot: SlotNo, share: Share) {
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

    fn share(&self, slot: SlotNo) -> Share {
        self.shares.get(&slot).copied().unwrap_or_default()
    }

    /// Returns the sum of the counts of all assets except `slot`.
    fn others(&self, slot: SlotNo) -> u128 {
        self.total - self.share(slot).counts()
    }

    /// Returns the consumers other than `slot` whose levels count as unknown; see [`Amounts::sum`].
    fn unknown(
        &self,
        slot: SlotNo,
        not_before: Mono,
        in_flight: impl Fn(SlotNo) -> bool,
    ) -> impl Iterator<Item = SlotNo> {
        let old = self.by_age.range(..(Some(not_before), SlotNo::FIRST));
        let others = old.filter(move |entry| entry.1 != slot);
        let unknown = others.filter(move |entry| entry.0.is_none() || !in_flight(entry.1));
        unknown.map(|entry| entry.1)
    }

    /// Returns the time of the oldest diff that a sum without `slot` rests on.
    fn oldest(
        &self,
        slot: SlotNo,
        not_before: Mono,
        in_flight: impl Fn(SlotNo) -> bool,
    ) -> Option<Now> {
        let mut young = self.by_age.range((Some(not_before), SlotNo::FIRST)..);
        let counts = |entry: &&(Option<Mono>, SlotNo)| entry.1 != slot && !in_flight(entry.1);
        let (_, oldest) = young.find(counts)?;
        self.share(*oldest).seen
    }

    /// Makes `slot` a consumer, or ends that. Nothing is known yet of a new consumer.
    fn consumes(&mut self, slot: SlotNo, consumes: bool) {
        let share = self.share(slot);
        let share = match consumes {
            true => Share { consumes, ..share },
            // The claim still counts. The level is of no use any more.
            false => Share {
                claim: share.claim,
                ..Share::default()
            },
        };
        self.put(slot, share);
    }
}

/// The sum over all consumers of a capacity, as far as it is known.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Sum {
    pub(in crate::kernel) used: u128,
    /// Time of the oldest diff that the sum rests on.
    pub(in crate::kernel) oldest: Option<Now>,
    /// Consumers without a finding from `not_before` or later. Empty only if there is none.
    pub(in crate::kernel) unknown: Vec<SlotNo>,
    /// Consumers that enforcement does not know. Empty only if there is none.
    pub(in crate::kernel) strangers: Vec<AssetId>,
    /// Consumers whose next push lowers their level, each with its present level.
    pub(in crate::kernel) shrinking: Vec<(SlotNo, u64)>,
    /// Consumers that have a level and whose next push is known, each with its present level.
    pub(in crate::kernel) leaving: Vec<(SlotNo, u64)>,
    /// Consumers with a level above zero, the largest level first.
    pub(in crate::kernel) using: Vec<(SlotNo, u64)>,
}

impl Amounts {
    /// Recounts the sums. Returns the claims of pushes under way, by key and slot.
    #[cfg(test)]
    pub(in crate::kernel) fn recounted(&self) -> BTreeMap<Key, BTreeMap<SlotNo, u64>> {
        let mut claimed: BTreeMap<Key, BTreeMap<SlotNo, u64>> = BTreeMap::new();
        for (key, amount) in &self.by_key {
            let total: u128 = amount.shares.values().map(|share| share.counts()).sum();
            assert_eq!(amount.total, total, "the sum of {}", key.0);
            for (slot, share) in amount.shares.iter().filter(|(_, share)| share.claim > 0) {
                let of = claimed.entry(key.clone()).or_default();
                of.insert(*slot, share.claim);
            }
        }
        claimed
    }

    /// Whether `units` for `slot` and the counts of all other assets together stay within `limit`.
    pub(in crate::kernel) fn fits(&self, slot: SlotNo, key: &Key, units: u64, limit: u64) -> bool {
        let others = self.by_key.get(key).map_or(0, |it| it.others(slot));
        others + u128::from(units) <= u128::from(limit)
    }

    /// Notes that a push of `slot` claims `units`.
    pub(in crate::kernel) fn claim(&mut self, slot: SlotNo, key: &Key, units: u64) {
        let amount = self.by_key.entry(key.clone()).or_default();
        let share = amount.share(slot);
        let claim = share.claim.max(units);
        amount.put(slot, Share { claim, ..share });
    }

    /// Ends the claim of a push of `slot` whose outcome is known. Until the next diff, the asset counts with all that
    /// was claimed.
    pub(in crate::kernel) fn release(&mut self, slot: SlotNo, key: &Key) {
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

    /// Takes in a diff of `slot` that started at `started`, with no push of it since. `capacity` returns, by unit, what
    /// production has and what the next push would leave. `of_intent`: the diff is of the asset's intent, so that its
    /// change is the next push. `keeps`: whether that content still consumes a shared capacity. Returns the keys under
    /// which the sum fell.
    pub(in crate::kernel) fn observed(
        &mut self,
        slot: SlotNo,
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

    /// Whether no key is watched, so that changed edges need not be reported.
    pub(in crate::kernel) fn watches_nothing(&self) -> bool {
        self.watched == 0
    }

    /// Notes that consumers may have changed in many places: they are looked up again.
    pub(in crate::kernel) fn next_round(&mut self) {
        self.round += 1;
    }

    /// Watches `shared` from now on. Returns whether the caller has to provide its consumers.
    pub(in crate::kernel) fn watch(&mut self, shared: &Shared, now: Mono) -> bool {
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

    /// Returns the slots that hold a claim under `key`.
    pub(in crate::kernel) fn holders(&self, key: &Key) -> impl Iterator<Item = SlotNo> {
        let shares = self.by_key.get(key).into_iter().flat_map(|it| &it.shares);
        shares
            .filter(|(_, share)| share.claim > 0)
            .map(|(slot, _)| *slot)
    }

    /// Returns the capacity watched under `key`, if the caller has to provide its consumers again.
    pub(in crate::kernel) fn outdated(&self, key: &Key) -> Option<Shared> {
        let watched = self.by_key.get(key)?.watched.as_ref()?;
        (watched.round != self.round).then(|| watched.shared.clone())
    }

    /// Sets all consumers of `shared`. Levels of assets that were consumers before are kept.
    pub(in crate::kernel) fn set_consumers(
        &mut self,
        shared: &Shared,
        consumers: BTreeSet<SlotNo>,
        strangers: Vec<AssetId>,
    ) {
        let key = Key::capacity(&shared.provider, &shared.unit);
        let Some(amount) = self.by_key.get_mut(&key) else {
            return;
        };
        if let Some(watched) = &mut amount.watched {
            (watched.round, watched.strangers) = (self.round, strangers);
        }
        let known: Vec<SlotNo> = amount.by_age.iter().map(|entry| entry.1).collect();
        for slot in known.into_iter().filter(|slot| !consumers.contains(slot)) {
            amount.consumes(slot, false);
            forget_key(&mut self.of, slot, &key);
        }
        for slot in consumers {
            amount.consumes(slot, true);
            self.of.entry(slot).or_default().insert(key.clone());
        }
    }

    /// Sets the watched capacities that `slot` consumes: exactly these.
    pub(in crate::kernel) fn set_consumed(
        &mut self,
        slot: SlotNo,
        shared: impl Iterator<Item = Shared>,
    ) {
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

    /// Returns the use of the capacity watched under `key` by all consumers except `slot`. Levels from before
    /// `not_before` count as unknown, except for assets with a push under way: they cannot be diffed, and count with
    /// their level and claim. Each list has at most `most` entries, but `unknown` and `strangers` are never cut to none.
    pub(in crate::kernel) fn sum(
        &self,
        key: &Key,
        slot: SlotNo,
        not_before: Mono,
        most: usize,
        in_flight: impl Fn(SlotNo) -> bool,
    ) -> Sum {
        let Some(amount) = self.by_key.get(key) else {
            return Sum::default();
        };
        let strangers = amount.watched.iter().flat_map(|it| &it.strangers);
        let unknown = amount.unknown(slot, not_before, &in_flight);
        // Name at least one unknown consumer: without any, callers take the sum for complete.
        let at_least = most.max(1);
        let mut sum = Sum {
            used: amount.others(slot),
            oldest: amount.oldest(slot, not_before, &in_flight),
            unknown: unknown.take(at_least).collect(),
            strangers: strangers.take(at_least).cloned().collect(),
            ..Sum::default()
        };
        let named = |set: &BTreeSet<SlotNo>| {
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

    /// Returns all consumers of the capacity watched under `key`, except `slot`, whose levels count as unknown; see
    /// [`Amounts::sum`].
    pub(in crate::kernel) fn unknown(
        &self,
        key: &Key,
        slot: SlotNo,
        not_before: Mono,
        in_flight: impl Fn(SlotNo) -> bool,
    ) -> Vec<SlotNo> {
        let amount = self.by_key.get(key);
        let unknown = amount.map(|it| it.unknown(slot, not_before, in_flight).collect());
        unknown.unwrap_or_default()
    }

    /// Ends the watch of keys that no check asked about for `age`.
    pub(in crate::kernel) fn forget(&mut self, now: Mono, age: Duration) {
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
    pub(in crate::kernel) fn len(&self) -> usize {
        self.by_key.len() + self.of.len()
    }
}

fn forget_key(of: &mut BTreeMap<SlotNo, BTreeSet<Key>>, slot: SlotNo, key: &Key) {
    if let Some(keys) = of.get_mut(&slot) {
        keys.remove(key);
        if keys.is_empty() {
            of.remove(&slot);
        }
    }
}
