//! [`TargetSelection`] as a service, and back; and the bottom of every policy stack.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use tower_service::Service;

use crate::{
    error::BoxError,
    select::{SelectRequest, Selection, TargetSelection},
};

/// The bottom of every policy stack: every target that waits, in the order given.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllTargets;

impl Service<SelectRequest> for AllTargets {
    type Response = Selection;
    type Error = Infallible;
    type Future = Ready<Result<Selection, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: SelectRequest) -> Self::Future {
        let waiting = (0..).zip(request.targets.iter());
        let waiting = waiting.filter(|(_, target)| target.is_waiting());
        ready(Ok(Selection {
            now: waiting.map(|(place, _)| place).collect(),
            ..Selection::default()
        }))
    }
}

/// A target selection as a service of its own.
#[derive(Debug)]
pub struct SelectService<P: ?Sized>(Arc<P>);

impl<P> SelectService<P> {
    /// Wraps `selection`.
    pub fn new(selection: P) -> Self {
        Self(Arc::new(selection))
    }
}

impl<P: ?Sized> SelectService<P> {
    /// Wraps a selection that somebody else holds too.
    pub fn shared(selection: Arc<P>) -> Self {
        Self(selection)
    }
}

impl<P: ?Sized> Clone for SelectService<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: TargetSelection + ?Sized> Service<SelectRequest> for SelectService<P> {
    type Response = Selection;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Selection, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: SelectRequest) -> Self::Future {
        let selection = self.0.clone();
        Box::pin(async move { selection.select(request).await })
    }
}

#[async_trait]
impl<S> TargetSelection for S
where
    S: Service<SelectRequest, Response = Selection, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    async fn select(&self, request: SelectRequest) -> Result<Selection, BoxError> {
        let mut service = self.clone();
        std::future::poll_fn(|cx| service.poll_ready(cx))
            .await
            .map_err(Into::into)?;
        service.call(request).await.map_err(Into::into)
    }
}
