//! Only so many targets on their way at once.

mod layer;
mod service;

pub use layer::MaxInFlightLayer;
pub use service::MaxInFlight;
