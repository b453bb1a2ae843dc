//! Plugin traits as tower services, and services as plugins.
//!
//! | seam | service | base | a layer may only |
//! |---|---|---|---|
//! | diff | `Service<DiffRequest, Response = Diff>` | the plugin registry | batch, cache immutable parts, trace |
//! | check | `Service<CheckRequest, Response = Verdict>` | [`Proceed`] | add: delays, evidence, claims |
//! | select | `Service<SelectRequest, Response = Selection>` | [`AllTargets`] | choose from the selection beneath it |
//! | health | `Service<HealthRequest, Response = Health>` | [`Healthy`] | add findings, which make it worse or not |
//! | push | `Service<PushRequest, Response = Pushed>` | the plugin registry | trace, guard |
//!
//! A plugin becomes a service through a newtype ([`AssetService`], [`CheckService`], [`SelectService`],
//! [`HealthService`]); a cloneable service *is* a
//! plugin, by a blanket impl. `poll_ready` means capacity only. State that decides admission never lives in a layer:
//! layers declare [`Claim`](crate::Claim)s, the kernel counts them.

mod asset;
mod call;
mod check;
pub mod checks;
mod health;
mod select;

pub use asset::AssetService;
pub use call::{Call, Stack, stack};
pub use check::{Check, CheckLayer, CheckService, Proceed};
pub use checks::Checks;
pub use health::{HealthLayer, HealthService, Healthy, Validate};
pub use select::{AllTargets, Narrow, NarrowLayer, Narrowed, SelectService};

#[cfg(test)]
mod tests;
