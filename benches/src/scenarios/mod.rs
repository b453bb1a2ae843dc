//! The scenarios, one file each. A new one is a file and a line in [`SCENARIOS`].

mod enforce_burst;
pub(crate) mod event_latency;
mod idle;
mod preview;
mod select;
mod snapshot;
mod solver;

use clap::builder::PossibleValuesParser;

use crate::{Error, measure::Sample};

/// The name that stands for every scenario.
pub(crate) const ALL: &str = "all";

static SCENARIOS: [&Scenario; 7] = [
    &enforce_burst::SCENARIO,
    &idle::SCENARIO,
    &event_latency::SCENARIO,
    &snapshot::SCENARIO,
    &select::SCENARIO,
    &preview::SCENARIO,
    &solver::SCENARIO,
];

/// One side of a scenario: ours, a peer, a naive twin or a limit. Takes the number of assets, returns the phases.
pub(crate) type Side = fn(usize) -> Result<Vec<Sample>, Error>;

/// A piece of work that several sides do.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// One line for people.
    pub(crate) about: &'static str,
    /// How many assets, unless the user says so.
    pub(crate) sizes: Sizes,
    /// Who does it. Ours is called `ours`.
    pub(crate) sides: &'static [(&'static str, Side)],
}

/// Numbers of assets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// When the scenario is run by name.
    pub(crate) named: usize,
    /// As a part of `all`.
    pub(crate) all: usize,
    /// To see that it runs.
    pub(crate) smoke: usize,
}

impl Sizes {
    /// What to run: `asked` first, then the size that fits the occasion.
    pub(crate) fn chosen(self, asked: &[usize], everything: bool, smoke: bool) -> Vec<usize> {
        match (asked, everything, smoke) {
            ([_, ..], ..) => asked.to_vec(),
            (_, _, true) => vec![self.smoke],
            (_, true, _) => vec![self.all],
            _ => vec![self.named],
        }
    }
}

/// What may be asked for.
pub(crate) fn names() -> PossibleValuesParser {
    let names = SCENARIOS.iter().map(|scenario| scenario.name);
    names.chain([ALL]).collect::<Vec<_>>().into()
}

/// The scenario called `name`, or all of them.
pub(crate) fn named(name: &str) -> impl Iterator<Item = &'static Scenario> {
    let wanted = move |scenario: &&Scenario| name == ALL || scenario.name == name;
    SCENARIOS.into_iter().filter(wanted)
}
