//! The whole has to stay well for a while at its end.

mod layer;
mod service;

pub use layer::BakeLayer;
pub use service::Bake;
