//! One failure domain after the other.

mod layer;
mod service;

pub use layer::OneDomainAtATimeLayer;
pub use service::OneDomainAtATime;
