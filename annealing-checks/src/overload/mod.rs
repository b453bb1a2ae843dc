//! Overload (R108): pushes of intent wait while a metric of their scope is above a bound, or is not known.
//!
//! - The metric is an expression of a [`MetricSource`](plugin_sdk::MetricSource), evaluated once per window for all assets.
//!   All see the same value: that of the newest window which has ended 15 s ago.
//! - It applies to pushes with the cause intent only. A drift repair or a rollback may end the overload.
//! - A scope without a value, with two, or with one that is no number, delays. So does a source that fails or is behind.

mod check;
mod layer;
mod rule;

pub use check::Overload;
pub use layer::OverloadLayer;
pub use rule::Rule;

#[cfg(test)]
mod tests;
