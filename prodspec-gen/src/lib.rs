#![doc = include_str!("../README.md")]

mod abandoned;
mod blobs;
mod dry_run;
#[cfg(feature = "files")]
pub mod edit;
#[cfg(all(feature = "files", unix))]
pub mod exec;
mod externals;
#[cfg(feature = "files")]
pub mod file;
#[cfg(feature = "files")]
pub mod format;
pub mod generators;
pub mod guard;
#[cfg(feature = "files")]
mod history;
#[cfg(feature = "files")]
mod kept;
pub mod kernel;
mod memo;
pub mod overrides;
pub mod pipeline;
mod remarks;
#[cfg(feature = "files")]
mod render;
mod schemas;
pub mod seal;
pub mod shell;
mod status;
mod store_sealer;
#[cfg(feature = "files")]
mod table;
#[cfg(test)]
mod testing;
mod trace;
#[cfg(feature = "files")]
pub mod tree;
pub mod validators;

pub use blobs::BlobDirectory;
#[cfg(all(feature = "files", unix))]
pub use exec::Exec;
#[cfg(feature = "files")]
pub use file::{JsonDirectory, JsonFile, TomlDirectory, TomlFile, YamlDirectory, YamlFile};
pub use overrides::{Refusal, SealOverride};
pub use pipeline::Pipeline;
pub use remarks::Remarks;
#[cfg(feature = "files")]
pub use render::Rendered;
pub use seal::{Seal, Sealer};
pub use shell::{Handle, Regeneration, Trial, TrialError};
pub use status::Status;
pub use store_sealer::{NotInForce, StoreSealer};
#[cfg(feature = "files")]
pub use table::Table;
pub use trace::{EntryField, Place, Trace};

/// The runtime crate: the clock and the tasks that callers pass in.
pub use control_plane_runtime as runtime;
/// The store crate, in which sealed incarnations are kept.
pub use control_plane_store as store;
