#![doc = include_str!("../README.md")]
//!
//! All decisions are made in [`kernel`], which is pure; there is one kernel per policy group. The [`shell`] feeds it
//! events and performs its effects. Enforcement is behind a port, the [`Actuator`](plugin_sdk::Actuator). Two tower
//! stacks can be configured: [policy layers](policy) and [validators](health).

mod bug;
pub mod change;
pub mod config;
mod group;
pub mod health;
pub mod kernel;
mod line;
pub mod policy;
pub mod preview;
pub mod record;
pub mod shell;
pub mod train;

pub use config::Config;
pub use kernel::{Command, Counts, GroupOutcome, Refused, View};
pub use line::StoppedLine;
pub use record::{By, Entry, Rollout, State};
pub use shell::{AskError, Attached, Handle, LetIn, Rehearsal, Strategist, StrategistBuilder};
