//! Sources, generators and validators to one sealed incarnation.
//!
//! A [`Pipeline`] says how configuration becomes intent. [`Regeneration`] keeps intent equal to its sources: it
//! coalesces changes, reads every source whole, runs the generators whose inputs changed, validates, and seals all or
//! nothing. While anything is wrong the last good incarnation stays in force, and [`Status`] says every problem.

mod durable;
pub mod file;
pub mod format;
pub mod guard;
pub mod kernel;
mod memo;
pub mod pipeline;
pub mod seal;
pub mod shell;
mod status;
#[cfg(test)]
mod testing;
pub mod validators;

pub use durable::{Durable, Withdrawn};
pub use file::{JsonDirectory, JsonFile, TomlDirectory, TomlFile, YamlDirectory, YamlFile};
pub use guard::SealOverride;
pub use pipeline::Pipeline;
pub use seal::{Seal, Seals};
pub use shell::{Handle, Regeneration};
pub use status::Status;

/// Time and tasks, handed in.
pub use plane_runtime as runtime;
/// The store that sealed incarnations are kept in.
pub use plane_store as store;
