//! Conversions between [`TargetSelection`] and services; the base of policy stacks; layers made from pure rules.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use super::call::{StackService, call};
use crate::{
    error::BoxError,
    select::{SelectRequest, Selection, TargetSelection},
};

/// The base service of every policy stack. It selects every target that waits, in the given order, but for those
/// that must not be selected [now](SelectRequest::not_now).
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
        let waiting = request.targets.census().waiting().iter().copied();
        let mut selection = Selection::of(waiting);
        if !request.not_now.is_empty() {
            selection = selection.narrowed(|place| request.not_now.binary_search(&place).is_err());
        }
        ready(Ok(selection))
    }
}

/// Wraps a target selection as a service.
#[derive(Debug)]
pub struct SelectService<P: ?Sized>(Arc<P>);

impl<P> SelectService<P> {
    /// Wraps `selection` as a service.
    pub fn new(selection: P) -> Self {
        Self(Arc::new(selection))
    }
}

impl<P: ?Sized> SelectService<P> {
    /// Wraps a shared selection as a service.
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
    S: StackService<SelectRequest, Selection>,
{
    async fn select(&self, request: SelectRequest) -> Result<Selection, BoxError> {
        call(self, request).await
    }
}

/// A pure rule that chooses among the targets that the selection beneath chose, and says what the other targets wait
/// for.
///
/// Closures implement this trait.
pub trait Narrow: Clone + Send + Sync + 'static {
    /// Returns the part of the selection `beneath` that this rule allows.
    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection;
}

impl<F> Narrow for F
where
    F: Fn(&SelectRequest, Selection) -> Selection + Clone + Send + Sync + 'static,
{
    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        self(request, beneath)
    }
}

/// Adds a rule to a policy stack.
///
/// ```
/// use plugin_sdk::{SelectRequest, Selection, Until, service::{AllTargets, NarrowLayer}};
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(NarrowLayer::new(|request: &SelectRequest, beneath: Selection| {
///         if request.targets.len() < 100 {
///             return beneath;
///         }
///         let why = "more than 99 targets: ask the operators first";
///         beneath.retain(request, |_| false).waiting(why, Until::Person)
///     }))
///     .service(AllTargets);
/// ```
#[derive(Debug, Clone)]
pub struct NarrowLayer<N>(N);

impl<N: Narrow> NarrowLayer<N> {
    /// Makes a layer that applies `rule`.
    pub fn new(rule: N) -> Self {
        Self(rule)
    }
}

impl<S, N: Narrow> Layer<S> for NarrowLayer<N> {
    type Service = Narrowed<S, N>;

    fn layer(&self, inner: S) -> Self::Service {
        Narrowed {
            inner,
            rule: self.0.clone(),
        }
    }
}

/// The service made by [`NarrowLayer`]: a rule and the service beneath it.
#[derive(Debug, Clone)]
pub struct Narrowed<S, N> {
    inner: S,
    rule: N,
}

impl<S, N> Service<SelectRequest> for Narrowed<S, N>
where
    S: StackService<SelectRequest, Selection>,
    N: Narrow,
{
    type Response = Selection;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Selection, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: SelectRequest) -> Self::Future {
        let beneath = self.inner.call(request.clone());
        let rule = self.rule.clone();
        Box::pin(async move { Ok(rule.narrow(&request, beneath.await.map_err(Into::into)?)) })
    }
}
