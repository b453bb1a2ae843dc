//! The one source of chance in a simulation: everything that may go one way or another asks it.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood, 2014): small, fast, and good enough to choose faults.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A stream of its own for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `below`; 0 when there is none.
    pub fn below(&mut self, below: usize) -> usize {
        (self.bits() >> 11) as usize % below.max(1)
    }

    /// Whether something happens that happens `per_mille` times in a thousand.
    pub fn per_mille(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1000) < per_mille as usize
    }

    /// A time between `least` and `most`.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least).as_nanos() as u64;
        least + Duration::from_nanos((self.bits() >> 1) % span.max(1))
    }

    /// Mostly `usual`; sometimes longer, up to `most`.
    pub fn delay(&mut self, usual: Duration, most: Duration) -> Duration {
        if self.per_mille(50) {
            self.between(usual, most)
        } else {
            self.between(Duration::ZERO, usual)
        }
    }

    /// One of `these`.
    pub fn pick<T: Copy>(&mut self, these: &[T]) -> Option<T> {
        let at = self.below(these.len());
        these.get(at).copied()
    }
}
