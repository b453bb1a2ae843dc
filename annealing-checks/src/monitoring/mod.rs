//! Monitoring: pushes wait while production's alerts fire or cannot be read.
//!
//! - An alert that fires in an asset's scope delays its pushes. By default only pushes with the cause intent: drift
//!   repairs, rollbacks and emergencies may be what ends the alert.
//! - An inhibited alert delays, since a worse one fires. A silenced one does not; it is shown beside those that do.
//! - Signals that cannot be read, or are too old, delay as well. So does a silent watchdog, an alert that always fires:
//!   it distinguishes silence from broken alerting.
//! - One call of the source serves all assets: checks that run during the call wait for its answer, and the answer is
//!   used for a short time after.

mod check;
mod layer;

pub use check::Monitoring;
pub use layer::MonitoringLayer;

#[cfg(test)]
mod tests;
