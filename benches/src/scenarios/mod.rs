//! The scenarios, one file each. A new scenario needs a file and a line in [`SCENARIOS`].

mod claims;
mod cron;
mod end_to_end;
mod enforce_burst;
mod event_latency;
mod explore;
mod first_diff;
mod generate;
mod idle;
mod lane_takeover;
mod operation;
mod preview;
mod queue;
mod regenerate;
mod rollout;
mod select;
mod snapshot;
mod solver;
mod step_latency;
mod store;
mod store_postgres;
mod waiting;
mod watch;
mod workflow;

use clap::builder::PossibleValuesParser;

use crate::{Error, measure::Sample};

/// Name of our side of a scenario.
pub(crate) const OURS: &str = "ours";

/// Name on the command line that stands for every scenario.
pub(crate) const ALL: &str = "all";

static SCENARIOS: [&Scenario; 25] = [
    &enforce_burst::SCENARIO,
    &idle::SCENARIO,
    &event_latency::SCENARIO,
    &first_diff::SCENARIO,
    &snapshot::SCENARIO,
    &select::SCENARIO,
    &preview::SCENARIO,
    &rollout::SCENARIO,
    &solver::SCENARIO,
    &generate::SCENARIO,
    &regenerate::SCENARIO,
    &store::SCENARIO,
    &store_postgres::SCENARIO,
    &end_to_end::SCENARIO,
    &workflow::SCENARIO,
    &explore::SCENARIO,
    &waiting::SCENARIO,
    &step_latency::SCENARIO,
    &lane_takeover::SCENARIO,
    &watch::SCENARIO,
    &cron::SCENARIO,
    &claims::SCENARIO,
    &operation::SCENARIO,
    &queue::SCENARIO,
    &queue::ON_POSTGRES,
];

/// One side of a scenario: ours or a peer. It takes the number of assets and returns a sample per phase; none if the peer
/// is not installed.
pub(crate) type Side = fn(usize) -> Result<Vec<Sample>, Error>;

/// A piece of work that each side does, to compare the costs.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// Name of the scenario on the command line.
    pub(crate) name: &'static str,
    /// Description in one line, for the table.
    pub(crate) about: &'static str,
    /// What the figures should be at most, in words.
    pub(crate) target: &'static str,
    /// Default numbers of assets, if the command line names none.
    pub(crate) sizes: Sizes,
    /// The sides by name. Our side is named [`OURS`].
    pub(crate) sides: &'static [(&'static str, Side)],
}

/// Default numbers of assets of a scenario.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Number of assets when the scenario runs by name.
    pub(crate) named: usize,
    /// Number of assets when the scenario runs as a part of `all`.
    pub(crate) all: usize,
    /// Number of assets for `--smoke`, which only shows that the scenario runs.
    pub(crate) smoke: usize,
}

impl Sizes {
    /// The sizes to run: those `asked` for on the command line, else the default for a smoke run, for `all` or by name.
    pub(crate) fn chosen(self, asked: &[usize], everything: bool, smoke: bool) -> Vec<usize> {
        match (asked, everything, smoke) {
            ([_, ..], ..) => asked.to_vec(),
            (_, _, true) => vec![self.smoke],
            (_, true, _) => vec![self.all],
            _ => vec![self.named],
        }
    }
}

/// Parser for the scenario's name: it accepts every scenario and [`ALL`].
pub(crate) fn names() -> PossibleValuesParser {
    let names = SCENARIOS.iter().map(|scenario| scenario.name);
    names.chain([ALL]).collect::<Vec<_>>().into()
}

/// The name of a scenario's variant with a PostgreSQL server.
///
/// # Errors
/// If there is no such variant.
pub(crate) fn on_postgres(name: &str) -> Result<&'static str, Error> {
    let name = format!("{name}-postgres");
    let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
    let found = found.ok_or("`--backend postgres` is for `store` and `queue`")?;
    Ok(found.name)
}

/// The scenario named `name`; all scenarios for [`ALL`].
pub(crate) fn named(name: &str) -> impl Iterator<Item = &'static Scenario> {
    let wanted = move |scenario: &&Scenario| name == ALL || scenario.name == name;
    SCENARIOS.into_iter().filter(wanted)
}
