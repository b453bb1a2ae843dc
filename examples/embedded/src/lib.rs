//! A small service with a control plane inside: web sites written in a YAML file, kept on disk as real files.
//!
//! It is built from the engines alone, without the `control-plane` crate:
//!
//! - `model`: what the team writes about its intent: payload, generator, validator.
//! - `sites`: production: the asset plugin, which writes files.
//! - `check`: one check of the team's own.
//! - `service`: puts it together. Start reading there.

pub mod check;
pub mod model;
pub mod service;
pub mod sites;
