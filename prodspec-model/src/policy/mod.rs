//! Policies that are intent: payloads of modelled-only assets, read by checks and by health at each look.

mod counter;
mod field;
mod health;
mod span;
mod threshold;

pub use counter::Counter;
pub use field::AssetField;
pub use health::{Alerts, Count, Direction, HealthPolicy, HealthRule, Worse};
pub use threshold::{Threshold, Unit};
