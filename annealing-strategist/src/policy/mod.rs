//! Rollout policies as tower layers over [`AllTargets`](plugin_sdk::service::AllTargets).
//!
//! | layer | lets through | applies |
//! |---|---|---|
//! | [`OneDomainAtATimeLayer`] | the targets of one failure domain, then the next one's | where caution does |
//! | [`WavesLayer`] | so many, then so many more | where caution does |
//! | [`CanaryLayer`] | the first few, then the others | where caution does |
//! | [`BakeLayer`] | everything, and holds the end until the whole is baked | where caution does |
//! | [`MaxUnavailableLayer`] | as many as each failure domain can miss | always |
//! | [`MaxInFlightLayer`] | so many at once | always |
//! | [`HoldLayer`] | nothing | always but on the way back |
//!
//! Each exists with fixed settings, and [`by_policy`](PolicyLayer::by_policy): it reads its own part of the
//! policy asset at each call, so that a policy may change while a rollout runs. [`standard`] is all of them.
//! Caution is what [`SelectRequest::is_cautious`](plugin_sdk::SelectRequest::is_cautious) says.
//!
//! All are stateless: what comes next follows from the targets, the policy, health and the time. A stage is over when
//! its [`gate`] is open.

mod bake;
mod canary;
mod domains;
mod first;
mod gate;
mod hold;
mod in_flight;
mod intern;
mod no_stall;
mod numbers;
mod room;
mod rule;
mod standard;
mod target;
mod unavailable;
mod valid;
mod waves;

pub use bake::{Bake, BakeLayer};
pub use canary::{Canary, CanaryLayer};
pub use domains::{OneDomainAtATime, OneDomainAtATimeLayer};
pub use gate::{Gate, gate};
pub use hold::{Hold, HoldLayer};
pub use in_flight::{MaxInFlight, MaxInFlightLayer};
pub use no_stall::NoStall;
pub use rule::{PolicyLayer, Rule, Setting};
pub use standard::{standard, standard_over};
pub use target::{share_domains, target_of};
pub use unavailable::{MaxUnavailable, MaxUnavailableLayer};
pub use valid::valid;
pub use waves::{Waves, WavesLayer};

#[cfg(test)]
mod tests;
