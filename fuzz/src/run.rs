//! Runs one target with inputs of its corpus, mutated, until a law is broken or the run is over.

use crate::{
    corpus::Corpus,
    judge::{Bounds, Judge},
    mutate::mutate,
    random::Random,
    target::{Broken, Effort, Target},
};

/// What a run without a finding did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Number of inputs.
    pub(crate) inputs: u64,
    /// Number of classes of outcomes.
    pub(crate) classes: usize,
}

/// An input that broke a law.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The input, minimised.
    pub(crate) input: Vec<u8>,
    /// The law, and how the minimised input breaks it.
    pub(crate) broken: Broken,
    /// The number of inputs before it.
    pub(crate) after: u64,
}

/// Runs the seeds and then mutated inputs. `goes_on` is asked before each input, which it gets.
///
/// # Errors
/// The first input that broke a law.
pub(crate) fn run(
    target: &dyn Target,
    seed: u64,
    bounds: Bounds,
    mut goes_on: impl FnMut(u64, &[u8]) -> bool,
) -> Result<Figures, Finding> {
    let mut judge = Judge::new(target, bounds);
    let mut corpus = Corpus::new(&target.seeds());
    let mut random = Random::new(seed);
    let mut inputs = 0;
    loop {
        let input = next(target, &corpus, inputs, &mut random);
        if !goes_on(inputs, &input) {
            let classes = corpus.classes();
            return Ok(Figures { inputs, classes });
        }
        match judge.run(&input, Effort::Quick) {
            Ok(class) => corpus.note(&input, class),
            Err(broken) => {
                let (input, broken) = judge.minimise(&input, broken);
                return Err(Finding {
                    input,
                    broken,
                    after: inputs,
                });
            }
        }
        inputs += 1;
    }
}

/// The seeds first, as they are.
fn next(target: &dyn Target, corpus: &Corpus, nth: u64, random: &mut Random) -> Vec<u8> {
    if let Some(seed) = usize::try_from(nth)
        .ok()
        .filter(|nth| *nth < corpus.seeds())
    {
        return corpus.get(seed).unwrap_or_default().to_vec();
    }
    let mut input = corpus.draw(random).to_vec();
    mutate(&mut input, corpus.draw(random), target.words(), random);
    if random.below(8) > 0 {
        target.mend(&mut input);
    }
    input
}
