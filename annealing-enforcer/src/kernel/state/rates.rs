//! Rates: how fast pushes under one key may start, and in which order.
//!
//! Each asset that finds a rate used up gets its own turn. So only as many assets wake at once as the rate lets
//! through.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use plugin_sdk::{Key, Mono, Quota};

use super::numbers::SlotNo;

/// Number of keys from which free keys are dropped now and then.
const MANY: usize = 64;

/// Time for which a turn is reserved after it has come, because its asset is diffed and checked first.
const GRACE: Duration = Duration::from_secs(10);

/// All rates in use, with the turns given out.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Rates {
    keys: BTreeMap<Key, Rate>,
    /// The turn of each asset that has one.
    turns: BTreeMap<SlotNo, (Key, Mono)>,
    /// Number of keys at which free keys are dropped next.
    many: usize,
}

/// The rate of one key, by the generic cell rate algorithm.
#[derive(Debug, Default)]
struct Rate {
    /// Theoretical arrival time of the next push under this key.
    arrival: Mono,
    /// How far ahead of that time a push may start.
    tolerance: Duration,
    /// Mean time between two pushes in the long run.
    every: Duration,
    /// The turns given out, each with its asset.
    turns: BTreeSet<(Mono, SlotNo)>,
}

impl Rates {
    /// Whether a push of `slot` may start now. It may not take the turn of another asset.
    pub(in crate::kernel) fn is_open(
        &self,
        slot: SlotNo,
        key: &Key,
        quota: &Quota,
        now: Mono,
    ) -> bool {
        let Some(rate) = self.keys.get(key) else {
            return true;
        };
        let opens = |arrival: Mono| arrival - tolerance(quota);
        let is_its_turn = self
            .turns
            .get(&slot)
            .is_some_and(|(of, at)| of == key && *at <= now);
        let next = rate.to_come(now).find(|(_, other)| *other != slot);
        let then = opens(rate.arrival.max(now) + quota.every);
        opens(rate.arrival) <= now && (is_its_turn || next.is_none_or(|(at, _)| then <= *at))
    }

    /// Notes that a push of `slot` starts.
    pub(in crate::kernel) fn take(&mut self, slot: SlotNo, key: &Key, quota: &Quota, now: Mono) {
        self.forget(slot);
        self.tidy(now);
        let rate = self.keys.entry(key.clone()).or_default();
        rate.heed(quota);
        rate.arrival = rate.arrival.max(now) + quota.every;
    }

    /// Returns the time at which `slot`, which found the rate used up, may try again: after all assets that found so
    /// before.
    pub(in crate::kernel) fn turn(
        &mut self,
        slot: SlotNo,
        key: &Key,
        quota: &Quota,
        now: Mono,
    ) -> Mono {
        let own = self.turns.get(&slot);
        if own.is_some_and(|(of, at)| of == key && *at > now)
            && let Some(turn) = self.moved_up(slot, now)
        {
            return turn;
        }
        self.forget(slot);
        let rate = self.keys.entry(key.clone()).or_default();
        rate.heed(quota);
        rate.turns = rate.turns.split_off(&(now - GRACE, SlotNo::FIRST));
        let behind = rate.turns.last().map(|(last, _)| *last + rate.every);
        let turn = behind.map_or(rate.opens(), |behind| behind.max(rate.opens()));
        rate.turns.insert((turn, slot));
        self.turns.insert(slot, (key.clone(), turn));
        turn
    }

    /// Returns the turn of `slot`, if it has one. It moves up if assets before it no longer wait.
    pub(in crate::kernel) fn moved_up(&mut self, slot: SlotNo, now: Mono) -> Option<Mono> {
        let (key, at) = self.turns.get_mut(&slot)?;
        let rate = self.keys.get_mut(key)?;
        let before = rate.to_come(now).take_while(|turn| **turn < (*at, slot));
        let before = before.count() as u32;
        let earliest = rate.opens() + rate.every.saturating_mul(before);
        if earliest < *at {
            rate.turns.remove(&(*at, slot));
            rate.turns.insert((earliest, slot));
            *at = earliest;
        }
        Some(*at)
    }

    /// Whether `slot` waits for a turn at any rate.
    pub(in crate::kernel) fn has_turn(&self, slot: SlotNo) -> bool {
        self.turns.contains_key(&slot)
    }

    /// Drops the turn of `slot`.
    pub(in crate::kernel) fn forget(&mut self, slot: SlotNo) {
        if let Some((key, at)) = self.turns.remove(&slot)
            && let Some(rate) = self.keys.get_mut(&key)
        {
            rate.turns.remove(&(at, slot));
        }
    }

    /// Drops keys that are free and for which no asset waits.
    fn tidy(&mut self, now: Mono) {
        if self.keys.len() < self.many.max(MANY) {
            return;
        }
        self.keys
            .retain(|_, rate| rate.arrival > now || !rate.turns.is_empty());
        self.many = self.keys.len() * 2;
    }

    #[cfg(test)]
    pub(in crate::kernel) fn len(&self) -> usize {
        self.keys.len() + self.turns.len()
    }
}

impl Rate {
    fn heed(&mut self, quota: &Quota) {
        (self.every, self.tolerance) = (quota.every, tolerance(quota));
    }

    /// Returns the turns to come, and those that came within [`GRACE`].
    fn to_come(&self, now: Mono) -> impl Iterator<Item = &(Mono, SlotNo)> {
        self.turns.range((now - GRACE, SlotNo::FIRST)..)
    }

    fn opens(&self) -> Mono {
        self.arrival - self.tolerance
    }
}

fn tolerance(quota: &Quota) -> Duration {
    quota.every.saturating_mul(quota.burst.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: usize) -> SlotNo {
        SlotNo::from_index(index)
    }

    fn at(seconds: u64) -> Mono {
        Mono(0) + Duration::from_secs(seconds)
    }

    fn quota(burst: u32) -> Quota {
        let every = Duration::from_secs(10);
        Quota::new(burst, every)
    }

    #[test]
    fn r9_rate_is_burst_then_steady() {
        let (mut rates, key) = (Rates::default(), "all".into());
        for taker in [1, 2].map(slot) {
            assert!(rates.is_open(slot(9), &key, &quota(2), at(0)));
            rates.take(taker, &key, &quota(2), at(0));
        }
        assert!(!rates.is_open(slot(9), &key, &quota(2), at(9)));
        assert!(rates.is_open(slot(9), &key, &quota(2), at(10)));
        rates.take(slot(3), &key, &quota(2), at(10));
        assert!(!rates.is_open(slot(9), &key, &quota(2), at(10)));
    }

    #[test]
    fn r9_each_asset_that_waits_for_a_rate_has_a_turn() {
        let (mut rates, key) = (Rates::default(), "all".into());
        let one = quota(1);
        rates.take(slot(0), &key, &one, at(0));
        let turns: Vec<_> = (1..5)
            .map(|n| rates.turn(slot(n), &key, &one, at(0)))
            .collect();
        assert_eq!(turns, [at(10), at(20), at(30), at(40)]);
        assert_eq!(
            rates.turn(slot(3), &key, &one, at(1)),
            at(30),
            "it keeps its turn"
        );
        rates.forget(slot(1));
        assert_eq!(rates.moved_up(slot(3), at(1)), Some(at(20)));
        rates.take(slot(2), &key, &one, at(12));
        assert_eq!(rates.turn(slot(5), &key, &one, at(12)), at(50));
        assert_eq!(
            rates.turn(slot(3), &key, &one, at(21)),
            at(60),
            "an asset that missed its turn is last"
        );
    }

    #[test]
    fn r9_a_reserved_turn_is_not_taken_by_another_asset() {
        let (mut rates, key) = (Rates::default(), "all".into());
        let one = quota(1);
        rates.take(slot(0), &key, &one, at(0));
        assert_eq!(rates.turn(slot(1), &key, &one, at(0)), at(10));
        assert!(
            !rates.is_open(slot(2), &key, &one, at(11)),
            "the turn is reserved"
        );
        assert!(rates.is_open(slot(1), &key, &one, at(11)));
        assert!(
            rates.is_open(slot(2), &key, &one, at(21)),
            "the reservation is over"
        );
    }

    #[test]
    fn keys_that_are_free_are_dropped() {
        let mut rates = Rates::default();
        for n in 0..10_000 {
            let key = n.to_string().as_str().into();
            rates.take(slot(n), &key, &quota(1), at(n as u64));
        }
        assert!(rates.len() <= 2 * MANY, "{}", rates.len());
    }
}
