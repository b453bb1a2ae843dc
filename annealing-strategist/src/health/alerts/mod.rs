//! Health by the alerts of production: no alert that began during the rollout fires where its moves can hurt.
//!
//! ```
//! use annealing_strategist::health::alerts::Alerts;
//! # use plugin_sdk::SignalSource;
//!
//! # fn validator(alertmanager: impl SignalSource) -> Alerts {
//! Alerts::new(alertmanager)
//!     // An alert with `cluster="eu"` is about the failure domain `eu`; one without a cluster is about all.
//!     .per_domain("cluster")
//!     .watchdog("Watchdog")
//! # }
//! ```
//!
//! The rules:
//! - An alert counts if it is about a failure domain of an asset with signals that the rollout has moved, or of a neighbour: an asset
//!   of the same group, or one that an edge ties to a moved asset. So a change of a schema is judged by the alerts of
//!   the jobs that use it.
//! - *Unhealthy*: such an alert fires, and began after the rollout had moved its first asset. An inhibited alert counts.
//! - *Unknown*: the alerts cannot be read, or are older than 30 s, or the watchdog does not fire; or it is not known when
//!   an alert began, or that was less than 30 s before the rollout, since the clocks of two machines may differ.
//! - *Healthy*: everything else. An alert that is silenced, or began before the rollout, is shown and condemns nothing.
//!
//! The start of an alert is that of the source: with Alertmanager, when it began to fire; with Prometheus, when its condition
//! began to hold, which the `for` of its rule makes earlier. An alert that begins in a domain after the rollout began, and
//! before the rollout enters that domain, condemns it: let a check hold the rollout back there.

mod validator;

pub use validator::Alerts;

#[cfg(test)]
mod tests;
