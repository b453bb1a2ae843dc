//! Rates: how fast claims under one key may be taken, and in which order.
//!
//! Each holder that finds a rate used up gets its own turn. So only as many holders wake at once as the rate lets
//! through.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use plugin_sdk::{Key, Mono, Quota};

/// Number of keys from which free keys are dropped now and then.
const MANY: usize = 64;

/// Time for which a turn is reserved after it has come, because its holder prepares first: an asset is diffed and
/// checked.
const GRACE: Duration = Duration::from_secs(10);

/// All rates in use, with the turns given out. A rate is `burst` at once, then one more every `every` (the generic cell
/// rate algorithm).
///
/// ```
/// use std::time::Duration;
///
/// use control_plane_runtime::claims::Rates;
/// use plugin_sdk::{Key, Mono, Quota};
///
/// let (mut rates, posters) = (Rates::default(), Key::from("posters"));
/// let (quota, start) = (Quota::new(1, Duration::from_secs(10)), Mono(0));
///
/// assert!(rates.is_open(&"hamlet", &posters, &quota, start));
/// rates.take(&"hamlet", &posters, &quota, start);
/// assert!(!rates.is_open(&"lear", &posters, &quota, start));
/// let turn = rates.turn(&"lear", &posters, &quota, start);
/// assert_eq!(turn, start + Duration::from_secs(10));
/// ```
#[derive(Debug)]
pub struct Rates<H> {
    keys: BTreeMap<Key, Rate<H>>,
    /// The turn of each holder that has one.
    turns: BTreeMap<H, (Key, Mono)>,
    /// Number of keys at which free keys are dropped next.
    many: usize,
}

impl<H> Default for Rates<H> {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            turns: BTreeMap::new(),
            many: 0,
        }
    }
}

/// The rate of one key, by the generic cell rate algorithm.
#[derive(Debug)]
struct Rate<H> {
    /// Theoretical arrival time of the next claim under this key.
    arrival: Mono,
    /// How far ahead of that time a claim may be taken.
    tolerance: Duration,
    /// Mean time between two claims in the long run.
    every: Duration,
    /// The turns given out, each with its holder. `None` as the holder is before all holders of that time.
    turns: BTreeSet<(Mono, Option<H>)>,
}

impl<H> Default for Rate<H> {
    fn default() -> Self {
        Self {
            arrival: Mono(0),
            tolerance: Duration::ZERO,
            every: Duration::ZERO,
            turns: BTreeSet::new(),
        }
    }
}

impl<H: Ord + Clone> Rates<H> {
    /// Whether `holder` may take the claim now. It may not take the turn of another holder.
    pub fn is_open(&self, holder: &H, key: &Key, quota: &Quota, now: Mono) -> bool {
        let Some(rate) = self.keys.get(key) else {
            return true;
        };
        let opens = |arrival: Mono| arrival - tolerance(quota);
        let is_its_turn = self
            .turns
            .get(holder)
            .is_some_and(|(of, at)| of == key && *at <= now);
        let is_other = |turn: &&(Mono, Option<H>)| turn.1.as_ref() != Some(holder);
        let next = rate.to_come(now).find(is_other);
        let arrival = rate.arrival.min(latest(quota, now));
        let then = opens(arrival.max(now) + quota.every);
        opens(arrival) <= now && (is_its_turn || next.is_none_or(|(at, _)| then <= *at))
    }

    /// Notes that `holder` takes the claim. Its turn, at any rate, is over.
    pub fn take(&mut self, holder: &H, key: &Key, quota: &Quota, now: Mono) {
        self.forget(holder);
        self.tidy(now);
        let rate = self.keys.entry(key.clone()).or_default();
        rate.heed(quota, now);
        rate.arrival = rate.arrival.max(now) + quota.every;
    }

    /// The theoretical arrival time of the next claim under `key`: what an owner keeps so that the next one can
    /// [restore](Self::restore) it. `None`: the rate was not used, or is free.
    pub fn arrival(&self, key: &Key) -> Option<Mono> {
        self.keys.get(key).map(|rate| rate.arrival)
    }

    /// Goes on with a rate that was used up to this arrival time under the last owner.
    pub fn restore(&mut self, key: &Key, arrival: Mono) {
        let rate = self.keys.entry(key.clone()).or_default();
        rate.arrival = rate.arrival.max(arrival);
    }

    /// Returns the time at which `holder`, which found the rate used up, may try again: after all holders that found so
    /// before.
    pub fn turn(&mut self, holder: &H, key: &Key, quota: &Quota, now: Mono) -> Mono {
        // A quota that was edited moves the turns too.
        self.keys.entry(key.clone()).or_default().heed(quota, now);
        let own = self.turns.get(holder);
        if own.is_some_and(|(of, at)| of == key && *at > now)
            && let Some(turn) = self.moved_up(holder, now)
        {
            return turn;
        }
        self.forget(holder);
        let rate = self.keys.entry(key.clone()).or_default();
        rate.turns = rate.turns.split_off(&(now - GRACE, None::<H>));
        let behind = rate.turns.last().map(|(last, _)| *last + rate.every);
        let turn = behind.map_or(rate.opens(), |behind| behind.max(rate.opens()));
        rate.turns.insert((turn, Some(holder.clone())));
        self.turns.insert(holder.clone(), (key.clone(), turn));
        turn
    }

    /// Returns the turn of `holder`, if it has one. It moves up if holders before it no longer wait.
    pub fn moved_up(&mut self, holder: &H, now: Mono) -> Option<Mono> {
        let (key, at) = self.turns.get_mut(holder)?;
        let rate = self.keys.get_mut(key)?;
        let mut own = (*at, Some(holder.clone()));
        let before = rate.to_come(now).take_while(|turn| **turn < own);
        let before = before.count() as u32;
        let earliest = rate.opens() + rate.every.saturating_mul(before);
        if earliest < *at {
            rate.turns.remove(&own);
            own.0 = earliest;
            rate.turns.insert(own);
            *at = earliest;
        }
        Some(*at)
    }

    /// Whether `holder` waits for a turn at any rate.
    pub fn has_turn(&self, holder: &H) -> bool {
        self.turns.contains_key(holder)
    }

    /// Drops the turn of `holder`.
    pub fn forget(&mut self, holder: &H) {
        if let Some((holder, (key, at))) = self.turns.remove_entry(holder)
            && let Some(rate) = self.keys.get_mut(&key)
        {
            rate.turns.remove(&(at, Some(holder)));
        }
    }

    /// Number of keys in use and of turns given out. Keys that are free are dropped now and then.
    pub fn size(&self) -> usize {
        self.keys.len() + self.turns.len()
    }

    /// Drops keys that are free and for which no holder waits.
    fn tidy(&mut self, now: Mono) {
        if self.keys.len() < self.many.max(MANY) {
            return;
        }
        self.keys
            .retain(|_, rate| rate.arrival > now || !rate.turns.is_empty());
        self.many = self.keys.len() * 2;
    }
}

impl<H: Ord> Rate<H> {
    fn heed(&mut self, quota: &Quota, now: Mono) {
        (self.every, self.tolerance) = (quota.every, tolerance(quota));
        self.arrival = self.arrival.min(latest(quota, now));
    }

    /// Returns the turns to come, and those that came within [`GRACE`].
    fn to_come(&self, now: Mono) -> impl Iterator<Item = &(Mono, Option<H>)> {
        self.turns.range((now - GRACE, None::<H>)..)
    }

    fn opens(&self) -> Mono {
        self.arrival - self.tolerance
    }
}

/// The latest arrival time that a rate can come to. A later one is of an older quota, which was slower.
fn latest(quota: &Quota, now: Mono) -> Mono {
    now + quota.every.saturating_mul(quota.burst)
}

fn tolerance(quota: &Quota) -> Duration {
    quota.every.saturating_mul(quota.burst.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for taker in [1, 2] {
            assert!(rates.is_open(&9, &key, &quota(2), at(0)));
            rates.take(&taker, &key, &quota(2), at(0));
        }
        assert!(!rates.is_open(&9, &key, &quota(2), at(9)));
        assert!(rates.is_open(&9, &key, &quota(2), at(10)));
        rates.take(&3, &key, &quota(2), at(10));
        assert!(!rates.is_open(&9, &key, &quota(2), at(10)));
    }

    #[test]
    fn r9_each_holder_that_waits_for_a_rate_has_a_turn() {
        let (mut rates, key) = (Rates::default(), "all".into());
        let one = quota(1);
        rates.take(&0, &key, &one, at(0));
        let turns: Vec<_> = (1..5).map(|n| rates.turn(&n, &key, &one, at(0))).collect();
        assert_eq!(turns, [at(10), at(20), at(30), at(40)]);
        assert_eq!(
            rates.turn(&3, &key, &one, at(1)),
            at(30),
            "it keeps its turn"
        );
        rates.forget(&1);
        assert_eq!(rates.moved_up(&3, at(1)), Some(at(20)));
        rates.take(&2, &key, &one, at(12));
        assert_eq!(rates.turn(&5, &key, &one, at(12)), at(50));
        assert_eq!(
            rates.turn(&3, &key, &one, at(21)),
            at(60),
            "a holder that missed its turn is last"
        );
    }

    #[test]
    fn r9_a_reserved_turn_is_not_taken_by_another_holder() {
        let (mut rates, key) = (Rates::default(), "all".into());
        let one = quota(1);
        rates.take(&0, &key, &one, at(0));
        assert_eq!(rates.turn(&1, &key, &one, at(0)), at(10));
        assert!(
            !rates.is_open(&2, &key, &one, at(11)),
            "the turn is reserved"
        );
        assert!(rates.is_open(&1, &key, &one, at(11)));
        assert!(
            rates.is_open(&2, &key, &one, at(21)),
            "the reservation is over"
        );
    }

    #[test]
    fn r32_rate_goes_on_where_the_last_owner_was() {
        let (mut rates, key) = (Rates::default(), "all".into());
        rates.take(&1, &key, &quota(2), at(0));
        rates.take(&2, &key, &quota(2), at(0));
        let arrival = rates.arrival(&key).unwrap();
        let mut next = Rates::default();
        next.restore(&key, arrival);
        assert!(!next.is_open(&3, &key, &quota(2), at(9)));
        assert!(next.is_open(&3, &key, &quota(2), at(10)));
        next.take(&3, &key, &quota(2), at(10));
        assert_eq!(next.turn(&4, &key, &quota(2), at(10)), at(20));
    }

    #[test]
    fn keys_that_are_free_are_dropped() {
        let mut rates = Rates::default();
        for n in 0..10_000 {
            let key = n.to_string().as_str().into();
            rates.take(&n, &key, &quota(1), at(n as u64));
        }
        assert!(rates.size() <= 2 * MANY, "{}", rates.size());
    }
}
