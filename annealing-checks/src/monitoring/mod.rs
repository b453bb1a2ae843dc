//! Monitoring: pushes wait while production's alerts fire or cannot be read.
//!
//! - An alert that fires in an asset's scope delays its pushes. By default only pushes with the cause intent: drift
//!   repairs, rollbacks and emergencies may be what ends the alert.
//! - Signals that cannot be read, or are too old, delay as well. So does a silent watchdog, an alert that always fires:
//!   it distinguishes silence from broken alerting.
//! - One call of the source serves all assets: checks that run during the call wait for its answer, and the answer is
//!   used for a short time after.

mod cache;
mod check;
mod layer;
mod signal;

pub use check::Monitoring;
pub use layer::MonitoringLayer;
pub use signal::{Alert, SignalSource, Signals};

#[cfg(test)]
mod tests;
