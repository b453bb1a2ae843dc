//! Conversions between [`AssetPlugin`] and a service of diffs and pushes.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use tower_service::Service;

use super::call::{StackService, call, ready};
use crate::{
    diff::{Diff, DiffRequest},
    error::PluginError,
    push::{AssetPlugin, PushRequest, Pushed},
};

/// Wraps a plugin as a tower service, so that tower layers can be put around it.
///
/// ```
/// # use plugin_sdk::{AssetPlugin, service::AssetService};
/// # use std::time::Duration;
/// # fn wrap(plugin: impl AssetPlugin) -> impl AssetPlugin {
/// tower::ServiceBuilder::new()
///     .concurrency_limit(8)
///     .timeout(Duration::from_secs(5))
///     .service(AssetService::new(plugin)) // still an AssetPlugin
/// # }
/// ```
#[derive(Debug)]
pub struct AssetService<P>(Arc<P>);

impl<P> AssetService<P> {
    /// Wraps `plugin` as a service.
    pub fn new(plugin: P) -> Self {
        Self(Arc::new(plugin))
    }
}

impl<P> Clone for AssetService<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: AssetPlugin> Service<DiffRequest> for AssetService<P> {
    type Response = Diff;
    type Error = PluginError;
    type Future = BoxFuture<'static, Result<Diff, PluginError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), PluginError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: DiffRequest) -> Self::Future {
        let plugin = self.0.clone();
        Box::pin(async move { plugin.diff(request).await })
    }
}

impl<P: AssetPlugin> Service<PushRequest> for AssetService<P> {
    type Response = Pushed;
    type Error = PluginError;
    type Future = BoxFuture<'static, Result<Pushed, PluginError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), PluginError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: PushRequest) -> Self::Future {
        let plugin = self.0.clone();
        Box::pin(async move { plugin.push(request).await })
    }
}

#[async_trait]
impl<S> AssetPlugin for S
where
    S: StackService<DiffRequest, Diff> + StackService<PushRequest, Pushed>,
{
    async fn diff(&self, request: DiffRequest) -> Result<Diff, PluginError> {
        let diff = call(self, request).await;
        diff.map_err(|error| PluginError::of(error, PluginError::transient))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, PluginError> {
        let ready = ready::<_, PushRequest, _>(self).await;
        let mut service = ready.map_err(|error| PluginError::of(error, PluginError::transient))?;
        service
            .call(request)
            .await
            .map_err(|error| PluginError::of(error.into(), PluginError::unknown))
    }
}
