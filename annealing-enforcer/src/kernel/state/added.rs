//! Slots that the index by id does not know yet.

use super::numbers::SlotNo;

/// Number of ranges of buckets into which added slots are sorted. A range of the index of a million assets then fits into
/// a cache.
const RANGES: usize = 256;

/// Slots that were added, each with the hash of its asset's id. A million of them in the order of their ids would touch
/// a line of cold memory each in the index; in the order of its buckets they fill one line after the other.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Added(Vec<(u64, SlotNo)>);

impl Added {
    pub(in crate::kernel) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::kernel) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reserves room for `more` slots.
    pub(in crate::kernel) fn reserve(&mut self, more: usize) {
        self.0.reserve_exact(more);
    }

    pub(in crate::kernel) fn push(&mut self, hash: u64, slot: SlotNo) {
        self.0.push((hash, slot));
    }

    /// All slots with their hashes, sorted by ranges of the buckets of an index with `buckets` buckets, a power of two.
    pub(in crate::kernel) fn in_bucket_order(self, buckets: usize) -> Vec<(u64, SlotNo)> {
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
            added.push(hash(nth), SlotNo::from_index(nth as usize));
        }
        let sorted = added.in_bucket_order(1 << 13);
        let ranges: Vec<u64> = sorted.iter().map(|(hash, _)| (hash & 8191) / 32).collect();
        assert!(ranges.is_sorted() && ranges.last() > Some(&200));
        let mut slots: Vec<SlotNo> = sorted.into_iter().map(|(_, slot)| slot).collect();
        slots.sort_unstable();
        assert!(slots.into_iter().eq(SlotNo::all(5_000)));
    }
}
