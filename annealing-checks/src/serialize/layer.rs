//! The layer that adds a [`Serialize`] check to a check stack.

use plugin_sdk::service::{Check, CheckLayer};
use tower_layer::Layer;

use super::Serialize;
use crate::Scope;

/// A layer that allows one push at a time within each part of a scope.
///
/// ```
/// use annealing_checks::{Scope, SerializeLayer, Types};
/// use plugin_sdk::service::Proceed;
///
/// let checks = tower::ServiceBuilder::new()
///     // One migration at a time, across all databases.
///     .layer(SerializeLayer::new("migrations", Scope::all().only(Types::only(["db.v1.Schema"]))))
///     .service(Proceed);
/// ```
#[derive(Debug, Clone)]
pub struct SerializeLayer(CheckLayer<Serialize>);

impl SerializeLayer {
    /// Makes a layer with a check named `name` that allows one push at a time within each part of `scope`.
    pub fn new(name: &str, scope: Scope) -> Self {
        Self(CheckLayer::new(Serialize::new(name, scope)))
    }
}

impl<S> Layer<S> for SerializeLayer {
    type Service = Check<S, Serialize>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
