//! Simulates enforcement and rollouts in virtual time. The enforcer's and the strategist's shells and kernels, the
//! checks, the store and its ownership are the real ones; sealing, time, chance, faults and production are simulated.
//!
//! A seed determines a topology, a load and the faults. A judge observes production and checks at every instant that
//! the invariants hold. Then the faults end, and production has to reach its intent.
//!
//! ```
//! let report = simulation::run(7, &simulation::Scenario::choose(7));
//! assert_eq!(report.violation, None);
//! assert_eq!(report.trace, simulation::run(7, &simulation::Scenario::choose(7)).trace);
//! ```
//!
//! - `executor`: tasks, nodes and clocks. `random`: random numbers. `trace`: the events of a run.
//! - `intent`: the intent. `sealer`: the process that edits and seals it. `production`: the simulated resources.
//!   `plugin`: diffs and pushes over a faulty network. `checks`: checks that delay pushes. `gates`: when they do.
//! - `rollouts`: the strategist of each owner. `policies`: its rollout policies. `health`: its health validator.
//! - `workflows`: the workflows of each owner, their provider and their people. `flows`: what the world knows of them.
//! - `process`, `store`: the real enforcer and store. `deadlines`: the times that processes are given.
//! - `faults`: everything that goes wrong, and how often. `trouble`: what strikes at intervals. `halt`: kills, stops and
//!   pauses of processes. `people`: the commands of operators.
//! - `changes`: changes of sources and trains, through the whole control plane.
//! - `crashes`: a case that is small enough to try a crash at every pair of points.
//! - `judge`, `lease`: the invariants. `scenario`, `run`, `report`: runs of one seed or of many seeds.

// Nothing outside this workspace prints these types.
#![allow(missing_debug_implementations)]

pub mod changes;
pub mod checks;
pub mod crashes;
pub mod deadlines;
pub mod executor;
pub mod faults;
pub mod flows;
pub mod gates;
pub mod halt;
pub mod health;
pub mod intent;
pub mod lease;
pub mod people;
pub mod plugin;
pub mod policies;
pub mod process;
pub mod production;
pub mod random;
pub mod report;
pub mod rollouts;
pub mod run;
pub mod scenario;
pub mod sealer;
pub mod store;
pub mod trace;
pub mod trouble;
pub mod workflows;
pub mod world;

pub use report::{Report, Sum};
pub use run::{run, run_all};
pub use scenario::Scenario;
