//! The operators of a run, who give commands to enforcers and rollouts: random ones during the phase with faults, and
//! helpful ones.

mod enforcement;
pub mod words;

pub use enforcement::{care, meddle};
