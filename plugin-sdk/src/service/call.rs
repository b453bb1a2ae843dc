//! Assembled stacks: any cloneable service behind one pointer, callable without waiting for readiness.

use std::sync::Arc;

use futures::future::BoxFuture;
use tower_service::Service;

use crate::error::BoxError;

/// A tower service that answers every `Request` with a `Response`: a stack of layers, or a part of one. Every cloneable
/// service with these types is one; there is nothing to implement.
pub trait StackService<Request, Response>:
    Service<Request, Response = Response, Error: Into<BoxError>, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S, Request, Response> StackService<Request, Response> for S where
    S: Service<Request, Response = Response, Error: Into<BoxError>, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// A clone of `service` that is ready for a call.
pub(super) async fn ready<S, Request, Response>(service: &S) -> Result<S, BoxError>
where
    S: StackService<Request, Response>,
{
    let mut service = service.clone();
    let ready = std::future::poll_fn(|cx| service.poll_ready(cx)).await;
    ready.map_err(Into::into)?;
    Ok(service)
}

/// Calls a clone of `service` as soon as it is ready.
pub(super) async fn call<Request, Response>(
    service: &impl StackService<Request, Response>,
    request: Request,
) -> Result<Response, BoxError> {
    let called = ready(service).await?.call(request);
    called.await.map_err(Into::into)
}

/// Calls a service through a shared reference. Implemented by [`stack`] for every [`StackService`].
pub trait Call<Request, Response>: Send + Sync {
    /// Waits until the service is ready, then calls it.
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Response, BoxError>>;
}

/// A complete stack of layers, assembled once and cheap to clone.
pub type Stack<Request, Response> = Arc<dyn Call<Request, Response>>;

struct Cloned<S>(S);

impl<S, Request, Response> Call<Request, Response> for Cloned<S>
where
    S: StackService<Request, Response>,
    Request: Send + 'static,
{
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Response, BoxError>> {
        let service = self.0.clone();
        Box::pin(async move { call(&service, request).await })
    }
}

/// Assembles a service and its layers into a stack.
pub fn stack<Request, Response>(
    service: impl StackService<Request, Response>,
) -> Stack<Request, Response>
where
    Request: Send + 'static,
{
    Arc::new(Cloned(service))
}
