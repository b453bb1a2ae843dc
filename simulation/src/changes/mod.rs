//! Simulates changes of fields of a source, and trains of versions, through the whole control plane in virtual time.
//!
//! Generation, edits, enforcement, rollouts, trains, the store and its ownership are the real ones. The source is a YAML text
//! in memory; production is a map. A judge reads every edit of the text, production, and the records of the rollouts.
//!
//! ```
//! let report = simulation::changes::run(3);
//! assert_eq!(report.violation, None);
//! assert_eq!(report.trace, simulation::changes::run(3).trace);
//! ```
//!
//! - `manifest`: the content of the text, and the generator. `page`: the text. `source`: the text as an editable source.
//! - `production`: the content of services. `plugin`: the plugin, a check, and the health. `process`: a control plane on a node.
//! - `people`: the events of a run: changes, commands, edits by hand, services that come and go, and versions of a train.
//! - `world`: the state of a run. Its judge checks each edit, and the end.

mod manifest;
mod page;
mod people;
mod plugin;
mod process;
mod production;
mod source;
mod world;

use std::{collections::BTreeMap, panic::resume_unwind, time::Duration};

use world::World;

use crate::executor::Instant;

/// Duration of the phase with faults.
const TROUBLE: Duration = Duration::from_secs(2400);

/// Maximum duration of the phase without faults, in which all changes come to their end.
const REST: Duration = Duration::from_secs(4 * 3600);

/// The result of one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The rule that was broken, and how. `None`: all rules held.
    pub violation: Option<(String, String)>,
    /// A digest of all steps: equal runs have equal ones.
    pub trace: u64,
    /// Number of steps.
    pub steps: u64,
    /// How often each thing happened.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Runs `count` seeds from `first` on, two at a time. The reports are sorted by seed.
pub fn run_all(first: u64, count: u64) -> Vec<Report> {
    let half = |nth: u64| move || (first + nth..first + count).step_by(2).map(run).collect();
    let mut reports: Vec<Report> = std::thread::scope(|scope| {
        let halves = [0, 1].map(|nth| scope.spawn(half(nth)));
        let joined = halves.into_iter().map(|half| half.join());
        let halves = joined.map(|half| half.unwrap_or_else(|panic| resume_unwind(panic)));
        halves.flat_map(|half: Vec<Report>| half).collect()
    });
    reports.sort_by_key(|report| report.seed);
    reports
}

/// Runs one seed: a phase with faults, then a phase without, in which people end the changes that wait for them.
pub fn run(seed: u64) -> Report {
    let world = World::new(seed);
    process::begin(&world);
    world.spawn(people::act(world.clone()));
    world.executor.run_until(Instant::default() + TROUBLE);
    process::heal(&world);
    world.spawn(people::end(world.clone()));
    world
        .executor
        .run_until(Instant::default() + TROUBLE + REST);
    world.state().judge_no_end();
    world.report(seed)
}
