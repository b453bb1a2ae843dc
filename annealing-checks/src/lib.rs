//! Checks that delay unsafe pushes. They depend on the SDK only and work in any tower stack.
//!
//! Each check is a plain type that implements [`CheckPlugin`](plugin_sdk::CheckPlugin), with a layer around it.
//! [`calendar::WindowLayer`] uses a calendar to hold back targets of rollouts instead of pushes.
//!
//! | layer | delays a push | for the causes |
//! |---|---|---|
//! | [`DependencySolverLayer`] | until production's dependencies allow it | all |
//! | [`CalendarLayer`] | outside weekly windows, on holidays and in freezes | intent, by default |
//! | [`MonitoringLayer`] | while an alert fires or the alerts cannot be read | intent, by default |
//! | [`SerializeLayer`] | while another push with the same key runs | all |
//! | [`RateLayer`] | that exceeds its quota | all |
//!
//! ```
//! use annealing_checks::{CalendarLayer, DependencySolverLayer, Scope, SerializeLayer};
//! use plugin_sdk::service::Proceed;
//!
//! let checks = tower::ServiceBuilder::new()
//!     .layer(DependencySolverLayer::standard())
//!     .layer(CalendarLayer::weekdays("America/New_York")?)
//!     .layer(SerializeLayer::new("one-per-cluster", Scope::per_cluster()))
//!     .service(Proceed);
//! # Ok::<(), annealing_checks::calendar::Error>(())
//! ```

pub mod calendar;
pub mod monitoring;
pub mod rate;
mod scope;
pub mod serialize;
pub mod solver;

pub use calendar::CalendarLayer;
pub use monitoring::MonitoringLayer;
pub use rate::RateLayer;
pub use scope::{Scope, Types};
pub use serialize::SerializeLayer;
pub use solver::DependencySolverLayer;
