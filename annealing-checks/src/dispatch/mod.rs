//! Rules about the work of workflows: mutual exclusion, fair shares, rate limits, classes, limits that are an asset, and
//! workflows that are drained.

mod class;
mod drain;
mod layer;
mod shape;
#[cfg(test)]
mod tests;
mod work;

pub use class::{ClassLayer, Classes};
pub use drain::{DrainLayer, Drained};
pub use layer::{ClaimLayer, Claims};
pub use shape::{Shape, ShapeLayer};
pub use work::Work;
