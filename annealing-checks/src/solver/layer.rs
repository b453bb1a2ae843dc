//! The layer that adds a [`DependencySolver`] to a check stack.

use plugin_sdk::service::{Check, CheckLayer};
use tower_layer::Layer;

use super::DependencySolver;

/// A layer that starts pushes in the order that production's dependencies allow.
///
/// ```
/// use annealing_checks::DependencySolverLayer;
/// use plugin_sdk::service::Proceed;
///
/// let checks = tower::ServiceBuilder::new()
///     .layer(DependencySolverLayer::standard())
///     .service(Proceed);
/// ```
#[derive(Debug, Clone)]
pub struct DependencySolverLayer(CheckLayer<DependencySolver>);

impl DependencySolverLayer {
    /// Makes a layer with `solver`, for example with rules of your own.
    pub fn new(solver: DependencySolver) -> Self {
        Self(CheckLayer::new(solver))
    }

    /// Makes a layer for capacity edges only.
    pub fn capacity() -> Self {
        Self::new(DependencySolver::capacity())
    }

    /// Makes a layer for every kind of edge: capacity, version order, static order.
    pub fn standard() -> Self {
        Self::new(DependencySolver::standard())
    }
}

impl<S> Layer<S> for DependencySolverLayer {
    type Service = Check<S, DependencySolver>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
