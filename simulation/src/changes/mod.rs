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
//! - `year`: a year of versions with few faults.
//! - `world`: the state of a run. Its judge checks each edit, and the end.

mod manifest;
mod page;
mod people;
mod plugin;
mod process;
mod production;
mod source;
mod world;
mod year;

use std::{collections::BTreeMap, panic::resume_unwind, time::Duration};

use world::World;
pub use year::{Year, year};

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

/// Runs `count` seeds from `first` on. The reports are sorted by seed.
pub fn run_all(first: u64, count: u64) -> Vec<Report> {
    two_at_a_time(first, count, run)
}

/// Runs `count` seeds from `first` on, two at a time. The results are in the order of the seeds.
pub fn two_at_a_time<T: Send>(first: u64, count: u64, run: fn(u64) -> T) -> Vec<T> {
    let half = |nth: u64| {
        let seeds = (first + nth..first + count).step_by(2);
        move || seeds.map(|seed| (seed, run(seed))).collect()
    };
    let mut results: Vec<(u64, T)> = std::thread::scope(|scope| {
        let halves = [0, 1].map(|nth| scope.spawn(half(nth)));
        let joined = halves.into_iter().map(|half| half.join());
        let halves = joined.map(|half| half.unwrap_or_else(|panic| resume_unwind(panic)));
        halves.flat_map(|half: Vec<(u64, T)>| half).collect()
    });
    results.sort_by_key(|(seed, _)| *seed);
    results.into_iter().map(|(_, result)| result).collect()
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
