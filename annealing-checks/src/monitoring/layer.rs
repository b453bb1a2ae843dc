//! [`Monitoring`] as a layer of a check stack.

use plugin_sdk::service::{Check, CheckLayer};
use tower_layer::Layer;

use super::{Monitoring, SignalSource};

/// Nothing new starts while an alert fires, or while nobody can tell.
///
/// ```
/// use annealing_checks::{MonitoringLayer, monitoring::SignalSource};
/// use plugin_sdk::service::Proceed;
///
/// # fn stack(alertmanager: impl SignalSource) {
/// let checks = tower::ServiceBuilder::new()
///     .layer(MonitoringLayer::any(alertmanager))
///     .service(Proceed);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct MonitoringLayer(CheckLayer<Monitoring>);

impl MonitoringLayer {
    /// A layer that asks `monitoring`.
    pub fn new(monitoring: Monitoring) -> Self {
        Self(CheckLayer::new(monitoring))
    }

    /// Any alert of `source` delays every asset.
    pub fn any(source: impl SignalSource) -> Self {
        Self::new(Monitoring::new(source))
    }
}

impl<S> Layer<S> for MonitoringLayer {
    type Service = Check<S, Monitoring>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
