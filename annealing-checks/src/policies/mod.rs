//! Checks by policies that are intent: calendars, freezes, limits, capacity, overload, alerts and approvals as assets.
//!
//! - Policies count as they are in the newest incarnation, whatever incarnation is pushed. The enforcer admits no push by a verdict
//!   from before a policy was edited, and checks waiting assets again at once.
//! - A policy holds back the assets that match its `of`, except those that an exception names, until the exception ends.
//! - Each policy runs the check of the layer with the same purpose, under the name `policies/<id of its asset>`, which an override
//!   can name.
//! - A policy that cannot be read, or whose source is gone, holds back its assets.
//! - All alert policies share one reading of a source in 5 s.
//!
//! A control plane has [`PoliciesLayer`] around its own stack of checks, and knows all these types.

mod approval;
mod calendar;
mod capacity;
mod check;
mod compiled;
mod layer;
mod limit;
mod monitoring;
mod valid;

pub use check::Policies;
pub use compiled::{CheckPolicy, Readers, Refused};
pub use layer::PoliciesLayer;
pub use valid::declared;
