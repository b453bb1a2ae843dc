//! The article's Shakespeare service: a manifest, a control plane that keeps production equal to it, and production,
//! which is real processes. A library beside its program, so that tests and the demo can reach the pieces.
//!
//! - [`model`]: the manifest, the assets it stands for, and the generator between them.
//! - [`plugins`]: how each type of asset is compared with production and changed.
//! - [`metrics`]: what production counts about itself, scraped.
//! - [`plane`]: the control plane, put together: from `alerts`, what fires, and `health`, whether an update is well.
//! - [`control`]: asking and telling the running control plane.
//! - [`command`]: what the program can be asked to do. [`demo`]: a scripted session, judged from outside.
//! - [`voice`]: what it says to people, as text.
//! - [`production`]: cells, frontends, balancers. It knows nothing of the others.

mod alerts;
pub mod command;
pub mod control;
pub mod demo;
mod health;
pub mod metrics;
pub mod model;
pub mod place;
pub mod plane;
#[cfg(feature = "planted-faults")]
mod planted;
pub mod plugins;
pub mod production;
pub mod voice;
