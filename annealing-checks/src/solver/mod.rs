//! The dependency solver: pushes in the order that production's dependencies allow, found anew at each push.
//!
//! No plan is made. Each push asks its neighbours how they compare with production *now*, and waits while one of them
//! must come first. So it works from any starting point, through any sequence of edits.
//!
//! | rule | edge | a push waits |
//! |---|---|---|
//! | [`Capacity`] | `Need::Capacity` | to shrink, until the consumers' demand fits; to grow, until every provider has the capacity |
//! | [`VersionOrder`] | `Need::Version` | while a consumer would run a newer version than its provider |
//! | [`StaticOrder`] | `Need::Order` | while a provider is not in sync |
//! | an [`OrderRule`] of yours | any | while you say so |
//!
//! Pushes that wait for each other in a circle are found by [`wait_cycles`].
//!
//! `docs/dependencies.md` is the guide: how to declare edges, what belongs in one policy group, what ends a wait.

mod capacity;
mod check;
mod cycles;
mod layer;
mod rule;
mod seen;
mod static_order;
mod version_order;

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
