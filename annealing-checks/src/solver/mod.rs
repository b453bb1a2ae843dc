//! The dependency solver: it starts pushes in the order that production's dependencies allow, decided anew for each
//! push.
//!
//! There is no plan. Each push compares its neighbours with production *now*, and waits while one of them must be
//! pushed first. So the solver works from any state of production and through any sequence of edits.
//!
//! | rule | edge | a push waits |
//! |---|---|---|
//! | [`Capacity`] | `Need::Capacity` | to shrink, until the consumers' demand fits; to grow, until every provider has the capacity |
//! | [`VersionOrder`] | `Need::Version` | while a consumer would run a newer version than its provider |
//! | [`StaticOrder`] | `Need::Order` | while a provider is not in sync |
//! | your own [`OrderRule`] | any | as the rule says |
//!
//! [`wait_cycles`] finds pushes that wait for each other in a circle.
//!
//! The guide is `docs/dependencies.md`: how to declare edges, which assets belong in one policy group, and what ends a
//! wait.

mod capacity;
mod check;
mod cycles;
mod layer;
mod look;
mod rule;
mod seen;
mod static_order;
mod version_order;
mod way_out;

pub use capacity::Capacity;
pub use check::DependencySolver;
pub use cycles::wait_cycles;
pub use layer::DependencySolverLayer;
pub use rule::{Answered, OrderRule, Push, Question, Wait};
pub use seen::Seen;
pub use static_order::StaticOrder;
pub use version_order::VersionOrder;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
