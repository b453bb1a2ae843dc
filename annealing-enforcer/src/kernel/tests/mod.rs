//! The kernel's rules, each with a test that carries its number; the kernel is driven by hand.

mod admission;
mod chaos;
mod churn;
mod corners;
mod explain;
mod invariants;
mod loops;
mod modelled;
mod pins;
#[cfg(feature = "planted-bugs")]
mod planted;
mod pushes;
mod rig;
mod takeover;
mod throttled;
