//! Counted amounts: the share that each holder has of a capacity, and the amount that pushes under way may take of it
//! (R9, R16).
//!
//! A holder counts with its level, the amount that production was last seen to give it, or with its claim, whichever is
//! larger. Sums and orders are kept up to date, so that no question and no admission visits the other consumers.

mod sum;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use plugin_sdk::{Key, Mono, Now, Shared};
use prodspec_model::AssetId;

pub use sum::Sum;

/// The round of a capacity whose consumers were never looked up.
const NEVER: u64 = u64::MAX;

/// All counted amounts, by the key of their capacity.
///
/// Claims alone need no more than [`fits`](Self::fits), [`claim`](Self::claim) and [`release`](Self::release). An engine
/// that also knows what production uses [watches](Self::watch) a capacity, names its consumers and passes their levels.
///
/// ```
/// use control_plane_runtime::claims::Amounts;
/// use plugin_sdk::Key;
///
/// let (mut amounts, disk) = (Amounts::default(), Key::from("disk"));
/// amounts.claim(&"hamlet", &disk, 60);
/// assert!(amounts.fits(&"lear", &disk, 40, 100));
/// assert!(!amounts.fits(&"lear", &disk, 41, 100));
/// amounts.release(&"hamlet", &disk);
/// assert!(amounts.fits(&"lear", &disk, 100, 100));
/// ```
#[derive(Debug)]
pub struct Amounts<H> {
    by_key: BTreeMap<Key, Amount<H>>,
    /// The watched keys under which each holder is a consumer.
    of: BTreeMap<H, BTreeSet<Key>>,
    /// Rises when consumers may have changed in many places. Consumers looked up in an earlier round are looked up
    /// again when a check asks for them.
    round: u64,
    /// Number of watched keys.
    watched: usize,
    /// Time of the next search for keys that no check asks about any more.
    forget_at: Mono,
}

impl<H> Default for Amounts<H> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            of: BTreeMap::new(),
            round: 0,
            watched: 0,
            forget_at: Mono(0),
        }
    }
}

/// The amount counted under one key.
#[derive(Debug)]
struct Amount<H> {
    shares: BTreeMap<H, Share>,
    /// The sum of the counts of all shares.
    total: u128,
    /// Consumers by the time of the diff that found their level. `None` as the holder is before all holders of that time.
    by_age: BTreeSet<(Option<Mono>, Option<H>)>,
    shrinking: BTreeSet<H>,
    leaving: BTreeSet<H>,
    /// Consumers with a level above zero, ordered by level.
    using: BTreeSet<(u64, H)>,
    watched: Option<Watched>,
}

impl<H> Default for Amount<H> {
    fn default() -> Self {
        Self {
            shares: BTreeMap::new(),
            total: 0,
            by_age: BTreeSet::new(),
            shrinking: BTreeSet::new(),
            leaving: BTreeSet::new(),
            using: BTreeSet::new(),
            watched: None,
        }
    }
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

/// The share of one holder.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Share {
    /// The amount that production was last seen to give the holder, plus what a push under way or ended since may have
    /// added.
    level: u64,
    /// The amount that the next push would leave the holder. `None`: not known.
    soon: Option<u64>,
    /// `true`: the content of the next push no longer consumes the shared capacity.
    leaves: bool,
    /// The amount that the push under way claims.
    claim: u64,
    /// Time of the diff that found the level. `None`: no diff yet.
    seen: Option<Now>,
    /// `true`: the holder is a consumer, with or without a claim.
    consumes: bool,
}

impl Share {
    fn counts(&self) -> u128 {
        self.level.max(self.claim).into()
    }

    fn age(&self) -> Option<Mono> {
        self.seen.map(|seen| seen.mono)
    }
}

impl<H: Ord + Clone> Amount<H> {
    /// Replaces the share of `holder` and updates the sums and orders.
    fn put(&mut self, holder: &H, share: Share) {
        let old = match share == Share::default() {
            true => self.shares.remove(holder),
            false => self.shares.insert(holder.clone(), share),
        };
        if let Some(old) = old {
            self.total -= old.counts();
            self.by_age.remove(&(old.age(), Some(holder.clone())));
            self.using.remove(&(old.level, holder.clone()));
        }
        if share.consumes && share.level > 0 {
            self.using.insert((share.level, holder.clone()));
        }
        self.total += share.counts();
        if share.consumes {
            self.by_age.insert((share.age(), Some(holder.clone())));
        }
        let shrinks = share.soon.is_some_and(|soon| soon < share.level);
        let leaves = share.leaves && share.level > 0;
        for (set, belongs) in [(&mut self.shrinking, shrinks), (&mut self.leaving, leaves)] {
            match belongs {
                true => set.insert(holder.clone()),
                false => set.remove(holder),
            };
        }
    }

    fn share(&self, holder: &H) -> Share {
        self.shares.get(holder).copied().unwrap_or_default()
    }

    /// Returns the sum of the counts of all holders except `holder`.
    fn others(&self, holder: &H) -> u128 {
        self.total - self.share(holder).counts()
    }

    /// Returns the consumers other than `holder` whose levels count as unknown; see [`Amounts::sum`].
    fn unknown(
        &self,
        holder: &H,
        not_before: Mono,
        in_flight: impl Fn(&H) -> bool,
    ) -> impl Iterator<Item = H> {
        let old = self.by_age.range(..(Some(not_before), None::<H>));
        let old = old.filter_map(|(seen, consumer)| Some((seen, consumer.as_ref()?)));
        let others = old.filter(move |(_, consumer)| *consumer != holder);
        let unknown = others.filter(move |(seen, consumer)| seen.is_none() || !in_flight(consumer));
        unknown.map(|(_, consumer)| consumer.clone())
    }

    /// Returns the time of the oldest diff that a sum without `holder` rests on.
    fn oldest(&self, holder: &H, not_before: Mono, in_flight: impl Fn(&H) -> bool) -> Option<Now> {
        let young = self.by_age.range((Some(not_before), None::<H>)..);
        let mut young = young.filter_map(|(_, consumer)| consumer.as_ref());
        let oldest = young.find(|consumer| *consumer != holder && !in_flight(consumer))?;
        self.share(oldest).seen
    }

    /// Makes `holder` a consumer, or ends that. Nothing is known yet of a new consumer.
    fn consumes(&mut self, holder: &H, consumes: bool) {
        let share = self.share(holder);
        let share = match consumes {
            true => Share { consumes, ..share },
            // The claim still counts. The level is of no use any more.
            false => Share {
                claim: share.claim,
                ..Share::default()
            },
        };
        self.put(holder, share);
    }
}

impl<H: Ord + Clone> Amounts<H> {
    /// Whether `units` for `holder` and the counts of all other holders together stay within `limit`.
    pub fn fits(&self, holder: &H, key: &Key, units: u64, limit: u64) -> bool {
        let others = self.by_key.get(key).map_or(0, |it| it.others(holder));
        others + u128::from(units) <= u128::from(limit)
    }

    /// Notes that `holder` claims `units`. Of several claims under one key, the largest counts.
    pub fn claim(&mut self, holder: &H, key: &Key, units: u64) {
        let amount = self.by_key.entry(key.clone()).or_default();
        let share = amount.share(holder);
        let claim = share.claim.max(units);
        amount.put(holder, Share { claim, ..share });
    }

    /// Ends the claim of `holder`, because its outcome is known. Until the next diff, a consumer counts with all that was
    /// claimed.
    pub fn release(&mut self, holder: &H, key: &Key) {
        let Some(amount) = self.by_key.get_mut(key) else {
            return;
        };
        let share = amount.share(holder);
        let released = match share.consumes {
            true => Share {
                level: share.level.max(share.claim),
                claim: 0,
                ..share
            },
            false => Share::default(),
        };
        amount.put(holder, released);
        if amount.watched.is_none() && amount.shares.is_empty() {
            self.by_key.remove(key);
        }
    }

    /// Takes in a diff of `holder` that started at `started`, with no push of it since. `capacity` returns, by unit, what
    /// production has and what the next push would leave. `of_intent`: the diff is of the asset's intent, so that its
    /// change is the next push. `keeps`: whether that content still consumes a shared capacity. Returns the keys under
    /// which the sum fell.
    pub fn observed(
        &mut self,
        holder: &H,
        capacity: impl Fn(&str) -> Option<(u64, Option<u64>)>,
        started: Now,
        of_intent: bool,
        keeps: impl Fn(&Shared) -> bool,
    ) -> Vec<Key> {
        let mut fell = Vec::new();
        for key in self.of.get(holder).into_iter().flatten() {
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
            let share = amount.share(holder);
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
                holder,
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
    pub fn watches_nothing(&self) -> bool {
        self.watched == 0
    }

    /// Notes that consumers may have changed in many places: they are looked up again.
    pub fn next_round(&mut self) {
        self.round += 1;
    }

    /// Watches `shared` from now on. Returns whether the caller has to provide its consumers.
    pub fn watch(&mut self, shared: &Shared, now: Mono) -> bool {
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

    /// Returns the holders that have a claim under `key`.
    pub fn holders(&self, key: &Key) -> impl Iterator<Item = H> {
        let shares = self.by_key.get(key).into_iter().flat_map(|it| &it.shares);
        shares
            .filter(|(_, share)| share.claim > 0)
            .map(|(holder, _)| holder.clone())
    }

    /// Returns the capacity watched under `key`, if the caller has to provide its consumers again.
    pub fn outdated(&self, key: &Key) -> Option<Shared> {
        let watched = self.by_key.get(key)?.watched.as_ref()?;
        (watched.round != self.round).then(|| watched.shared.clone())
    }

    /// Sets all consumers of `shared`. Levels of holders that were consumers before are kept. `strangers`: consumers that
    /// enforcement does not know.
    pub fn set_consumers(
        &mut self,
        shared: &Shared,
        consumers: BTreeSet<H>,
        strangers: Vec<AssetId>,
    ) {
        let key = Key::capacity(&shared.provider, &shared.unit);
        let Some(amount) = self.by_key.get_mut(&key) else {
            return;
        };
        if let Some(watched) = &mut amount.watched {
            (watched.round, watched.strangers) = (self.round, strangers);
        }
        let known = amount.by_age.iter().filter_map(|entry| entry.1.clone());
        let known: Vec<H> = known.collect();
        for holder in known.iter().filter(|known| !consumers.contains(*known)) {
            amount.consumes(holder, false);
            forget_key(&mut self.of, holder, &key);
        }
        for holder in consumers {
            amount.consumes(&holder, true);
            self.of.entry(holder).or_default().insert(key.clone());
        }
    }

    /// Sets the watched capacities that `holder` consumes: exactly these.
    pub fn set_consumed(&mut self, holder: &H, shared: impl Iterator<Item = Shared>) {
        let keys = shared.map(|it| Key::capacity(&it.provider, &it.unit));
        let watched = |key: &Key| {
            let amount = self.by_key.get(key);
            amount.is_some_and(|amount| amount.watched.is_some())
        };
        let keys: BTreeSet<Key> = keys.filter(watched).collect();
        let before = self.of.remove(holder).unwrap_or_default();
        for key in before.symmetric_difference(&keys) {
            if let Some(amount) = self.by_key.get_mut(key) {
                amount.consumes(holder, keys.contains(key));
            }
        }
        if !keys.is_empty() {
            self.of.insert(holder.clone(), keys);
        }
    }

    /// Returns the use of the capacity watched under `key` by all consumers except `holder`. Levels from before
    /// `not_before` count as unknown, except for holders with a push under way: they cannot be diffed, and count with
    /// their level and claim. Each list has at most `most` entries, but `unknown` and `strangers` are never cut to none.
    pub fn sum(
        &self,
        key: &Key,
        holder: &H,
        not_before: Mono,
        most: usize,
        in_flight: impl Fn(&H) -> bool,
    ) -> Sum<H> {
        let Some(amount) = self.by_key.get(key) else {
            return Sum::default();
        };
        let strangers = amount.watched.iter().flat_map(|it| &it.strangers);
        let unknown = amount.unknown(holder, not_before, &in_flight);
        // Name at least one unknown consumer: without any, callers take the sum for complete.
        let at_least = most.max(1);
        let named = |set: &BTreeSet<H>| {
            let others = set.iter().filter(|consumer| *consumer != holder);
            let with = others.map(|consumer| (consumer.clone(), amount.share(consumer).level));
            with.take(most).collect()
        };
        let using = amount.using.iter().rev();
        let using = using.filter(|entry| entry.1 != *holder).take(most);
        Sum {
            used: amount.others(holder),
            oldest: amount.oldest(holder, not_before, &in_flight),
            unknown: unknown.take(at_least).collect(),
            strangers: strangers.take(at_least).cloned().collect(),
            shrinking: named(&amount.shrinking),
            leaving: named(&amount.leaving),
            using: using
                .map(|(level, consumer)| (consumer.clone(), *level))
                .collect(),
        }
    }

    /// Returns all consumers of the capacity watched under `key`, except `holder`, whose levels count as unknown; see
    /// [`Amounts::sum`].
    pub fn unknown(
        &self,
        key: &Key,
        holder: &H,
        not_before: Mono,
        in_flight: impl Fn(&H) -> bool,
    ) -> Vec<H> {
        let amount = self.by_key.get(key);
        let unknown = amount.map(|it| it.unknown(holder, not_before, in_flight).collect());
        unknown.unwrap_or_default()
    }

    /// Ends the watch of keys that no check asked about for `age`.
    pub fn forget(&mut self, now: Mono, age: Duration) {
        if now < self.forget_at {
            return;
        }
        self.forget_at = now + age;
        let not_before = now - age;
        let old = |amount: &Amount<H>| {
            let watched = amount.watched.as_ref();
            watched.is_some_and(|watched| watched.asked < not_before)
        };
        for (key, amount) in self.by_key.iter_mut().filter(|(_, amount)| old(amount)) {
            amount.watched = None;
            self.watched -= 1;
            let consumers = std::mem::take(&mut amount.by_age);
            for holder in consumers.into_iter().filter_map(|entry| entry.1) {
                amount.consumes(&holder, false);
                forget_key(&mut self.of, &holder, key);
            }
        }
        let is_used = |amount: &Amount<H>| amount.watched.is_some() || !amount.shares.is_empty();
        self.by_key.retain(|_, amount| is_used(amount));
    }

    /// Number of keys in use and of consumers. Keys without questions and claims are forgotten; see [`Amounts::forget`].
    pub fn size(&self) -> usize {
        self.by_key.len() + self.of.len()
    }

    /// Recounts all sums, for tests and audits. Returns the claims of pushes under way, by key and holder.
    ///
    /// # Errors
    /// The key whose sum differs from the recount.
    pub fn recounted(&self) -> Result<BTreeMap<Key, BTreeMap<H, u64>>, Key> {
        let mut claimed: BTreeMap<Key, BTreeMap<H, u64>> = BTreeMap::new();
        for (key, amount) in &self.by_key {
            let total: u128 = amount.shares.values().map(Share::counts).sum();
            if amount.total != total {
                return Err(key.clone());
            }
            for (holder, share) in amount.shares.iter().filter(|(_, share)| share.claim > 0) {
                let of = claimed.entry(key.clone()).or_default();
                of.insert(holder.clone(), share.claim);
            }
        }
        Ok(claimed)
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
