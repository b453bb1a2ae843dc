//! Nothing more, until a person says so.

mod layer;
mod service;

pub use layer::HoldLayer;
pub use service::Hold;
