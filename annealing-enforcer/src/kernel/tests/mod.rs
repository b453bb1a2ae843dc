//! Tests of the kernel's rules; each test carries the number of its rule. The tests drive the kernel by hand.

mod admission;
mod amounts;
mod breakers;
mod chaos;
mod churn;
mod commands;
mod corners;
mod cures;
mod evidence;
mod explain;
mod interventions;
mod invariants;
mod leaving;
mod loops;
mod many_groups;
mod modelled;
mod neighbours;
mod pins;
#[cfg(feature = "planted-bugs")]
mod planted;
mod pushes;
mod restarts;
pub(super) mod rig;
mod status;
mod survey;
mod takeover;
mod throttled;
mod waiters;
