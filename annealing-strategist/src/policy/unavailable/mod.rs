//! A limit for the number of unavailable targets per failure domain.

mod layer;
mod service;

pub use layer::MaxUnavailableLayer;
pub use service::MaxUnavailable;
