//! The layer that adds a [`BlastRadius`] check to a check stack.

use plugin_sdk::service::{Check, CheckLayer};
use tower_layer::Layer;

use super::{BlastRadius, Most};
use crate::Scope;

/// A layer that limits the assets within each part of a scope that are pushed and have not settled, across types, policy
/// groups and simultaneous rollouts. An asset keeps its place until it settles, its push fails for good, or it is pinned anew.
/// Rollbacks and emergencies need no place.
///
/// ```
/// use annealing_checks::{BlastRadiusLayer, Scope};
/// use plugin_sdk::service::Proceed;
///
/// let checks = tower::ServiceBuilder::new()
///     // Whatever is rolled out: ten assets of each region at once.
///     .layer(BlastRadiusLayer::new("per-region", Scope::per_domain(["eu", "us"]), 10))
///     .service(Proceed);
/// ```
#[derive(Debug, Clone)]
pub struct BlastRadiusLayer(CheckLayer<BlastRadius>);

impl BlastRadiusLayer {
    /// Makes a layer with a check named `name` that allows `most` assets at once in each part of `scope`.
    pub fn new(name: &str, scope: Scope, most: impl Into<Most>) -> Self {
        Self(CheckLayer::new(BlastRadius::new(name, scope, most)))
    }
}

impl<S> Layer<S> for BlastRadiusLayer {
    type Service = Check<S, BlastRadius>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
