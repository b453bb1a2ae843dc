//! Progressive rollouts: select, update, validate; and back again when what was updated is not well.
//!
//! Most teams use it through the crate `control-plane`. Decisions are made in [`kernel`], which is pure, one per policy
//! group; [`shell`] feeds events in and performs effects; enforcement is on the other side of a port, the [`Actuator`].
//! What may move when is a tower stack of [policy layers](policy), what is well another one of [validators](health).

pub mod actuator;
pub mod config;
mod group;
pub mod health;
pub mod kernel;
pub mod policy;
pub mod preview;
pub mod record;
pub mod shell;

pub use actuator::{Actuation, Actuator, Feed, PinTo};
pub use config::Config;
pub use kernel::{Command, Counts, Refused, Rested, View};
pub use record::{By, Entry, Rollout, State};
pub use shell::{AskError, Attached, Handle, Obstacles, Strategist, StrategistBuilder};
