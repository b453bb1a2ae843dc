//! The commands of a program with a control plane, one module per command. They are the same for every service.

mod ask;
mod change;
mod check;
mod cli;
mod down;
mod entries;
mod followed;
mod interventions;
mod load;
mod plan;
mod rollout;
mod run;
mod running;
mod start;
mod tell;
mod train;
mod triggers;
mod workflow;

pub use cli::Command;
pub use start::start;
