//! Rate limit: at most so many pushes per time, whoever asks for them.

mod check;
mod layer;

pub use check::Rate;
pub use layer::RateLayer;
