//! The layer that adds [`Policies`] to a check stack.

use plugin_sdk::{
    Sources,
    service::{Check, CheckLayer},
};
use tower_layer::Layer;

use super::Policies;

/// A layer that holds pushes back by the policies in intent. A control plane has it around its own stack.
///
/// ```
/// use annealing_checks::PoliciesLayer;
/// use plugin_sdk::{Sources, service::Proceed};
///
/// let checks = tower::ServiceBuilder::new()
///     .layer(PoliciesLayer::reading(&Sources::default()))
///     .service(Proceed);
/// ```
#[derive(Debug, Clone)]
pub struct PoliciesLayer(CheckLayer<Policies>);

impl PoliciesLayer {
    /// Makes a layer whose policies name these sources.
    pub fn reading(sources: &Sources) -> Self {
        Self(CheckLayer::new(Policies::reading(sources)))
    }
}

impl<S> Layer<S> for PoliciesLayer {
    type Service = Check<S, Policies>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
