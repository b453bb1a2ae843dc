//! Absolute health: a query of production's metrics compared with a bound, over a window.
//!
//! Example:
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use annealing_strategist::health::absolute::{Absolute, of};
//! # use plugin_sdk::{BoxError, SampleQuery, SampleSource, Series};
//! # struct Prometheus;
//! # #[async_trait::async_trait]
//! # impl SampleSource for Prometheus {
//! #     async fn read(&self, _: SampleQuery) -> Result<Vec<Series>, BoxError> { Ok(vec![]) }
//! # }
//!
//! let metrics = Arc::new(Prometheus);
//! let requests = of("http_requests_total");
//! // At most one request in a hundred fails.
//! let errors = Absolute::ratio("errors", requests.clone().beginning("code", "5"), requests)
//!     .at_most(0.01)
//!     .over(Duration::from_secs(60))
//!     .min_samples(5)
//!     .min_events(100)
//!     .only(["shakespeare.v1.FrontendJob"])
//!     .reading(metrics.clone());
//! // No task has more than 50 requests in flight on average.
//! let queue = Absolute::value("queue", of("http_requests_in_flight"))
//!     .at_most(50.0)
//!     .only(["shakespeare.v1.FrontendJob"])
//!     .reading(metrics);
//! ```
//!
//! The rules:
//! - Every updated asset is checked, and every neighbour. The verdict is the worst of all.
//! - Every asset under way is checked, too, but only *unhealthy* counts for it. If a metric cannot tell the new
//!   content from the old one, and the old one may be unhealthy, use [`Rule::settled_only`].
//! - For each asset only samples after its own [`Watched::since`](plugin_sdk::Watched::since) count, and only those
//!   in the window that ends now. A bound is on a rate or a share within the window, never on a lifetime counter.
//! - *Unhealthy*: enough samples break the bound. *Healthy*: enough samples keep it and no data is missing.
//!   *Unknown*: everything else, such as too few samples or events, a value that is not a number, a series without
//!   data, or a source that fails.
//! - A counter that falls was reset, and counts from zero since then.
//! - A counter that appears in the window counts from zero if its metric has older samples for the asset, of other series
//!   or from up to an hour before the window: errors count that came before its first scrape. If there are none, the
//!   verdict is *unknown* until its first sample is older than the window. Only too much of something, of a single metric,
//!   is *unhealthy* before.
//! - The verdict about each asset carries its [`Evidence`], from which it can be reproduced.
//!
//! A neighbour that was unhealthy before the rollout began does not make the rollout unhealthy. If neighbours may
//! become unhealthy for reasons of their own, leave them to a validator that compares, and use
//! [`Rule::without_neighbours`].

mod birth;
mod evidence;
mod query;
mod rule;
mod validator;

pub use birth::Start;
pub use evidence::{Evidence, Kind, Question, Tally};
pub use query::{Of, of};
pub use rule::{Measure, Rule};
pub use validator::Absolute;

#[cfg(test)]
mod born_tests;
#[cfg(test)]
mod tests;
