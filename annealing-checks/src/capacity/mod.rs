//! Capacity (R109): no push takes the serving capacity of a scope below its recent peak usage, times a headroom.
//!
//! - A push that shrinks claims to keep the floor. The enforcer's kernel counts: each asset of the scope with its last observed
//!   capacity or, while a push of it is under way, with the smaller end. A push that grows claims nothing.
//! - It applies to every cause but an emergency: also on the way back, and when drift is repaired.
//! - The peak is the largest closed step of 5 min of an expression, a week back unless another time is given, or it is modelled by a
//!   field of the assets. Without data for a day, or without any for 15 min, pushes that shrink wait, and no others.
//! - A push waits until another asset has grown, or the floor has fallen.

mod check;
mod history;
mod layer;
mod rule;

pub use check::Capacity;
pub use layer::CapacityLayer;
pub use rule::{Excluded, Rule};

#[cfg(test)]
mod tests;
