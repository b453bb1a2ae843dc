//! Claims: the resources that holders share, counted in one place. A holder takes claims in an engine: an
//! asset that is pushed, a step of a workflow.
//!
//! A check only names claims; [`Claims::take`] counts them, and takes all claims of a holder or none. So the
//! limits hold however many checks name them, and a new owner restores them from the holders' records.
//!
//! ```
//! use control_plane_runtime::claims::{Claims, Taken};
//! use plugin_sdk::{Claim, Key, Mono};
//!
//! let press = Claim::Exclusive(Key::from("press"));
//! let paper = Claim::AtMost(Key::from("paper"), 2);
//! let mut claims = Claims::default();
//!
//! claims.take(&"hamlet", &[press.clone(), paper.clone()], Mono(0))?;
//! // Lear gets nothing, not even paper, because the press is taken. It waits for the press.
//! let taken = claims.take(&"lear", &[paper.clone(), press.clone()], Mono(0));
//! assert_eq!(taken, Err(Taken::Held("press".into())));
//! claims.park(&"lear", press.key(), false);
//!
//! assert_eq!(claims.give_back(&"hamlet", &press), Some(("press".into(), "lear")));
//! claims.take(&"lear", &[paper, press], Mono(0))?;
//! # Ok::<(), Taken>(())
//! ```

mod amounts;
mod floors;
mod rates;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plugin_sdk::{Claim, Key, Mono, Quota};

pub use amounts::{Amounts, Sum};
pub use floors::{Floors, Kept};
pub use rates::Rates;

/// All claims of an engine: their holders `H`, and the holders that wait for them. Pure: the caller passes the time.
#[derive(Debug)]
pub struct Claims<H> {
    held: BTreeMap<Key, BTreeMap<H, u32>>,
    /// The rates, with the turns of the holders that wait for them.
    pub rates: Rates<H>,
    /// The amounts, with what production was seen to use of them.
    pub amounts: Amounts<H>,
    /// The floors, with the capacity that production was seen to have.
    pub floors: Floors<H>,
    waiting: BTreeMap<Key, VecDeque<H>>,
}

impl<H> Default for Claims<H> {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            rates: Rates::default(),
            amounts: Amounts::default(),
            floors: Floors::default(),
            waiting: BTreeMap::new(),
        }
    }
}

/// A claim that is not free.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Taken {
    /// Other holders have it and will give it back: wait with [`Claims::park`].
    #[error("the claim `{}` is taken; wait until a holder gives it back", name(.0))]
    Held(Key),
    /// The rate is used up until a later time: wait for the turn that [`Rates::turn`] gives.
    #[error("the rate of `{}` is used up; wait for a turn", name(.0))]
    UsedUp(Key, Quota),
}

/// The capacity that a push keeps, by one of its claims.
fn keeps_of<'a, H>((holder, claim): (&'a H, &Claim)) -> Option<(&'a H, u64)> {
    match claim {
        Claim::Keep { keeps, .. } => Some((holder, *keeps)),
        _ => None,
    }
}

fn name(key: &Key) -> &str {
    &key.0
}

impl<H: Ord + Clone> Claims<H> {
    /// The holders of each key, with the number of times that each holds it. Without amounts, which [`Amounts`] counts.
    pub fn held(&self) -> &BTreeMap<Key, BTreeMap<H, u32>> {
        &self.held
    }

    /// Number of keys that holders wait for.
    pub fn awaited_keys(&self) -> usize {
        self.waiting.len()
    }

    /// Checks whether `holder` can have `claim` now, if the `others` had theirs too. A claim that `holder` already holds
    /// counts as free.
    fn free<'a>(
        &self,
        holder: &H,
        claim: &Claim,
        others: &'a [(H, &'a [Claim])],
        now: Mono,
    ) -> Result<(), Taken> {
        let beside = |key: &Key| {
            let others = others.iter().filter(|(other, _)| other != holder);
            let all = others.flat_map(|(other, claims)| claims.iter().map(move |it| (other, it)));
            all.filter(|(_, claim)| claim.key() == key)
                .collect::<Vec<_>>()
        };
        let others = |key: &Key| {
            let held = self.held.get(key).into_iter().flat_map(BTreeMap::keys);
            let all = held.chain(beside(key).into_iter().map(|(other, _)| other));
            let others: BTreeSet<&H> = all.filter(|other| *other != holder).collect();
            others.len() as u32
        };
        let with_others = |key: &Key, units: u64| {
            let units_of = |(_, claim): (&H, &Claim)| match claim {
                Claim::Amount { units, .. } => *units,
                _ => 0,
            };
            let beside = beside(key).into_iter().map(units_of);
            beside.fold(units, u64::saturating_add)
        };
        let kept_beside = |key: &Key| {
            let kept = beside(key).into_iter().filter_map(keeps_of);
            kept.collect::<Vec<_>>()
        };
        match claim {
            Claim::Exclusive(key) if others(key) > 0 => Err(Taken::Held(key.clone())),
            Claim::AtMost(key, most) if others(key) >= *most => Err(Taken::Held(key.clone())),
            Claim::Amount { key, units, limit }
                if !self
                    .amounts
                    .fits(holder, key, with_others(key, *units), *limit) =>
            {
                Err(Taken::Held(key.clone()))
            }
            Claim::Keep {
                key,
                keeps,
                at_least,
            } if !self
                .floors
                .fits(holder, key, *keeps, *at_least, &kept_beside(key)) =>
            {
                Err(Taken::Held(key.clone()))
            }
            Claim::Rate(key, quota) if !self.rates.is_open(holder, key, quota, now) => {
                Err(Taken::UsedUp(key.clone(), *quota))
            }
            _ => Ok(()),
        }
    }

    /// Restores the claims that `holder` held under the last owner, free or not. A rate is of no holder any more: see
    /// [`Rates::restore`]. A floor counts the observations of the new owner only.
    pub fn restore(&mut self, holder: &H, claims: &[Claim]) {
        for claim in claims {
            match claim {
                Claim::Exclusive(key) | Claim::AtMost(key, _) => {
                    let holders = self.held.entry(key.clone()).or_default();
                    *holders.entry(holder.clone()).or_default() += 1;
                }
                Claim::Amount { key, units, .. } => self.amounts.claim(holder, key, *units),
                _ => {}
            }
        }
    }

    /// Checks whether `holder` could take all of `claims` now, if the `others` took theirs before it. Nothing is taken.
    ///
    /// # Errors
    /// The first claim that would not be free.
    pub fn fits(
        &self,
        holder: &H,
        claims: &[Claim],
        others: &[(H, &[Claim])],
        now: Mono,
    ) -> Result<(), Taken> {
        claims
            .iter()
            .try_for_each(|claim| self.free(holder, claim, others, now))
    }

    /// Takes all of `claims` for `holder`, or none.
    ///
    /// # Errors
    /// The first claim that is not free. Nothing was taken.
    pub fn take(&mut self, holder: &H, claims: &[Claim], now: Mono) -> Result<(), Taken> {
        self.fits(holder, claims, &[], now)?;
        self.rates.forget(holder);
        for claim in claims {
            if let Claim::Rate(key, quota) = claim {
                self.rates.take(holder, key, quota, now);
            }
        }
        self.restore(holder, claims);
        Ok(())
    }

    /// Returns the holders of `key`, amounts included.
    pub fn holders(&self, key: &Key) -> impl Iterator<Item = H> {
        let holders = self.held.get(key).into_iter();
        let amounts = self.amounts.holders(key);
        holders.flat_map(BTreeMap::keys).cloned().chain(amounts)
    }

    /// Gives one claim of `holder` back. Returns its key with the holder to wake for it, which no longer waits. A rate is
    /// never given back.
    pub fn give_back(&mut self, holder: &H, claim: &Claim) -> Option<(Key, H)> {
        let key = match claim {
            Claim::Exclusive(key) | Claim::AtMost(key, _) => key,
            Claim::Amount { key, .. } => {
                self.amounts.release(holder, key);
                return self.next_waiting(key);
            }
            _ => return None,
        };
        if let Some(holders) = self.held.get_mut(key) {
            if let Some(count) = holders.get_mut(holder) {
                *count -= 1;
                if *count == 0 {
                    holders.remove(holder);
                }
            }
            if holders.is_empty() {
                self.held.remove(key);
            }
        }
        self.next_waiting(key)
    }

    /// Removes and returns the holder that has waited longest for `key`.
    pub fn next_waiting(&mut self, key: &Key) -> Option<(Key, H)> {
        let queue = self.waiting.get_mut(key)?;
        let holder = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(key);
        }
        holder.map(|holder| (key.clone(), holder))
    }

    /// Puts `holder` into the queue for `key`: at the end, or at the front if it was woken for the key and found it taken
    /// (`was_first`). One that waits for the key already keeps its place.
    pub fn park(&mut self, holder: &H, key: &Key, was_first: bool) {
        let queue = self.waiting.entry(key.clone()).or_default();
        if queue.contains(holder) {
            return;
        }
        match was_first {
            true => queue.push_front(holder.clone()),
            false => queue.push_back(holder.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_others_would_take_first_are_not_free() {
        let mut claims = Claims::default();
        let amount = |units| Claim::Amount {
            key: Key::from("disk"),
            units,
            limit: 10,
        };
        let two = [Claim::AtMost(Key::from("eu"), 2), amount(4)];
        let others = [("a", &two[..]), ("b", &two[..])];
        assert_eq!(claims.fits(&"c", &two, &others[..1], Mono(0)), Ok(()));
        let taken = claims.fits(&"c", &two, &others, Mono(0));
        assert_eq!(taken, Err(Taken::Held("eu".into())));
        let taken = claims.fits(&"c", &two[1..], &others, Mono(0));
        assert_eq!(taken, Err(Taken::Held("disk".into())));
        assert_eq!(claims.take(&"a", &two, Mono(0)), Ok(()));
        let again = claims.fits(&"c", &two[..1], &others[..1], Mono(0));
        assert_eq!(again, Ok(()), "`a` counts once");
    }

    #[test]
    fn r9_all_claims_or_none() {
        let mut claims = Claims::default();
        let (a, b): (Key, Key) = ("a".into(), "b".into());
        claims
            .take(&1, &[Claim::Exclusive(a.clone())], Mono(0))
            .unwrap();
        let both = [Claim::Exclusive(b.clone()), Claim::Exclusive(a.clone())];
        assert_eq!(claims.take(&2, &both, Mono(0)), Err(Taken::Held(a.clone())));
        assert_eq!(
            claims.take(&3, &[Claim::Exclusive(b)], Mono(0)),
            Ok(()),
            "b was not taken with a"
        );
        claims.park(&2, &a, false);
        assert_eq!(
            claims.give_back(&1, &Claim::Exclusive(a.clone())),
            Some((a, 2))
        );
    }

    #[test]
    fn r9_at_most_counts_holders() {
        let mut claims = Claims::default();
        let two = || [Claim::AtMost("domain".into(), 2)];
        assert!(claims.take(&1, &two(), Mono(0)).is_ok());
        assert!(claims.take(&2, &two(), Mono(0)).is_ok());
        assert!(
            claims.take(&1, &two(), Mono(0)).is_ok(),
            "a holder's second push is not a second holder"
        );
        assert!(claims.take(&3, &two(), Mono(0)).is_err());
        claims.give_back(&1, &two()[0]);
        assert!(
            claims.take(&3, &two(), Mono(0)).is_err(),
            "taken twice, given back once"
        );
        claims.give_back(&1, &two()[0]);
        assert!(claims.take(&3, &two(), Mono(0)).is_ok());
    }

    #[test]
    fn r9_holder_that_waits_for_a_key_keeps_its_place() {
        let (mut claims, key) = (Claims::default(), "press".into());
        for holder in ["hamlet", "lear", "hamlet"] {
            claims.park(&holder, &key, false);
        }
        claims.park(&"macbeth", &key, true);
        let woken: Vec<_> = std::iter::from_fn(|| claims.next_waiting(&key)).collect();
        let woken: Vec<_> = woken.into_iter().map(|(_, holder)| holder).collect();
        assert_eq!(woken, ["macbeth", "hamlet", "lear"]);
        assert_eq!(claims.awaited_keys(), 0);
    }
}
