//! The commands of the program, one module per command.

pub mod ask;
pub mod check;
pub mod down;
mod interventions;
pub mod load;
pub mod plan;
pub mod rollout;
pub mod run;
pub mod running;
pub mod tell;
