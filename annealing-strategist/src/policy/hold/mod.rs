//! The hold: no more targets until an operator removes it.

mod layer;
mod service;

pub use layer::HoldLayer;
pub use service::Hold;
