//! R105: health by comparison. Units that a rollout has moved are ranked, window by window, among units that it has not moved.
//!
//! A *unit* is one asset. The mathematics is in [`statistics`](super::statistics), the judgement in `judge`, which is pure: it
//! follows from the rows alone. A row has the values of one window, which never change again.

mod history;
mod judge;
mod row;
mod rule;
mod validator;

pub(in crate::health) use rule::Rule;
pub(in crate::health) use validator::{Compared, Memory};

#[cfg(test)]
mod tests;
