//! Health from production's own signals: validators that come with the framework. Teams write theirs as any other
//! [`HealthValidator`](plugin_sdk::HealthValidator).

pub mod absolute;
pub mod alerts;
mod bound;
#[cfg(feature = "statistics")]
mod compared;
pub mod expression;
pub mod policies;
mod scope;
#[cfg(feature = "statistics")]
pub mod statistics;

pub use bound::Bound;
pub use scope::Role;
