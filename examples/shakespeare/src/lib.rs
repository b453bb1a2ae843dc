//! The article's Shakespeare service: a manifest, production made of real processes, and a control plane that keeps
//! production equal to the manifest. It is a library beside its program, so that tests and the demo can use the parts.
//! Production itself, load, metrics, the commands and the demo's judge come from the crate `testbed`.
//!
//! - [`plane`]: assembles the control plane, with the health rule of `health`. Start reading there.
//! - [`model`]: the manifest, its assets, and the generator that makes the assets.
//! - [`plugins`]: for each asset type, how an asset is compared with production and pushed.
//! - `workflows`: what happens once, in an order: a season, operations that resize clusters, an index that stays fresh.
//! - [`demo`]: a scripted session, judged from outside.

pub mod demo;
mod health;
pub mod model;
pub mod plane;
#[cfg(feature = "planted-faults")]
mod planted;
pub mod plugins;
mod workflows;

pub use plane::Shakespeare;

/// Compiles the examples of documents that need a control plane and a plugin.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../docs/health.md")]
    struct Health;
    #[doc = include_str!("../../../docs/monitoring.md")]
    struct Monitoring;
}
