//! A limit for the number of targets in flight.

mod layer;
mod service;

pub use layer::MaxInFlightLayer;
pub use service::MaxInFlight;
