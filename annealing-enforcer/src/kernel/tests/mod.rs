//! Tests of the kernel's rules; each test carries the number of its rule. The tests drive the kernel by hand.

mod admission;
mod amounts;
mod breakers;
mod chaos;
mod chaos_takeover;
mod churn;
mod claims;
mod commands;
mod corners;
mod cures;
mod delays;
mod dice;
mod evidence;
mod explain;
mod interventions;
mod invariants;
mod leaving;
mod loops;
mod many_groups;
mod modelled;
mod moved;
mod moved_groups;
mod neighbours;
mod pins;
#[cfg(feature = "planted-bugs")]
mod planted;
mod pushes;
mod reports;
mod restarts;
pub(super) mod rig;
mod standing;
mod status;
mod survey;
mod takeover;
mod throttled;
mod waiters;
