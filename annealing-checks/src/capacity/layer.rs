//! The layer that adds [`Capacity`] to a check stack.

use plugin_sdk::service::{Check, CheckLayer};
use tower_layer::Layer;

use super::Capacity;

/// A layer that keeps the serving capacity of each part of a scope at its recent peak usage, whatever is pushed and why.
///
/// ```
/// use annealing_checks::{CapacityLayer, Scope, capacity::Capacity};
/// use plugin_sdk::{MetricSource, Problem, service::Proceed};
///
/// # fn stack(prometheus: impl MetricSource) -> Result<(), Problem> {
/// let kept = Capacity::of("qps")
///     .within(Scope::per_cluster(), "cluster")
///     .headroom(1.2)
///     .measured("sum by (cluster) (rate(http_requests_total[$window]))", prometheus)?;
/// let checks = tower::ServiceBuilder::new()
///     .layer(CapacityLayer::new(kept))
///     .service(Proceed);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CapacityLayer(CheckLayer<Capacity>);

impl CapacityLayer {
    /// Makes a layer with this check.
    pub fn new(capacity: Capacity) -> Self {
        Self(CheckLayer::new(capacity))
    }
}

impl<S> Layer<S> for CapacityLayer {
    type Service = Check<S, Capacity>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
