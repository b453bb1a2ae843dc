//! The layer that adds a [`Rate`] check to a check stack.

use plugin_sdk::{
    Quota,
    service::{Check, CheckLayer},
};
use tower_layer::Layer;

use super::Rate;
use crate::Scope;

/// A layer that limits the rate of pushes within each part of a scope.
///
/// ```
/// use annealing_checks::{RateLayer, Scope};
/// use plugin_sdk::{Quota, service::Proceed};
/// use std::time::Duration;
///
/// let checks = tower::ServiceBuilder::new()
///     // Two pushes at once in a cluster, then one per minute.
///     .layer(RateLayer::new(
///         "cluster-rate",
///         Scope::per_cluster(),
///         Quota::new(2, Duration::from_secs(60)),
///     ))
///     .service(Proceed);
/// ```
#[derive(Debug, Clone)]
pub struct RateLayer(CheckLayer<Rate>);

impl RateLayer {
    /// Makes a layer with a check named `name` that limits the pushes of each part of `scope` to `quota`.
    pub fn new(name: &str, scope: Scope, quota: Quota) -> Self {
        Self(CheckLayer::new(Rate::new(name, scope, quota)))
    }
}

impl<S> Layer<S> for RateLayer {
    type Service = Check<S, Rate>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
