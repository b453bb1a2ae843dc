//! Conversions between [`OperationFunction`], [`Probe`] and services.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use super::call::{StackService, call, ready};
use crate::{
    error::PluginError,
    operation::{EffectKey, FunctionInfo, FunctionRequest, OperationFunction, Probe, Probed, Ran},
};

/// A service of function calls with the info that a function has. It is a service *and* an [`OperationFunction`], so tower
/// layers can be put around a function without losing its name and its powers.
///
/// ```
/// # use plugin_sdk::{OperationFunction, service::FunctionService};
/// # use std::time::Duration;
/// # fn wrap(function: impl OperationFunction) -> impl OperationFunction {
/// let layers = tower::ServiceBuilder::new()
///     .concurrency_limit(8)
///     .timeout(Duration::from_secs(5));
/// FunctionService::new(function).layer(&layers) // still an OperationFunction
/// # }
/// ```
///
/// An error of a layer counts as an unknown outcome once the function was called, like a late answer.
#[derive(Debug, Clone)]
pub struct FunctionService<S> {
    info: FunctionInfo,
    service: S,
}

impl<P: OperationFunction> FunctionService<Function<P>> {
    /// Wraps `function` as a service that keeps its info.
    pub fn new(function: P) -> Self {
        let info = function.info();
        Self::with_info(info, Function(Arc::new(function)))
    }
}

impl<S> FunctionService<S> {
    /// Makes a function of a service, with the info that the service itself does not have.
    ///
    /// ```
    /// use plugin_sdk::{OperationFunction, operation::{Answer, FunctionInfo, FunctionRequest, Repeat}};
    /// use plugin_sdk::{BoxError, service::FunctionService};
    ///
    /// let service = tower::service_fn(async |request: FunctionRequest| {
    ///     Ok::<_, BoxError>(Answer::new().note(request.step().to_string()).done())
    /// });
    /// let info = FunctionInfo::new("tell-step").repeat(Repeat::Safe);
    /// let function = FunctionService::with_info(info, service);
    /// assert_eq!(&*function.info().name, "tell-step");
    /// ```
    pub fn with_info(info: impl Into<FunctionInfo>, service: S) -> Self {
        let info = info.into();
        Self { info, service }
    }

    /// Puts a layer, or a tower `ServiceBuilder`, around the function.
    #[must_use]
    pub fn layer<L: Layer<S>>(self, layer: &L) -> FunctionService<L::Service> {
        FunctionService::with_info(self.info, layer.layer(self.service))
    }
}

impl<S: Service<FunctionRequest>> Service<FunctionRequest> for FunctionService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: FunctionRequest) -> Self::Future {
        self.service.call(request)
    }
}

#[async_trait]
impl<S: StackService<FunctionRequest, Ran>> OperationFunction for FunctionService<S> {
    fn info(&self) -> FunctionInfo {
        self.info.clone()
    }

    async fn run(&self, request: FunctionRequest) -> Result<Ran, PluginError> {
        let ready = ready::<_, FunctionRequest, _>(&self.service).await;
        let mut service = ready.map_err(|error| PluginError::of(error, PluginError::transient))?;
        let ran = service.call(request).await;
        ran.map_err(|error| PluginError::of(error.into(), PluginError::unknown))
    }
}

/// A function as a plain service, inside a [`FunctionService`].
pub struct Function<P: ?Sized>(Arc<P>);

impl<P: ?Sized> Clone for Function<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: ?Sized> fmt::Debug for Function<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").finish_non_exhaustive()
    }
}

impl<P: OperationFunction + ?Sized> Service<FunctionRequest> for Function<P> {
    type Response = Ran;
    type Error = PluginError;
    type Future = BoxFuture<'static, Result<Ran, PluginError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), PluginError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: FunctionRequest) -> Self::Future {
        let function = self.0.clone();
        Box::pin(async move { function.run(request).await })
    }
}

/// Wraps a probe as a service.
#[derive(Debug)]
pub struct ProbeService<P: ?Sized>(Arc<P>);

impl<P> ProbeService<P> {
    /// Wraps `probe` as a service.
    pub fn new(probe: P) -> Self {
        Self(Arc::new(probe))
    }
}

impl<P: ?Sized> Clone for ProbeService<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Probe + ?Sized> Service<EffectKey> for ProbeService<P> {
    type Response = Probed;
    type Error = PluginError;
    type Future = BoxFuture<'static, Result<Probed, PluginError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), PluginError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, key: EffectKey) -> Self::Future {
        let probe = self.0.clone();
        Box::pin(async move { probe.probe(key).await })
    }
}

#[async_trait]
impl<S: StackService<EffectKey, Probed>> Probe for S {
    async fn probe(&self, key: EffectKey) -> Result<Probed, PluginError> {
        let probed = call(self, key).await;
        probed.map_err(|error| PluginError::of(error, PluginError::transient))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tower::ServiceBuilder;

    use super::*;
    use crate::{
        BoxError,
        conformance::FunctionSuite,
        operation::{Answer, Repeat, from_fn},
        testing::{self, InMemoryEffects, MockOperationFunction, MockProbe},
    };

    /// Compiles only if the argument is a function.
    fn function(function: impl OperationFunction) -> impl OperationFunction {
        function
    }

    #[tokio::test]
    async fn function_in_tower_layers_keeps_its_info_and_the_laws() {
        let press = InMemoryEffects::new("press");
        let layers = ServiceBuilder::new()
            .concurrency_limit(2)
            .timeout(Duration::from_secs(5))
            .map_request(|request: FunctionRequest| request.with_input("mapped"));
        let wrapped = function(FunctionService::new(press.clone()).layer(&layers));
        assert_eq!(wrapped.info(), press.info());
        let journal = press.clone();
        let suite = FunctionSuite::new().ledger(move |key| journal.effects(key));
        let requests = [testing::function_request()];
        suite.run(&wrapped, requests).await.unwrap();
        let mut request = testing::function_request();
        request.key.run = 9;
        let ran = wrapped.run(request).await.unwrap();
        assert_eq!(ran, Answer::new().output(&"mapped").unwrap().done());
    }

    #[tokio::test(start_paused = true)]
    async fn r25_timeout_of_a_layer_is_an_unknown_outcome() {
        let hangs = from_fn("hangs", |_| std::future::pending());
        let layers = ServiceBuilder::new().timeout(Duration::from_secs(5));
        let hangs = FunctionService::new(hangs).layer(&layers);
        let ran = hangs.run(testing::function_request()).await;
        assert!(matches!(ran, Err(PluginError::Unknown { .. })), "{ran:?}");
    }

    #[tokio::test]
    async fn r26_error_of_a_function_keeps_its_class_through_layers() {
        let mut mock = MockOperationFunction::new();
        mock.expect_info().returning(|| "mock".into());
        mock.expect_run()
            .returning(|_| Err(PluginError::permanent("no such press")));
        let layers = ServiceBuilder::new()
            .concurrency_limit(1)
            .timeout(Duration::from_secs(5));
        let wrapped = FunctionService::new(mock).layer(&layers);
        let ran = wrapped.run(testing::function_request()).await;
        assert_eq!(ran, Err(PluginError::permanent("no such press")));
    }

    #[tokio::test]
    async fn service_is_a_function_with_the_info_that_it_is_given() {
        let service = ServiceBuilder::new()
            .timeout(Duration::from_secs(5))
            .service_fn(async |request: FunctionRequest| {
                Ok::<_, BoxError>(Answer::new().output(&request.step())?.done())
            });
        let info = FunctionInfo::new("step").repeat(Repeat::Safe);
        let step = function(FunctionService::with_info(info.clone(), service));
        assert_eq!(step.info(), info);
        let ran = step.run(testing::function_request()).await.unwrap();
        assert_eq!(ran, Answer::new().output(&"step").unwrap().done());
    }

    #[tokio::test]
    async fn probe_in_tower_layers_is_a_probe() {
        fn probe(probe: impl Probe) -> impl Probe {
            probe
        }
        let mut mock = MockProbe::new();
        mock.expect_probe().returning(|_| Ok(Probed::InProgress));
        let wrapped = probe(
            ServiceBuilder::new()
                .timeout(Duration::from_secs(5))
                .service(ProbeService::new(mock)),
        );
        let key = testing::function_request().key;
        assert_eq!(wrapped.probe(key).await, Ok(Probed::InProgress));
    }
}
