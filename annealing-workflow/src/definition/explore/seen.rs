//! The set of states that the exploration has found, in the order in which they were found.

use hashbrown::{HashTable, hash_table::Entry};

use super::moves::Move;

/// States in order of discovery, each with the state and the move from which it was found.
#[derive(Debug)]
pub(super) struct Seen {
    words: usize,
    /// The number of words by which states are compared; they come first.
    key: usize,
    states: Vec<u64>,
    found_by: Vec<(u32, Option<Move>)>,
    /// Numbers of states by hash. Never iterated, so its order is not observed.
    table: HashTable<u32>,
}

impl Seen {
    pub(super) fn new(words: usize, key: usize) -> Self {
        Self {
            words,
            key,
            states: Vec::new(),
            found_by: Vec::new(),
            table: HashTable::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.found_by.len()
    }

    /// The packed state with the number `number`.
    pub(super) fn state(&self, number: usize) -> &[u64] {
        &self.states[number * self.words..][..self.words]
    }

    /// Adds a state unless it is there. `from`: the state and the move that lead to it. `None`: a first state. Returns
    /// whether it was added.
    pub(super) fn insert(&mut self, packed: &[u64], from: Option<(usize, Move)>) -> bool {
        let (words, key, states) = (self.words, self.key, &self.states);
        let state = |number: u32| &states[number as usize * words..][..key];
        let same = |number: &u32| state(*number) == &packed[..key];
        let rehash = |number: &u32| hash(state(*number));
        let Entry::Vacant(free) = self.table.entry(hash(&packed[..key]), same, rehash) else {
            return false;
        };
        // Far fewer states than `u32::MAX` are explored.
        free.insert(self.found_by.len() as u32);
        self.states.extend_from_slice(packed);
        let from = from.map_or((0, None), |(state, by)| (state as u32, Some(by)));
        self.found_by.push(from);
        true
    }

    /// The moves that lead from a first state to the state `number`.
    pub(super) fn path(&self, number: usize) -> Vec<Move> {
        let mut path = Vec::new();
        let mut at = number;
        while let (from, Some(by)) = self.found_by[at] {
            path.push(by);
            at = from as usize;
        }
        path.reverse();
        path
    }
}

/// Mixes the words so that both ends of the hash depend on every bit. The same on every run.
fn hash(words: &[u64]) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    words.iter().fold(ODD, |hash, word| {
        let product = u128::from(hash ^ word) * u128::from(ODD);
        (product as u64 ^ (product >> 64) as u64).wrapping_add(ODD)
    })
}
