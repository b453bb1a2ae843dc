//! The layer that adds [`Overload`] to a check stack.

use plugin_sdk::service::{Check, CheckLayer};
use tower_layer::Layer;

use super::Overload;

/// A layer that delays pushes of intent while a metric is above a bound, or is not known.
///
/// ```
/// use annealing_checks::{OverloadLayer, Scope, overload::Overload};
/// use plugin_sdk::{MetricSource, Problem, service::Proceed};
///
/// # fn stack(prometheus: impl MetricSource) -> Result<(), Problem> {
/// let busy = Overload::at_most(0.8, "max by (cluster) (cpu_busy_ratio)")
///     .within(Scope::per_cluster(), "cluster")
///     .reading(prometheus)?;
/// let checks = tower::ServiceBuilder::new()
///     .layer(OverloadLayer::new(busy))
///     .service(Proceed);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct OverloadLayer(CheckLayer<Overload>);

impl OverloadLayer {
    /// Makes a layer with this check.
    pub fn new(overload: Overload) -> Self {
        Self(CheckLayer::new(overload))
    }
}

impl<S> Layer<S> for OverloadLayer {
    type Service = Check<S, Overload>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
