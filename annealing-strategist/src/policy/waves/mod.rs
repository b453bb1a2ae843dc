//! Waves: more and more targets, step by step.

mod layer;
mod service;

pub use layer::WavesLayer;
pub use service::Waves;
