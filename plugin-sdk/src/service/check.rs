//! Conversions between [`CheckPlugin`], services and layers.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::{BoxFuture, join};
use jiff::Timestamp;
use tower_layer::Layer;
use tower_service::Service;

use super::{
    call::{StackService, call},
    checks::register,
};
use crate::{
    check::{CheckInfo, CheckName, CheckPlugin, CheckRequest, Delay, Recheck, Verdict},
    error::{BoxError, with_causes},
};

/// Time until a failed check is repeated.
const AFTER_ERROR: Duration = Duration::from_secs(10);

/// The base service of every check stack. It delays nothing.
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
        ready(Ok(request.proceed()))
    }
}

/// Wraps a check as a service, to be the base of a stack.
#[derive(Debug)]
pub struct CheckService<P: ?Sized> {
    name: CheckName,
    plugin: Arc<P>,
}

impl<P: CheckPlugin> CheckService<P> {
    /// Wraps `plugin`. Its delays carry the name of its [`CheckInfo`].
    pub fn new(plugin: P) -> Self {
        Self {
            name: register(&plugin.info().name),
            plugin: Arc::new(plugin),
        }
    }
}

impl<P: ?Sized> Clone for CheckService<P> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            plugin: self.plugin.clone(),
        }
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
        let (plugin, name) = (self.plugin.clone(), self.name.clone());
        Box::pin(async move {
            let info = plugin.info();
            if !info.causes.contains(request.cause) {
                return Ok(request.proceed());
            }
            let verdict = plugin.check(request).await?;
            Ok(verdict.stamped(&name, &info.name, name.stack()))
        })
    }
}

#[async_trait]
impl<S> CheckPlugin for S
where
    S: StackService<CheckRequest, Verdict>,
{
    /// A service is named `service` and applies to all causes. Use [`CheckLayer::named`] to give it another name.
    fn info(&self) -> CheckInfo {
        CheckInfo::new("service")
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        call(self, request).await
    }
}

/// Adds a check to a stack. It runs concurrently with the service beneath, and the layer joins both verdicts.
///
/// An error of one of them becomes a delay, and the findings of the other are kept.
///
/// The layer stamps a name on each delay of the check: the name from its [`CheckInfo`], or the one set with
/// [`named`](Self::named). Names are unique in a stack; building an enforcer refuses duplicates. A tower service is a
/// check named `service`, so a second one needs another name.
///
/// ```
/// # use plugin_sdk::{CheckPlugin, service::{CheckLayer, Proceed}};
/// # fn stack(one: impl CheckPlugin, other: impl CheckPlugin) {
/// let checks = tower::ServiceBuilder::new()
///     .layer(CheckLayer::new(one))
///     .layer(CheckLayer::new(other).named("second-opinion"))
///     .service(Proceed);
/// # }
/// ```
#[derive(Debug)]
pub struct CheckLayer<P: ?Sized> {
    name: Option<CheckName>,
    plugin: Arc<P>,
}

impl<P> CheckLayer<P> {
    /// Makes a layer that calls `plugin`.
    pub fn new(plugin: P) -> Self {
        Self::shared(Arc::new(plugin))
    }
}

impl<P: ?Sized> CheckLayer<P> {
    /// Makes a layer that calls a shared plugin.
    pub fn shared(plugin: Arc<P>) -> Self {
        let name = None;
        Self { name, plugin }
    }

    /// Registers the check under `name` instead of the name of its [`CheckInfo`].
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<P: ?Sized> Clone for CheckLayer<P> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            plugin: self.plugin.clone(),
        }
    }
}

impl<S, P: CheckPlugin + ?Sized> Layer<S> for CheckLayer<P> {
    type Service = Check<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        let own = || self.plugin.info().name;
        let name = self.name.clone().unwrap_or_else(own);
        Check {
            inner,
            name: register(&name),
            plugin: self.plugin.clone(),
        }
    }
}

/// The service made by [`CheckLayer`]: a check and the service beneath it.
#[derive(Debug)]
pub struct Check<S, P: ?Sized> {
    inner: S,
    name: CheckName,
    plugin: Arc<P>,
}

impl<S: Clone, P: ?Sized> Clone for Check<S, P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            name: self.name.clone(),
            plugin: self.plugin.clone(),
        }
    }
}

impl<S, P> Service<CheckRequest> for Check<S, P>
where
    S: StackService<CheckRequest, Verdict>,
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
            let all = || CheckName::STACK.into();
            found.unwrap_or_else(|error| failed(now, all(), "the checks beneath failed", &error))
        };
        let (plugin, name) = (self.plugin.clone(), self.name.clone());
        Box::pin(async move {
            let info = plugin.info();
            if !info.causes.contains(request.cause) {
                return Ok(beneath.await);
            }
            let (beneath, own) = join(beneath, plugin.check(request)).await;
            let own = match own {
                Ok(verdict) => verdict.stamped(&name, &info.name, name.stack()),
                Err(error) => failed(now, name, "the check failed", &error),
            };
            Ok(beneath.join(own))
        })
    }
}

/// A verdict with a delay for a check that failed.
fn failed(now: Timestamp, check: CheckName, what: &str, error: &BoxError) -> Verdict {
    let reason = format!("{what}: {}", with_causes(&**error));
    let delay = Delay::new(reason, Recheck::After(AFTER_ERROR)).check(check);
    Verdict::delay(now, delay)
}
