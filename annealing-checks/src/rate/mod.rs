//! Rate limit: a maximum number of pushes per time, for all causes together.

mod check;
mod layer;

pub use check::Rate;
pub use layer::RateLayer;
