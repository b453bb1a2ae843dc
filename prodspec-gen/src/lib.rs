//! Turns the documents of sources into sealed incarnations, with generators and validators.
//!
//! A [`Pipeline`] defines how configuration becomes intent. [`Regeneration`] keeps intent equal to its sources: it
//! coalesces changes, reads every source completely, runs the generators whose inputs changed, validates, and seals
//! everything or nothing. While there is an error, the last good incarnation stays in force, and [`Status`] lists every
//! problem.

pub mod file;
pub mod format;
pub mod guard;
pub mod kernel;
mod memo;
pub mod pipeline;
pub mod seal;
pub mod shell;
mod status;
mod store_sealer;
#[cfg(test)]
mod testing;
pub mod validators;

pub use file::{JsonDirectory, JsonFile, TomlDirectory, TomlFile, YamlDirectory, YamlFile};
pub use guard::SealOverride;
pub use pipeline::Pipeline;
pub use seal::{Seal, Sealer};
pub use shell::{Handle, Regeneration};
pub use status::Status;
pub use store_sealer::{StoreSealer, Withdrawn};

/// The runtime crate: the clock and the tasks that callers pass in.
pub use control_plane_runtime as runtime;
/// The store crate, in which sealed incarnations are kept.
pub use control_plane_store as store;
