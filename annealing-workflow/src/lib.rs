#![doc = include_str!("../README.md")]

pub mod bridge;
mod bug;
mod config;
pub mod cron;
pub mod definition;
pub mod kernel;
pub mod operation;
pub mod outlook;
pub mod query;
pub mod record;
pub mod shell;
pub mod view;
pub mod watch;

pub use config::Config;
pub use kernel::{Refused, Say, ScheduleWord, Settled, WorkflowWord};
pub use shell::{
    AskError, Attached, BuildError, End, Executions, Handle, Heard, Inbox, Listener, Started,
    Workflows, WorkflowsBuilder,
};
