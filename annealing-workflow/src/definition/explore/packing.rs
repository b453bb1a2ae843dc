//! States of the exploration packed into words: a few bits for each machine, so that sets of states are small.

use crate::definition::{plan::Plan, position::CANCELLED};

/// Where the state of each machine, and the mark of an action that goes on, is in the words of a packed state.
#[derive(Debug)]
pub(super) struct Packing {
    places: Vec<Field>,
    /// By number of the machine. In words of their own: nearly always they are zero.
    going_on: Vec<Field>,
    /// The first word of the marks.
    marks: usize,
    words: usize,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    word: u32,
    shift: u8,
    bits: u8,
}

impl Packing {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut layout = Layout::default();
        let mut places = vec![layout.field(1)];
        debug_assert_eq!(places.len(), CANCELLED + 1);
        for machine in &plan.machines {
            let last = machine.states.len().saturating_sub(1);
            places.push(layout.field((u64::BITS - (last as u64).leading_zeros()) as u8));
        }
        let marks = layout.next_word();
        let going_on = plan.machines.iter().map(|_| layout.field(1)).collect();
        Self {
            places,
            going_on,
            marks,
            words: layout.next_word(),
        }
    }

    /// The number of words of a packed state.
    pub(super) fn words(&self) -> usize {
        self.words
    }

    pub(super) fn set_place(&self, words: &mut [u64], place: usize, state: u8) {
        self.places[place].set(words, state);
    }

    pub(super) fn set_going_on(&self, words: &mut [u64], machine: usize, goes_on: bool) {
        self.going_on[machine].set(words, goes_on.into());
    }

    pub(super) fn pack(&self, places: &[u8], going_on: &[bool]) -> Vec<u64> {
        let mut words = vec![0; self.words];
        for (field, state) in self.places.iter().zip(places) {
            field.set(&mut words, *state);
        }
        for (field, mark) in self.going_on.iter().zip(going_on) {
            field.set(&mut words, (*mark).into());
        }
        words
    }

    pub(super) fn unpack(&self, words: &[u64], places: &mut [u8], going_on: &mut [bool]) {
        for (field, state) in self.places.iter().zip(places) {
            *state = field.get(words);
        }
        if words[self.marks..].iter().all(|word| *word == 0) {
            going_on.fill(false);
            return;
        }
        for (field, mark) in self.going_on.iter().zip(going_on) {
            *mark = field.get(words) == 1;
        }
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

    fn next_word(&mut self) -> usize {
        self.word += 1;
        self.used = 0;
        self.word as usize
    }
}
