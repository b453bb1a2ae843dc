//! [`CheckPlugin`] as a service and as a layer, and back.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::{BoxFuture, join};
use serde_json::Value;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    check::{CheckInfo, CheckName, CheckPlugin, CheckRequest, Delay, Recheck, Verdict},
    error::{BoxError, with_causes},
    run::Causes,
};

/// How soon a check that failed is asked again.
const AFTER_ERROR: Duration = Duration::from_secs(10);

/// The bottom of every check stack: nothing against it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Proceed;

impl Service<CheckRequest> for Proceed {
    type Response = Verdict;
    type Error = Infallible;
    type Future = Ready<Result<Verdict, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CheckRequest) -> Self::Future {
        ready(Ok(Verdict::proceed(request.now)))
    }
}

/// A check as a service of its own.
#[derive(Debug)]
pub struct CheckService<P: ?Sized>(Arc<P>);

impl<P> CheckService<P> {
    /// Wraps `plugin`.
    pub fn new(plugin: P) -> Self {
        Self(Arc::new(plugin))
    }
}

impl<P: ?Sized> Clone for CheckService<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: CheckPlugin + ?Sized> Service<CheckRequest> for CheckService<P> {
    type Response = Verdict;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Verdict, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: CheckRequest) -> Self::Future {
        let plugin = self.0.clone();
        Box::pin(async move { plugin.check(request).await })
    }
}

#[async_trait]
impl<S> CheckPlugin for S
where
    S: Service<CheckRequest, Response = Verdict, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    /// A service has no name of its own and applies always.
    fn info(&self) -> CheckInfo {
        CheckInfo {
            name: "service".into(),
            causes: Causes::ALL,
        }
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let mut service = self.clone();
        std::future::poll_fn(|cx| service.poll_ready(cx))
            .await
            .map_err(Into::into)?;
        service.call(request).await.map_err(Into::into)
    }
}

/// Puts a check into a stack: runs it beside the service beneath, and joins what both found.
///
/// An error of either is a delay and does not lose the other's findings.
///
/// ```
/// # use plugin_sdk::{CheckPlugin, service::{CheckLayer, Proceed}};
/// # fn stack(one: impl CheckPlugin, other: impl CheckPlugin) {
/// let checks = tower::ServiceBuilder::new()
///     .layer(CheckLayer::new(one))
///     .layer(CheckLayer::new(other))
///     .service(Proceed);
/// # }
/// ```
#[derive(Debug)]
pub struct CheckLayer<P: ?Sized>(Arc<P>);

impl<P> CheckLayer<P> {
    /// A layer that asks `plugin`.
    pub fn new(plugin: P) -> Self {
        Self(Arc::new(plugin))
    }
}

impl<P: ?Sized> CheckLayer<P> {
    /// A layer that asks a plugin somebody else holds too.
    pub fn shared(plugin: Arc<P>) -> Self {
        Self(plugin)
    }
}

impl<P: ?Sized> Clone for CheckLayer<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S, P: ?Sized> Layer<S> for CheckLayer<P> {
    type Service = Check<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        Check {
            inner,
            plugin: self.0.clone(),
        }
    }
}

/// The service that [`CheckLayer`] makes.
#[derive(Debug)]
pub struct Check<S, P: ?Sized> {
    inner: S,
    plugin: Arc<P>,
}

impl<S: Clone, P: ?Sized> Clone for Check<S, P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            plugin: self.plugin.clone(),
        }
    }
}

impl<S, P> Service<CheckRequest> for Check<S, P>
where
    S: Service<CheckRequest, Response = Verdict, Error: Into<BoxError>, Future: Send + 'static>,
    P: CheckPlugin + ?Sized,
{
    type Response = Verdict;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Verdict, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: CheckRequest) -> Self::Future {
        let now = request.now;
        let beneath = self.inner.call(request.clone());
        let beneath = async move {
            let found = beneath.await.map_err(Into::into);
            found.unwrap_or_else(|error| failed(now, "beneath".into(), &error))
        };
        let plugin = self.plugin.clone();
        Box::pin(async move {
            let info = plugin.info();
            if !info.causes.contains(request.cause) {
                return Ok(beneath.await);
            }
            let (beneath, own) = join(beneath, plugin.check(request)).await;
            Ok(beneath.join(own.unwrap_or_else(|error| failed(now, info.name, &error))))
        })
    }
}

/// A check that failed is a delay.
fn failed(now: jiff::Timestamp, check: CheckName, error: &BoxError) -> Verdict {
    let reason = format!("the check failed: {}", with_causes(&**error));
    Verdict::delay(
        now,
        Delay {
            check,
            reason,
            evidence: Value::Null,
            recheck: Recheck::After(AFTER_ERROR),
        },
    )
}
