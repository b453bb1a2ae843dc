//! Health from production's own signals: validators that come with the framework. Teams write theirs as any other
//! [`HealthValidator`](plugin_sdk::HealthValidator).

pub mod absolute;
#[cfg(feature = "statistics")]
pub mod statistics;
