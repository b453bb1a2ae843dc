//! The last bake: at the end of a rollout, all targets have to stay settled and healthy for a time.

mod layer;
mod service;

pub use layer::BakeLayer;
pub use service::Bake;
