#![doc = include_str!("../README.md")]

mod bug;
pub mod config;
pub mod kernel;
pub mod registry;
pub mod shell;

pub use config::{Config, TypeConfig};
pub use kernel::{
    ApprovalSet, AssetStatus, Command, Explanation, Interventions, Named, Outcome, Prospect, Status,
};
pub use plugin_sdk::standing::Reason;
pub use registry::Registry;
pub use shell::{
    AskError, BuildError, DeadEnd, Enforcer, EnforcerBuilder, Error, Explained, Handle, IntoPlugin,
    Plan, Planner, Plugin, ProcessLease, Settle,
};

/// The store from which an enforcer reads intent and in which it keeps its records.
pub use control_plane_store as store;
