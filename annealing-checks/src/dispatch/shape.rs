//! The layer whose limits are an asset.

use std::time::Duration;

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, CheckName, Claim, Dispatch, DispatchPlugin, DispatchRequest, Quota,
    service::{DispatchLayer, Dispatched},
};
use prodspec_model::{
    AssetId,
    operation::{Limit, Limits},
};
use tower_layer::Layer;

use super::{Work, drain::is_drained};

/// A layer whose limits are an asset of the type `workflow.v1.Limits`: changed like all intent, reviewed, rolled back, and in
/// force from the next attempt on. Without the asset there are no limits.
///
/// ```
/// use annealing_checks::dispatch::ShapeLayer;
/// use plugin_sdk::service::ByCause;
/// use prodspec_model::AssetId;
///
/// let dispatch = tower::ServiceBuilder::new()
///     .layer(ShapeLayer::of(AssetId::new("limits/workflows")?))
///     .service(ByCause);
/// # let _ = dispatch;
/// # Ok::<(), prodspec_model::id::InvalidId>(())
/// ```
#[derive(Debug, Clone)]
pub struct ShapeLayer(DispatchLayer<Shape>);

/// The rule of [`ShapeLayer`]: the asset with the limits.
#[derive(Debug, Clone)]
pub struct Shape(AssetId);

impl ShapeLayer {
    /// Takes the limits from this asset.
    pub fn of(asset: AssetId) -> Self {
        Self(DispatchLayer::new(Shape(asset)))
    }
}

#[async_trait]
impl DispatchPlugin for Shape {
    fn name(&self) -> CheckName {
        "shape".into()
    }

    async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError> {
        let Some(asset) = request.reader.get(&self.0) else {
            return Ok(request.go());
        };
        let limits = asset.payload::<Limits>()?;
        if is_drained(&limits.drain, &request) {
            let (workflow, asset) = (&request.execution.workflow, &self.0);
            return Ok(request.delay(format!("{workflow} is drained by `{asset}`")));
        }
        let claims = limits
            .limits
            .iter()
            .flat_map(|limit| claims(limit, &request));
        Ok(claims.fold(request.go(), Dispatch::claim))
    }
}

/// What the work takes because of one limit.
fn claims(limit: &Limit, request: &DispatchRequest) -> Vec<Claim> {
    let of = |name: &Option<String>, is: &str| name.as_ref().is_none_or(|name| name == is);
    let called = request.function.as_deref().unwrap_or_default();
    if !of(&limit.workflow, request.execution.workflow.as_str()) || !of(&limit.function, called) {
        return Vec::new();
    }
    let work = match &limit.per_label {
        Some(label) => Work::per_label(label),
        None => Work::all(),
    };
    let work = if limit.executions {
        work.starts()
    } else {
        work
    };
    let Some(key) = work.key(&format!("shape/{}", limit.name).as_str().into(), request) else {
        return Vec::new();
    };
    let at_most = limit.at_most.map(|many| Claim::AtMost(key.clone(), many));
    let rate = limit.rate.map(|rate| {
        let key = format!("{}/rate", key.0);
        let quota = Quota::new(rate.burst, Duration::from_secs(rate.every_secs));
        Claim::Rate(key.as_str().into(), quota)
    });
    at_most.into_iter().chain(rate).collect()
}

impl<S> Layer<S> for ShapeLayer {
    type Service = Dispatched<S, Shape>;

    fn layer(&self, inner: S) -> Self::Service {
        self.0.layer(inner)
    }
}
