//! More and more targets, wave by wave.

mod layer;
mod service;

pub use layer::WavesLayer;
pub use service::Waves;
