#![doc = include_str!("../README.md")]
//!
//! - [`production`]: cells, tasks, balancers and the database. It uses no other module of this crate.
//! - [`metrics`]: scrapes the counters of production's processes.
//! - [`processes`]: the process table of this machine.
//! - [`place`]: the layout of a state directory. [`socket`]: a socket for processes of the same user only.
//! - [`voice`]: all output to the terminal.

pub mod metrics;
pub mod place;
#[cfg(feature = "planted-faults")]
mod planted;
pub mod processes;
pub mod production;
pub mod socket;
pub mod voice;
