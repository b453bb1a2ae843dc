//! A small service with a control plane inside: a YAML file describes web sites, the service keeps their pages on disk.
//!
//! The service uses the engines directly, without the `control-plane` crate:
//!
//! - `service`: puts the parts together. Start reading here.
//! - `model`: the intent: payload, generator and validator.
//! - `sites`: production: the asset plugin, which compares and writes files.
//! - `check`: the team's own check.

pub mod check;
pub mod model;
pub mod service;
pub mod sites;
