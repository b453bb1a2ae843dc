//! The inputs that mutations start from: the seeds, and each input that had an outcome of a new class.

use std::collections::BTreeSet;

use crate::{random::Random, target::Class};

/// Most inputs besides the seeds.
const MOST: usize = 4_000;

/// The inputs, and the classes of outcomes that were seen.
#[derive(Debug)]
pub(crate) struct Corpus {
    inputs: Vec<Vec<u8>>,
    seeds: usize,
    seen: BTreeSet<Class>,
}

impl Corpus {
    /// A corpus of seeds. An empty input is always one of them.
    pub(crate) fn new(seeds: &[Vec<u8>]) -> Self {
        let mut inputs = vec![Vec::new()];
        inputs.extend_from_slice(seeds);
        Self {
            seeds: inputs.len(),
            inputs,
            seen: BTreeSet::new(),
        }
    }

    /// The number of seeds.
    pub(crate) fn seeds(&self) -> usize {
        self.seeds
    }

    /// The number of classes that were seen.
    pub(crate) fn classes(&self) -> usize {
        self.seen.len()
    }

    /// The input at this place, in the order in which they came.
    pub(crate) fn get(&self, nth: usize) -> Option<&[u8]> {
        self.inputs.get(nth).map(Vec::as_slice)
    }

    /// Draws an input: in half of the cases a seed or one of the newest.
    pub(crate) fn draw(&self, random: &mut Random) -> &[u8] {
        let all = self.inputs.len();
        let nth = match random.below(4) {
            0 => random.below(self.seeds),
            1 => all - 1 - random.below(all.min(16)),
            _ => random.below(all),
        };
        &self.inputs[nth]
    }

    /// Notes the class of an input. An input of a new class is kept, if there is room.
    pub(crate) fn note(&mut self, input: &[u8], class: Class) {
        if self.seen.insert(class)
            && self.inputs.len() < self.seeds + MOST
            && !self.inputs.iter().any(|it| it == input)
        {
            self.inputs.push(input.to_vec());
        }
    }
}
