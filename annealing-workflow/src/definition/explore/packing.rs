//! Positions of the exploration packed into words: a few bits for each machine, so that sets of positions are small.

use crate::definition::{
    condition::Places,
    plan::Plan,
    position::{CANCELLED, MachineNo, Position},
};

/// Where the parts of a packed position are: the states of the machines, then a mark for each machine whose action goes
/// on, then one for each whose action is enabled.
///
/// The last follow from the states, so they are no part of the key by which positions are compared.
#[derive(Debug)]
pub(super) struct Packing {
    places: Vec<Field>,
    going_on: usize,
    enabled: usize,
    words: usize,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    word: u32,
    shift: u8,
    bits: u8,
}

/// A mark of each machine.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    /// The action is not enabled any more but may have begun.
    GoingOn,
    /// The action is enabled.
    Enabled,
}

/// A packed position, for guards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packed<'a> {
    pub(super) packing: &'a Packing,
    pub(super) words: &'a [u64],
}

impl Places for Packed<'_> {
    fn state(&self, place: usize) -> u8 {
        self.packing.places[place].get(self.words)
    }
}

impl Packing {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut layout = Layout::default();
        let mut places = vec![layout.field(1)];
        debug_assert_eq!(places.len(), CANCELLED + 1);
        for machine in &plan.machines {
            let last = machine.states.len().saturating_sub(1) as u64;
            places.push(layout.field((u64::BITS - last.leading_zeros()) as u8));
        }
        let marks = plan.machines.len().div_ceil(64);
        let going_on = layout.word as usize + 1;
        Self {
            places,
            going_on,
            enabled: going_on + marks,
            words: going_on + 2 * marks,
        }
    }

    /// The number of words of a packed position.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// The number of words by which positions are compared; they come first.
    pub(super) fn key(&self) -> usize {
        self.enabled
    }

    pub(super) fn set_state(&self, words: &mut [u64], place: usize, state: u8) {
        self.places[place].set(words, state);
    }

    pub(super) fn mark(&self, words: &mut [u64], mark: Mark, machine: MachineNo, set: bool) {
        let (word, bit) = self.at(mark, machine);
        words[word] = words[word] & !(1 << bit) | u64::from(set) << bit;
    }

    pub(super) fn is_marked(&self, words: &[u64], mark: Mark, machine: MachineNo) -> bool {
        let (word, bit) = self.at(mark, machine);
        words[word] >> bit & 1 == 1
    }

    fn at(&self, mark: Mark, machine: MachineNo) -> (usize, usize) {
        let first = match mark {
            Mark::GoingOn => self.going_on,
            Mark::Enabled => self.enabled,
        };
        (first + machine.index() / 64, machine.index() % 64)
    }

    /// Calls `each` for the machines with an action that is enabled or goes on, in order.
    pub(super) fn active(&self, words: &[u64], mut each: impl FnMut(MachineNo)) {
        for word in 0..self.enabled - self.going_on {
            let mut bits = words[self.going_on + word] | words[self.enabled + word];
            while bits != 0 {
                each(MachineNo::new(word * 64 + bits.trailing_zeros() as usize));
                bits &= bits - 1;
            }
        }
    }

    /// The states alone, one byte each.
    pub(super) fn position(&self, words: &[u64]) -> Position {
        Position::of(self.places.iter().map(|field| field.get(words)))
    }
}

impl Field {
    fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    fn get(self, words: &[u64]) -> u8 {
        (words[self.word as usize] >> self.shift & self.mask()) as u8
    }

    fn set(self, words: &mut [u64], value: u8) {
        let word = &mut words[self.word as usize];
        *word = *word & !(self.mask() << self.shift) | u64::from(value) << self.shift;
    }
}

/// Gives fields their bits, none across two words.
#[derive(Debug, Default)]
struct Layout {
    word: u32,
    used: u8,
}

impl Layout {
    fn field(&mut self, bits: u8) -> Field {
        if u32::from(self.used) + u32::from(bits) >= u64::BITS {
            self.word += 1;
            self.used = 0;
        }
        let field = Field {
            word: self.word,
            shift: self.used,
            bits,
        };
        self.used += bits;
        field
    }
}
