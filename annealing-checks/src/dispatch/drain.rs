//! The layer that lets nothing new start.

use std::sync::Arc;

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, CheckName, Dispatch, DispatchPlugin, DispatchRequest,
    service::{DispatchLayer, Dispatched},
};
use tower_layer::Layer;

/// A layer that lets no execution of some workflows start: what they act on is being replaced, say. Executions under way go
/// on. To drain without a new program version, use [`ShapeLayer`](super::ShapeLayer).
///
/// ```
/// use annealing_checks::dispatch::DrainLayer;
/// use plugin_sdk::service::ByCause;
///
/// let dispatch = tower::ServiceBuilder::new()
///     .layer(DrainLayer::workflows(["season"], "the press is being replaced"))
///     .service(ByCause);
/// # let _ = dispatch;
/// ```
#[derive(Debug, Clone)]
pub struct DrainLayer(DispatchLayer<Drained>);

/// The rule of [`DrainLayer`]: workflows, and why none of them starts.
#[derive(Debug, Clone)]
pub struct Drained {
    workflows: Arc<[String]>,
    why: Arc<str>,
}

impl DrainLayer {
    /// Lets no execution of these workflows start, for the reason `why`.
    pub fn workflows<W: Into<String>>(
        workflows: impl IntoIterator<Item = W>,
        why: impl Into<Arc<str>>,
    ) -> Self {
        Self(DispatchLayer::new(Drained {
            workflows: workflows.into_iter().map(Into::into).collect(),
            why: why.into(),
        }))
    }
}

#[async_trait]
impl DispatchPlugin for Drained {
    fn name(&self) -> CheckName {
        "drain".into()
    }

    async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError> {
        Ok(match is_drained(&self.workflows, &request) {
            true => request.delay(&*self.why),
            false => request.go(),
        })
    }
}

/// Whether the request is for the start of an execution of one of these workflows.
pub(super) fn is_drained(workflows: &[String], request: &DispatchRequest) -> bool {
    let name = request.execution.workflow.as_str();
    request.is_start() && workflows.iter().any(|it| it == name)
}

impl<S> Layer<S> for DrainLayer {
    type Service = Dispatched<S, Drained>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
