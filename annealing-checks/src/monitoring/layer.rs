//! The layer that adds [`Monitoring`] to a check stack.

use plugin_sdk::{
    SignalSource,
    service::{Check, CheckLayer},
};
use tower_layer::Layer;

use super::Monitoring;

/// A layer that delays pushes while an alert fires, or while the alerts cannot be read.
///
/// ```
/// use annealing_checks::MonitoringLayer;
/// use plugin_sdk::{SignalSource, service::Proceed};
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
    /// Makes a layer with the check `monitoring`.
    pub fn new(monitoring: Monitoring) -> Self {
        Self(CheckLayer::new(monitoring))
    }

    /// Makes a layer in which every alert of `source` delays every asset.
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
