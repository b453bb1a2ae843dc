//! Conversions between plugin traits and tower services.
//!
//! | seam | service | base service | a layer may only |
//! |---|---|---|---|
//! | diff | `Service<DiffRequest, Response = Diff>` | the plugin registry | batch, cache immutable parts, trace |
//! | check | `Service<CheckRequest, Response = Verdict>` | [`Proceed`] | add: delays, evidence, claims |
//! | select | `Service<SelectRequest, Response = Selection>` | [`AllTargets`] | choose among the targets that the service beneath selected |
//! | health | `Service<HealthRequest, Response = Health>` | [`Healthy`] | add findings, which never improve the judgement |
//! | push | `Service<PushRequest, Response = Pushed>` | the plugin registry | trace, guard |
//! | function | `Service<FunctionRequest, Response = Ran>` | the function registry | trace, guard, time out |
//! | dispatch | `Service<DispatchRequest, Response = Dispatch>` | [`ByCause`] | raise the class, add delays, add claims |
//!
//! A plugin becomes a service through a newtype ([`AssetService`], [`CheckService`], [`SelectService`],
//! [`HealthService`], [`DispatchService`], [`ProbeService`]). A cloneable service *is* a plugin, by a blanket impl. A
//! function has powers that a service cannot declare, so [`FunctionService`] adds its info to a service and is both.
//! `poll_ready` concerns capacity only.
//! Layers hold no state that decides admission: they declare [`Claim`](crate::Claim)s, and the enforcer's kernel counts
//! these.

mod asset;
mod call;
mod check;
pub mod checks;
mod dispatch;
mod function;
mod health;
mod select;

pub use asset::AssetService;
pub use call::{Call, Stack, StackService, stack};
pub use check::{Check, CheckLayer, CheckService, Proceed};
pub use checks::Checks;
pub use dispatch::{ByCause, DispatchLayer, DispatchService, Dispatched};
pub use function::{Function, FunctionService, ProbeService};
pub use health::{HealthLayer, HealthService, Healthy, Validate};
pub use select::{AllTargets, Narrow, NarrowLayer, Narrowed, SelectService};

#[cfg(test)]
mod tests;
