#![doc = include_str!("../README.md")]
//!
//! Each check is a plain type that implements [`CheckPlugin`](plugin_sdk::CheckPlugin), with a layer around it.
//! [`dispatch::ClaimLayer`] limits what runs of workflows at once.
//!
//! The module `calendar` needs the feature `calendar`, which is on by default.
//! [`calendar::WindowLayer`] uses a calendar to hold back targets of rollouts instead of pushes, [`calendar::StartLayer`] to
//! hold back starts of workflows.

pub mod blast_radius;
mod cache;
#[cfg(feature = "calendar")]
pub mod calendar;
pub mod capacity;
pub mod dispatch;
mod members;
pub mod monitoring;
pub mod overload;
pub mod policies;
pub mod rate;
mod scope;
pub mod serialize;
pub mod solver;
pub mod succeeded;

pub use blast_radius::BlastRadiusLayer;
#[cfg(feature = "calendar")]
pub use calendar::CalendarLayer;
pub use capacity::CapacityLayer;
pub use monitoring::MonitoringLayer;
pub use overload::OverloadLayer;
pub use policies::PoliciesLayer;
pub use rate::RateLayer;
pub use scope::{Scope, Types};
pub use serialize::SerializeLayer;
pub use solver::DependencySolverLayer;
pub use succeeded::{Succeeded, SucceededLayer};
