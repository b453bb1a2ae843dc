//! The index of slots by asset id.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::numbers::SlotNo;

/// Number of ranges of buckets into which added slots are sorted. A range of the index of a million assets then fits into
/// a cache.
const RANGES: usize = 256;

/// The slots by the hash of their assets' ids. The ids themselves are in the table of assets.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Index {
    slots: HashTable<SlotNo>,
    hasher: DefaultHashBuilder,
    added: Added,
}

impl Index {
    /// Returns the slot of `id`; `is_its` says whether a slot's asset has that id.
    pub(super) fn find(&self, id: &str, is_its: impl Fn(SlotNo) -> bool) -> Option<SlotNo> {
        debug_assert!(self.added.0.is_empty(), "the index is not complete");
        let found = self.slots.find(self.hash(id), |at| is_its(*at));
        found.copied()
    }

    /// Adds the slot of `id`. `hash_of` hashes the id of a slot's asset.
    pub(super) fn insert(&mut self, id: &str, at: SlotNo, hash_of: impl Fn(&Self, SlotNo) -> u64) {
        let hash = self.hash(id);
        self.change(hash_of, |slots, hash_of| {
            slots.insert_unique(hash, at, hash_of);
        });
    }

    /// Adds the slot of `id`. It is found after [`Index::take_added`].
    pub(super) fn insert_later(&mut self, id: &str, at: SlotNo) {
        self.added.0.push((self.hash(id), at));
    }

    /// Reserves room for `more` slots that are added later.
    pub(super) fn reserve(&mut self, more: usize) {
        self.added.0.reserve_exact(more);
    }

    /// Takes in the slots that [`Index::insert_later`] added.
    pub(super) fn take_added(&mut self, hash_of: impl Fn(&Self, SlotNo) -> u64) {
        let added = std::mem::take(&mut self.added);
        self.change(hash_of, |slots, hash_of| {
            slots.reserve(added.0.len(), hash_of);
            for (hash, at) in added.in_bucket_order(slots.num_buckets()) {
                slots.insert_unique(hash, at, hash_of);
            }
        });
    }

    /// Removes the slot of `id`.
    pub(super) fn remove(&mut self, id: &str, at: SlotNo) {
        let hash = self.hash(id);
        if let Ok(entry) = self.slots.find_entry(hash, |other| *other == at) {
            entry.remove();
        }
    }

    /// Returns the hash of an id.
    pub(super) fn hash(&self, id: &str) -> u64 {
        self.hasher.hash_one(id)
    }

    fn change(
        &mut self,
        hash_of: impl Fn(&Self, SlotNo) -> u64,
        change: impl FnOnce(&mut HashTable<SlotNo>, &dyn Fn(&SlotNo) -> u64),
    ) {
        let mut slots = std::mem::take(&mut self.slots);
        change(&mut slots, &|at| hash_of(self, *at));
        self.slots = slots;
    }
}

/// Slots that were added, each with the hash of its asset's id. A million of them in the order of their ids would touch
/// a line of cold memory each in the index; in the order of its buckets they fill one line after the other.
#[derive(Debug, Default)]
struct Added(Vec<(u64, SlotNo)>);

impl Added {
    /// All slots with their hashes, sorted by ranges of the buckets of an index with `buckets` buckets, a power of two.
    fn in_bucket_order(self, buckets: usize) -> Vec<(u64, SlotNo)> {
        let mut all = self.0;
        let last = (buckets as u64).saturating_sub(1);
        let range = (buckets / RANGES).max(1) as u64;
        all.sort_unstable_by_key(|(hash, _)| (hash & last) / range);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_slots_are_sorted_by_ranges_of_buckets() {
        let mut added = Added::default();
        let hash = |nth: u64| nth.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for nth in 0..5_000 {
            added.0.push((hash(nth), SlotNo::from_index(nth as usize)));
        }
        let sorted = added.in_bucket_order(1 << 13);
        let ranges: Vec<u64> = sorted.iter().map(|(hash, _)| (hash & 8191) / 32).collect();
        assert!(ranges.is_sorted() && ranges.last() > Some(&200));
        let mut slots: Vec<SlotNo> = sorted.into_iter().map(|(_, slot)| slot).collect();
        slots.sort_unstable();
        assert!(slots.into_iter().eq(SlotNo::all(5_000)));
    }
}
