//! What a target is: seeds, and a run of one input that obeys its laws or names the law that is broken.

use crate::random::hash;

/// The outcome of a run, coarse enough that most inputs have one that was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class(u64);

impl Class {
    /// The class of a refusal: its message without numbers and quoted parts.
    pub(crate) fn refused(message: &str) -> Self {
        let quoted = message.split('`').step_by(2);
        let plain = quoted
            .flat_map(str::bytes)
            .filter(|byte| !byte.is_ascii_digit());
        Self(hash(&plain.collect::<Vec<_>>()))
    }

    /// The class of an input that was accepted, by numbers that describe what came of it.
    pub(crate) fn accepted(shape: &[usize]) -> Self {
        let coarse = shape
            .iter()
            .map(|number| number.checked_ilog2().map_or(0, |log| log as u8 + 1));
        Self(!hash(&coarse.collect::<Vec<_>>()))
    }

    /// Both classes as one.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(hash(
            &[self.0.to_le_bytes(), other.0.to_le_bytes()].concat(),
        ))
    }
}

/// A law that an input broke, with the details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The law, as a sentence. A smaller input must break the same one.
    pub(crate) law: &'static str,
    /// What was expected and found.
    pub(crate) details: String,
}

/// How thoroughly one input is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// A few draws that depend on the input, for many inputs a second.
    Quick,
    /// Many draws, so that a smaller input fails too.
    Thorough,
}

/// A parser, editor or decoder with its laws.
pub(crate) trait Target {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// Inputs that look like real ones.
    fn seeds(&self) -> Vec<Vec<u8>>;

    /// Words that mutations put in.
    fn words(&self) -> &'static [&'static str] {
        &[]
    }

    /// Repairs what would hide all other faults of a mutated input, such as a checksum.
    fn mend(&self, _: &mut Vec<u8>) {}

    /// Runs one input. Panics count as broken laws.
    ///
    /// # Errors
    /// The law that the input broke.
    fn run(&self, input: &[u8], effort: Effort) -> Result<Class, Broken>;
}

/// Checks a law. The details are made only if it is broken.
///
/// # Errors
/// When it does not hold.
pub(crate) fn law(
    holds: bool,
    law: &'static str,
    details: impl FnOnce() -> String,
) -> Result<(), Broken> {
    match holds {
        true => Ok(()),
        false => Err(Broken {
            law,
            details: details(),
        }),
    }
}
