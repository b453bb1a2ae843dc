//! Health by the values of a metric source: one value per asset and window, compared with a bound. A value is that of an expression,
//! such as PromQL, a rate of events, or a share among events.
//!
//! ```
//! use annealing_strategist::health::expression::{Measured, cluster};
//! use plugin_sdk::{HealthValidator, MetricSource, Problem};
//!
//! /// Of a hundred requests to a job, 95 take at most a quarter of a second.
//! fn latency(prometheus: impl MetricSource) -> Result<impl HealthValidator, Problem> {
//!     let text = "histogram_quantile(0.95, sum by (cluster, job, le) (rate(http_latency_seconds_bucket[$window])))";
//!     Measured::by(text)
//!         // The series of an asset has its cluster and its id.
//!         .meets("cluster", cluster)
//!         .meets("job", |asset| Some(asset.id_str().to_owned()))
//!         .at_most("latency", 0.25)
//!         .only(["shakespeare.v1.FrontendJob"])
//!         .reading(prometheus)
//! }
//! ```
//!
//! The rules:
//! - The expression is evaluated once per window for all assets, 15 s after the end of the window. The newest window counts, if
//!   all of it is after the asset's own [`Watched::since`](plugin_sdk::Watched::since).
//! - Every updated asset is judged, and every neighbour. The verdict is the worst of all. Of assets under way only *unhealthy*
//!   counts.
//! - A rate or share counts events from before a counter's first scrape, too: see [`Quantity`](plugin_sdk::Quantity).
//! - *Unknown*: an asset has no value, or two, or one that is no number; a source that fails, warns or is behind; a window that
//!   is not over yet.
//! - A neighbour that is not healthy is compared with the last window before the rollout began. If it broke the bound then, too,
//!   it is shown, and does not count.

mod readings;
mod rule;
mod seen;
mod validator;

pub(in crate::health) use readings::Readings;
pub use rule::{Measured, Rule, cluster};
pub(in crate::health) use seen::counted;
pub use seen::replay;
pub use validator::ByExpression;
#[cfg(feature = "statistics")]
pub(in crate::health) use {readings::Table, rule::Of};

#[cfg(test)]
mod tests;
