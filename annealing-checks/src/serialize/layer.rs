//! [`Serialize`] as a layer of a check stack.

use plugin_sdk::service::{Check, CheckLayer};
use tower_layer::Layer;

use super::Serialize;
use crate::Scope;

/// One push at a time within each part of a scope.
///
/// ```
/// use annealing_checks::{Scope, SerializeLayer, Types};
/// use plugin_sdk::service::Proceed;
///
/// let checks = tower::ServiceBuilder::new()
///     // Two migrations never run at the same time, whatever database they are for.
///     .layer(SerializeLayer::new("migrations", Scope::all().only(Types::only(["db.v1.Schema"]))))
///     .service(Proceed);
/// ```
#[derive(Debug, Clone)]
pub struct SerializeLayer(CheckLayer<Serialize>);

impl SerializeLayer {
    /// A layer with a check named `name`: at most one push at a time within each part of `scope`.
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
