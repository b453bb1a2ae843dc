//! Rollout policies as tower layers over [`AllTargets`](plugin_sdk::service::AllTargets).
//!
//! | layer | lets through | applies |
//! |---|---|---|
//! | [`OneDomainAtATimeLayer`] | the targets of one failure domain, then of the next | to cautious requests |
//! | [`WavesLayer`] | a number or share of the targets, then more | to cautious requests |
//! | [`CanaryLayer`] | the first few targets, then the others | to cautious requests |
//! | [`BakeLayer`] | everything; delays the end until all targets are baked | to cautious requests |
//! | [`MaxUnavailableLayer`] | as many targets as each failure domain can miss | always |
//! | [`MaxInFlightLayer`] | a limited number of targets at once | always |
//! | [`AskChecks`] | the targets whose pushes no check would delay | to cautious requests |
//! | [`HoldLayer`] | nothing | always, except during a rollback |
//!
//! Each layer can be built with fixed settings or with [`by_policy`](PolicyLayer::by_policy). The latter reads its
//! part of the policy asset at each call, so that a policy may change while a rollout runs. [`standard`] is the stack
//! of all layers. [`SelectRequest::is_cautious`](plugin_sdk::SelectRequest::is_cautious) says which requests are
//! cautious.
//!
//! All layers are stateless: the selection follows from the targets, the policy, health and the time. A stage is over
//! when its [`gate`] is open.

mod ask_checks;
mod bake;
mod canary;
mod domains;
mod first;
mod gate;
mod hold;
mod in_flight;
mod no_stall;
mod numbers;
mod room;
mod rule;
mod standard;
mod target;
mod unavailable;
mod valid;
mod waves;

pub use ask_checks::{AskChecks, AskedChecks};
pub use bake::{Bake, BakeLayer};
pub use canary::{Canary, CanaryLayer};
pub use domains::{OneDomainAtATime, OneDomainAtATimeLayer};
pub use gate::{Gate, gate};
pub(crate) use gate::{gate_of, gate_of_all};
pub use hold::{Hold, HoldLayer};
pub use in_flight::{MaxInFlight, MaxInFlightLayer};
pub use no_stall::NoStall;
pub use rule::{ByPolicy, ByPolicyLayer, Fixed, PolicyLayer, Rule};
pub use standard::{standard, standard_over};
pub use target::{share_domains, target_of};
pub use unavailable::{MaxUnavailable, MaxUnavailableLayer};
pub use valid::valid;
pub use waves::{Waves, WavesLayer};

#[cfg(test)]
mod tests;
