//! Absolute health: a query of production's metrics compared with a bound, over a window.
//!
//! The user's code first:
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use annealing_strategist::health::absolute::{Absolute, of};
//! # use plugin_sdk::{BoxError, MetricQuery, MetricSource, Series};
//! # struct Prometheus;
//! # #[async_trait::async_trait]
//! # impl MetricSource for Prometheus {
//! #     async fn read(&self, _: MetricQuery) -> Result<Vec<Series>, BoxError> { Ok(vec![]) }
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
//!     .reading(metrics);
//! ```
//!
//! The rules, exactly:
//! - Every updated asset is asked about, and every neighbour. The verdict is the worst of all.
//! - So is every asset under way, of which only *unhealthy* counts. Where a metric cannot tell what is new from what was,
//!   and what was may be unwell, say [`Rule::settled_only`].
//! - Of each asset only samples after its own [`Watched::since`](plugin_sdk::Watched::since) count, and of those only the
//!   ones in the window that ends now. A budget is a rate or a share of the window, never a lifetime counter.
//! - *Unhealthy* as soon as enough samples break the bound. *Healthy* when enough samples keep it and none is missing.
//!   Everything else is *unknown*: too few samples or events, none, one that is no number, a series that has no data
//!   (yet), a source that fails.
//! - A counter that falls was reset, and has risen from zero since.
//! - What a verdict rests on is [`Evidence`], from which it can be judged again.
//!
//! Absolute does not know what was before: a neighbour that breaks the bound, and did so before the rollout, makes the
//! rollout unhealthy all the same. Where neighbours may be unwell for reasons of their own, leave them to a validator
//! that compares, and say [`Rule::without_neighbours`].

mod evidence;
mod query;
mod rule;
mod validator;

pub use evidence::{Bound, Evidence, Kind, Question, Role, Tally};
pub use query::{Of, of};
pub use rule::{Measure, Rule};
pub use validator::Absolute;

#[cfg(test)]
mod tests;
