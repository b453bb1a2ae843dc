//! Random choices from a seed: the same seed plays the same session.

/// The random generator SplitMix64. It is small, and good enough for the choices of a demo.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Creates dice that throw what this seed determines.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number from 0 to `most` - 1.
    pub fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed % most.max(1) as u64) as usize
    }

    /// Returns one of the elements; none if there are none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }

    /// Puts the elements into a random order.
    pub fn shuffle<T>(&mut self, what: &mut [T]) {
        for last in (1..what.len()).rev() {
            what.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_determines_the_order() {
        let order = |seed| {
            let mut all: Vec<usize> = (0..20).collect();
            Dice::new(seed).shuffle(&mut all);
            all
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }
}
