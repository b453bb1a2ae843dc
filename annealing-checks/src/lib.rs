//! Checks that delay unsafe pushes. They know the SDK only, and work in any tower stack.
//!
//! [`calendar::WindowLayer`] holds back targets of rollouts likewise. Each check is a plain type that is a [`CheckPlugin`](plugin_sdk::CheckPlugin), and a layer around it:
//!
//! | layer | delays a push | for |
//! |---|---|---|
//! | [`DependencySolverLayer`] | that production's dependencies do not allow yet | every cause |
//! | [`CalendarLayer`] | outside weekly windows, on holidays, in freezes | intent, by default |
//! | [`MonitoringLayer`] | while an alert fires, or nobody can tell | intent, by default |
//! | [`SerializeLayer`] | while another with its key runs | every cause |
//! | [`RateLayer`] | that is over its quota | every cause |
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
