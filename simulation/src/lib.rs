//! Enforcement and rollouts on one seed in virtual time: the enforcer's and the strategist's shells and kernels, the checks,
//! the store and its ownership are the real ones; sealing, time, chance, faults and production are simulated.
//!
//! A seed chooses a topology, a load and faults. Production judges with its own eyes, at every instant, that the
//! invariants hold; then faults end, and production has to come to match intent.
//!
//! ```
//! let report = simulation::run(7, &simulation::Scenario::choose(7));
//! assert_eq!(report.violation, None);
//! assert_eq!(report.trace, simulation::run(7, &simulation::Scenario::choose(7)).trace);
//! ```
//!
//! - `executor`: tasks, nodes, clocks. `random`: chance. `trace`: what happened.
//! - `intent`: what people want. `production`: what there is. `plugin`: the way between them. `checks`: who says no.
//! - `rollouts`: the strategist beside each ownership. `policies`: what it asks whose turn it is. `health`: how production says that it is well.
//! - `process`, `store`: the real thing, started and killed. `faults`: who does that.
//! - `crashes`: a case so small that a crash is tried at every two points of it.
//! - `judge`, `lease`: what must never happen. `scenario`, `run`, `report`: one seed, many seeds.

pub mod checks;
pub mod crashes;
pub mod executor;
pub mod faults;
pub mod health;
pub mod intent;
pub mod judge;
pub mod lease;
pub mod plugin;
pub mod policies;
pub mod process;
pub mod production;
pub mod random;
pub mod report;
pub mod rollouts;
pub mod run;
pub mod scenario;
pub mod store;
pub mod trace;
pub mod world;

pub use report::{Report, Sum};
pub use run::{run, run_all};
pub use scenario::Scenario;
