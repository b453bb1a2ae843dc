//! The only source of random numbers in a simulation, so that a seed repeats exactly.

use std::time::Duration;

/// A SplitMix64 generator (Steele, Lea and Flood, 2014): small, fast, and good enough to choose faults.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts the stream of random numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Draws the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `below`; 0 if `below` is 0.
    pub fn below(&mut self, below: usize) -> usize {
        (self.bits() >> 11) as usize % below.max(1)
    }

    /// Draws true with a probability of `per_mille` in a thousand; draws nothing if it is 0.
    pub fn per_mille(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1000) < per_mille as usize
    }

    /// Draws a duration from `least` up to, but below, `most`.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least).as_nanos() as u64;
        least + Duration::from_nanos((self.bits() >> 1) % span.max(1))
    }

    /// Draws a duration up to `usual`; in one of twenty cases one between `usual` and `most`.
    pub fn delay(&mut self, usual: Duration, most: Duration) -> Duration {
        if self.per_mille(50) {
            self.between(usual, most)
        } else {
            self.between(Duration::ZERO, usual)
        }
    }

    /// Draws one of `these`; `None` if there are none.
    pub fn pick<T: Copy>(&mut self, these: &[T]) -> Option<T> {
        let at = self.below(these.len());
        these.get(at).copied()
    }
}
