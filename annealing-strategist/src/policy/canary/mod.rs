//! The canary: a few targets before the others.

mod layer;
mod service;

pub use layer::CanaryLayer;
pub use service::Canary;
