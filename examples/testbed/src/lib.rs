#![doc = include_str!("../README.md")]
//!
//! - [`production`]: cells, tasks, balancers and the database. It uses no other module of this crate.
//! - [`cells`]: the glue between asset plugins and cells.
//! - [`metrics`]: scrapes the counters of production's processes.
//! - [`judge`]: plays a demo and judges it from outside.
//! - [`alerts`]: firing alerts, in a file. [`processes`]: the process table. [`program`]: the running program.
//! - [`service`]: what the commands need to know of a service. [`command`]: the commands of the program.
//! - [`control`]: the socket on which the running control plane takes questions and commands.
//! - [`manifest`]: the manifest's file. [`place`]: the layout of a state directory. [`socket`]: a socket for processes of the same user only.
//! - [`voice`]: all output to the terminal.
//! - `testing`, with the feature of this name: the program's commands as tests use them.

pub mod alerts;
pub mod cells;
pub mod command;
pub mod control;
pub mod judge;
pub mod manifest;
pub mod metrics;
pub mod place;
#[cfg(feature = "planted-faults")]
mod planted;
pub mod processes;
pub mod production;
pub mod program;
pub mod service;
pub mod socket;
#[cfg(feature = "testing")]
pub mod testing;
pub mod voice;
