//! The article's Shakespeare service: a manifest, production made of real processes, and a control plane that keeps
//! production equal to the manifest. It is a library beside its program, so that tests and the demo can use the parts.
//! The processes of production, their load and their metrics come from the crate `testbed`.
//!
//! - [`plane`]: assembles the control plane, with the health rule of `health`.
//! - [`model`]: the manifest, its assets, and the generator that makes the assets.
//! - [`plugins`]: for each asset type, how an asset is compared with production and pushed.
//! - [`control`]: the socket on which the running control plane takes questions and commands.
//! - [`command`]: the commands of the program. [`demo`]: a scripted session, judged from outside.

pub mod command;
pub mod control;
pub mod demo;
mod health;
pub mod model;
pub mod plane;
#[cfg(feature = "planted-faults")]
mod planted;
pub mod plugins;
