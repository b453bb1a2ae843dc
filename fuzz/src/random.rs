//! The only source of random numbers, so that a seed repeats a run of the same number of inputs.

/// A SplitMix64 generator (Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Starts the stream of random numbers of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Starts a stream that depends on `bytes` only.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(hash(bytes))
    }

    /// Draws the next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `below`; 0 if `below` is 0.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        (self.bits() >> 11) as usize % below.max(1)
    }

    /// Draws one of `these`; `None` if there are none.
    pub(crate) fn pick<'t, T>(&mut self, these: &'t [T]) -> Option<&'t T> {
        let at = self.below(these.len());
        these.get(at)
    }

    /// Draws a part of something that is `len` long: its start and its end, most often a short one.
    pub(crate) fn part(&mut self, len: usize) -> (usize, usize) {
        let start = self.below(len + 1);
        let longest = match self.below(4) {
            0 => len - start,
            _ => (len - start).min(16),
        };
        (start, start + self.below(longest + 1))
    }
}

/// A hash of 64 bits (FNV-1a), the same in every process.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add)
}
