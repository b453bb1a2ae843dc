//! Claims: the resources that pushes hold, counted in one place.

use std::collections::{BTreeMap, VecDeque};

use plugin_sdk::{Claim, Key, Mono, Quota};

use super::{amounts::Amounts, numbers::SlotNo, rates::Rates};

/// All claims: their holders, and the assets that wait for them.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Claims {
    held: BTreeMap<Key, BTreeMap<SlotNo, u32>>,
    pub(in crate::kernel) rates: Rates,
    pub(in crate::kernel) amounts: Amounts,
    waiting: BTreeMap<Key, VecDeque<SlotNo>>,
}

/// A claim that is not free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kernel) enum Taken {
    /// Other assets hold it and will give it back.
    Held(Key),
    /// The rate is used up until a later time.
    UsedUp(Key, Quota),
}

impl Claims {
    #[cfg(test)]
    pub(in crate::kernel) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    #[cfg(test)]
    pub(in crate::kernel) fn held(&self) -> &BTreeMap<Key, BTreeMap<SlotNo, u32>> {
        &self.held
    }

    /// Checks whether `slot` can have `claim` now. A claim that `slot` already holds counts as free.
    fn free(&self, slot: SlotNo, claim: &Claim, now: Mono) -> Result<(), Taken> {
        let others = |key: &Key| {
            self.held.get(key).map_or(0, |holders| {
                holders.keys().filter(|&&holder| holder != slot).count() as u32
            })
        };
        match claim {
            Claim::Exclusive(key) if others(key) > 0 => Err(Taken::Held(key.clone())),
            Claim::AtMost(key, most) if others(key) >= *most => Err(Taken::Held(key.clone())),
            Claim::Amount { key, units, limit }
                if !self.amounts.fits(slot, key, *units, *limit) =>
            {
                Err(Taken::Held(key.clone()))
            }
            Claim::Rate(key, quota) if !self.rates.is_open(slot, key, quota, now) => {
                Err(Taken::UsedUp(key.clone(), *quota))
            }
            _ => Ok(()),
        }
    }

    /// Restores the claims that `slot` held under the last owner, free or not.
    pub(in crate::kernel) fn restore(&mut self, slot: SlotNo, claims: &[Claim]) {
        for claim in claims {
            match claim {
                Claim::Exclusive(key) | Claim::AtMost(key, _) => {
                    let holders = self.held.entry(key.clone()).or_default();
                    *holders.entry(slot).or_default() += 1;
                }
                Claim::Amount { key, units, .. } => self.amounts.claim(slot, key, *units),
                _ => {}
            }
        }
    }

    /// Takes all of `claims` for `slot`. If one is not free, takes none and returns that one as the error.
    pub(in crate::kernel) fn take(
        &mut self,
        slot: SlotNo,
        claims: &[Claim],
        now: Mono,
    ) -> Result<(), Taken> {
        claims
            .iter()
            .try_for_each(|claim| self.free(slot, claim, now))?;
        self.rates.forget(slot);
        for claim in claims {
            if let Claim::Rate(key, quota) = claim {
                self.rates.take(slot, key, quota, now);
            }
        }
        self.restore(slot, claims);
        Ok(())
    }

    /// Returns the slots that hold `key` now.
    pub(in crate::kernel) fn holders(&self, key: &Key) -> impl Iterator<Item = SlotNo> {
        let holders = self.held.get(key).into_iter();
        let amounts = self.amounts.holders(key);
        holders.flat_map(BTreeMap::keys).copied().chain(amounts)
    }

    /// Gives one claim back and returns its key with the slot to wake for it.
    pub(in crate::kernel) fn give_back(
        &mut self,
        slot: SlotNo,
        claim: &Claim,
    ) -> Option<(Key, SlotNo)> {
        let key = match claim {
            Claim::Exclusive(key) | Claim::AtMost(key, _) => key,
            Claim::Amount { key, .. } => {
                self.amounts.release(slot, key);
                return self.next_waiting(key);
            }
            _ => return None,
        };
        if let Some(holders) = self.held.get_mut(key) {
            if let Some(count) = holders.get_mut(&slot) {
                *count -= 1;
                if *count == 0 {
                    holders.remove(&slot);
                }
            }
            if holders.is_empty() {
                self.held.remove(key);
            }
        }
        self.next_waiting(key)
    }

    /// Removes and returns the slot that has waited longest for `key`.
    pub(in crate::kernel) fn next_waiting(&mut self, key: &Key) -> Option<(Key, SlotNo)> {
        let queue = self.waiting.get_mut(key)?;
        let slot = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(key);
        }
        slot.map(|slot| (key.clone(), slot))
    }

    /// Puts `slot` into the queue for `key`: at the end, or at the front if it was woken for the key and found it
    /// taken.
    pub(in crate::kernel) fn park(&mut self, slot: SlotNo, key: &Key, was_first: bool) {
        let queue = self.waiting.entry(key.clone()).or_default();
        if queue.contains(&slot) {
            return;
        }
        match was_first {
            true => queue.push_front(slot),
            false => queue.push_back(slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: usize) -> SlotNo {
        SlotNo::from_index(index)
    }

    #[test]
    fn r9_all_claims_or_none() {
        let mut claims = Claims::default();
        let (a, b): (Key, Key) = ("a".into(), "b".into());
        claims
            .take(slot(1), &[Claim::Exclusive(a.clone())], Mono(0))
            .unwrap();
        let both = [Claim::Exclusive(b.clone()), Claim::Exclusive(a.clone())];
        assert_eq!(
            claims.take(slot(2), &both, Mono(0)),
            Err(Taken::Held(a.clone()))
        );
        assert_eq!(
            claims.take(slot(3), &[Claim::Exclusive(b)], Mono(0)),
            Ok(()),
            "b was not taken with a"
        );
        claims.park(slot(2), &a, false);
        assert_eq!(
            claims.give_back(slot(1), &Claim::Exclusive(a.clone())),
            Some((a, slot(2)))
        );
    }

    #[test]
    fn r9_at_most_counts_holders() {
        let mut claims = Claims::default();
        let two = || [Claim::AtMost("domain".into(), 2)];
        assert!(claims.take(slot(1), &two(), Mono(0)).is_ok());
        assert!(claims.take(slot(2), &two(), Mono(0)).is_ok());
        assert!(
            claims.take(slot(1), &two(), Mono(0)).is_ok(),
            "a holder's second push is not a second holder"
        );
        assert!(claims.take(slot(3), &two(), Mono(0)).is_err());
        claims.give_back(slot(1), &two()[0]);
        assert!(
            claims.take(slot(3), &two(), Mono(0)).is_err(),
            "taken twice, given back once"
        );
        claims.give_back(slot(1), &two()[0]);
        assert!(claims.take(slot(3), &two(), Mono(0)).is_ok());
    }
}
