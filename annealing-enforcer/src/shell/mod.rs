//! The shell around the kernel: it owns a partition, feeds events to the kernel and performs its effects. All decisions
//! are the kernel's.

mod acquire;
mod actuation;
mod ahead;
mod askers;
mod attached;
mod beside;
mod blocked;
mod build;
mod calls;
mod drain;
mod early;
mod enforcer;
mod error;
mod halt;
mod handle;
mod input;
mod intent;
pub mod into_plugin;
mod journal;
mod lease;
mod owned_sender;
mod ownership;
mod phase;
mod plan;
mod process_lease;
mod pulse;
mod rehearsal;
mod retired;
mod settling;
mod task_failures;
mod telemetry;
#[cfg(test)]
mod tests;
mod view;

pub use build::{BuildError, EnforcerBuilder, Plugin};
pub use enforcer::Enforcer;
pub use error::{AskError, Error};
pub use handle::{DeadEnd, Explained, Handle};
pub use input::Settle;
pub use into_plugin::IntoPlugin;
pub use plan::{Plan, Planner};
pub use process_lease::{ProcessLease, TERM};
