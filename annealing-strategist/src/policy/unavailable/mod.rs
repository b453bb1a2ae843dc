//! No failure domain misses more than it can.

mod layer;
mod service;

pub use layer::MaxUnavailableLayer;
pub use service::MaxUnavailable;
