//! Conversions between [`HealthValidator`], services and layers.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures::future::{BoxFuture, join};
use jiff::Timestamp;
use tower_layer::Layer;
use tower_service::Service;

use super::call::{StackService, call};
use crate::{
    error::{BoxError, with_causes},
    health::{Finding, Health, HealthRequest, HealthValidator, Judgement},
};

/// The base service of every health stack. It finds everything healthy.
#[derive(Debug, Clone, Copy, Default)]
pub struct Healthy;

impl Service<HealthRequest> for Healthy {
    type Response = Health;
    type Error = Infallible;
    type Future = Ready<Result<Health, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HealthRequest) -> Self::Future {
        ready(Ok(Health::healthy(request.now)))
    }
}

/// Wraps a health validator as a service.
#[derive(Debug)]
pub struct HealthService<P: ?Sized>(Arc<P>);

impl<P> HealthService<P> {
    /// Wraps `validator` as a service.
    pub fn new(validator: P) -> Self {
        Self(Arc::new(validator))
    }
}

impl<P: ?Sized> Clone for HealthService<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: HealthValidator + ?Sized> Service<HealthRequest> for HealthService<P> {
    type Response = Health;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Health, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HealthRequest) -> Self::Future {
        let validator = self.0.clone();
        Box::pin(async move { validator.validate(request).await })
    }
}

#[async_trait]
impl<S> HealthValidator for S
where
    S: StackService<HealthRequest, Health>,
{
    /// A service is named `service`. Use [`HealthLayer::named`] to give it another name.
    fn name(&self) -> Arc<str> {
        "service".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        call(self, request).await
    }
}

/// Adds a health validator to a stack. It runs concurrently with the service beneath, and the layer joins both
/// verdicts.
///
/// An error of one of them becomes [`Judgement::Unknown`], and the findings of the other are kept.
///
/// The layer stamps a name on each finding of the validator: the validator's own, or the one set with
/// [`named`](Self::named). A tower service is a validator named `service`.
///
/// ```
/// # use plugin_sdk::{HealthValidator, service::{HealthLayer, Healthy}};
/// # fn stack(one: impl HealthValidator, other: impl HealthValidator) {
/// let health = tower::ServiceBuilder::new()
///     .layer(HealthLayer::new(one))
///     .layer(HealthLayer::new(other).named("second-opinion"))
///     .service(Healthy);
/// # }
/// ```
#[derive(Debug)]
pub struct HealthLayer<P: ?Sized> {
    name: Option<Arc<str>>,
    validator: Arc<P>,
}

impl<P> HealthLayer<P> {
    /// Makes a layer that calls `validator`.
    pub fn new(validator: P) -> Self {
        Self::shared(Arc::new(validator))
    }
}

impl<P: ?Sized> HealthLayer<P> {
    /// Makes a layer that calls a shared validator.
    pub fn shared(validator: Arc<P>) -> Self {
        let name = None;
        Self { name, validator }
    }

    /// Stamps `name` on the findings instead of the validator's own name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<P: ?Sized> Clone for HealthLayer<P> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            validator: self.validator.clone(),
        }
    }
}

impl<S, P: HealthValidator + ?Sized> Layer<S> for HealthLayer<P> {
    type Service = Validate<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        let own = || self.validator.name();
        Validate {
            inner,
            name: self.name.clone().unwrap_or_else(own),
            validator: self.validator.clone(),
        }
    }
}

/// The service made by [`HealthLayer`]: a validator and the service beneath it.
#[derive(Debug)]
pub struct Validate<S, P: ?Sized> {
    inner: S,
    name: Arc<str>,
    validator: Arc<P>,
}

impl<S: Clone, P: ?Sized> Clone for Validate<S, P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            name: self.name.clone(),
            validator: self.validator.clone(),
        }
    }
}

impl<S, P> Service<HealthRequest> for Validate<S, P>
where
    S: StackService<HealthRequest, Health>,
    P: HealthValidator + ?Sized,
{
    type Response = Health;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Health, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: HealthRequest) -> Self::Future {
        let now = request.now;
        let beneath = self.inner.call(request.clone());
        let beneath = async move {
            let found = beneath.await.map_err(Into::into);
            found.unwrap_or_else(|error| failed(now, "beneath".into(), &error))
        };
        let (validator, name) = (self.validator.clone(), self.name.clone());
        Box::pin(async move {
            let (beneath, own) = join(beneath, validator.validate(request)).await;
            let own = match own {
                Ok(health) => stamped(health, &validator.name(), &name),
                Err(error) => failed(now, name, &error),
            };
            Ok(beneath.join(own))
        })
    }
}

/// Stamps `name` on every finding. If a finding had another name that is neither `name` nor `own`, that name is put
/// before the summary.
fn stamped(mut health: Health, own: &str, name: &Arc<str>) -> Health {
    for finding in &mut health.findings {
        let written = std::mem::replace(&mut finding.validator, name.clone());
        if ![own, &**name, ""].contains(&&*written) {
            finding.summary = format!("{written}: {}", finding.summary);
        }
    }
    health
}

/// A verdict with an unknown judgement for a validator that failed.
fn failed(now: Timestamp, validator: Arc<str>, error: &BoxError) -> Health {
    let summary = format!("the validator failed: {}", with_causes(&**error));
    Health::found(
        now,
        Finding::new(Judgement::Unknown, summary).validator(validator),
    )
}
