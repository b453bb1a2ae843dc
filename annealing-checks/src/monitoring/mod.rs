//! Monitoring: nothing new starts while production says that it is not well, or says nothing.
//!
//! - An alert that fires in an asset's scope delays its pushes. By default only those of cause intent: drift, rollbacks
//!   and emergencies are the cure.
//! - Signals that cannot be read, or are too old, delay as well. So does a watchdog that is silent: an alert that always
//!   fires tells a quiet night from a broken alarm.
//! - One question serves all assets: whoever asks while another waits for the answer gets the same one, and it is good
//!   for a short time.

mod cache;
mod check;
mod layer;
mod signal;

pub use check::Monitoring;
pub use layer::MonitoringLayer;
pub use signal::{Alert, SignalSource, Signals};

#[cfg(test)]
mod tests;
