//! Assembled stacks: any cloneable service behind one pointer, callable without waiting for readiness.

use std::sync::Arc;

use futures::future::BoxFuture;
use tower_service::Service;

use crate::error::BoxError;

/// Calls a service through a shared reference. Implemented by [`stack`] for every cloneable service.
pub trait Call<Request, Response>: Send + Sync {
    /// Waits until the service is ready, then calls it.
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Response, BoxError>>;
}

/// A complete stack of layers, assembled once and cheap to clone.
pub type Stack<Request, Response> = Arc<dyn Call<Request, Response>>;

struct Cloned<S>(S);

impl<S, Request> Call<Request, S::Response> for Cloned<S>
where
    S: Service<Request, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
    Request: Send + 'static,
{
    fn call(&self, request: Request) -> BoxFuture<'static, Result<S::Response, BoxError>> {
        let mut service = self.0.clone();
        Box::pin(async move {
            std::future::poll_fn(|cx| service.poll_ready(cx))
                .await
                .map_err(Into::into)?;
            service.call(request).await.map_err(Into::into)
        })
    }
}

/// Assembles a service and its layers into a stack.
pub fn stack<S, Request>(service: S) -> Stack<Request, S::Response>
where
    S: Service<Request, Error: Into<BoxError>, Future: Send> + Clone + Send + Sync + 'static,
    Request: Send + 'static,
{
    Arc::new(Cloned(service))
}
