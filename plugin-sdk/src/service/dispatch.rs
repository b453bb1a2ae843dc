//! Conversions between [`DispatchPlugin`], services and layers.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::{BoxFuture, join};
use tower_layer::Layer;
use tower_service::Service;

use super::call::{StackService, call};
use crate::{
    check::{CheckName, Delay, Recheck},
    dispatch::{Dispatch, DispatchPlugin, DispatchRequest},
    error::{BoxError, with_causes},
};

/// Time until a rule that failed is asked again.
const AFTER_ERROR: Duration = Duration::from_secs(10);

/// The base service of every dispatch stack. It answers with the class by cause and has nothing against the step.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByCause;

impl Service<DispatchRequest> for ByCause {
    type Response = Dispatch;
    type Error = Infallible;
    type Future = Ready<Result<Dispatch, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: DispatchRequest) -> Self::Future {
        ready(Ok(request.go()))
    }
}

/// Wraps a dispatch rule as a service, to be the base of a stack.
#[derive(Debug)]
pub struct DispatchService<P: ?Sized>(Arc<P>);

impl<P> DispatchService<P> {
    /// Wraps `plugin` as a service. Its delays carry its name.
    pub fn new(plugin: P) -> Self {
        Self(Arc::new(plugin))
    }
}

impl<P: ?Sized> Clone for DispatchService<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: DispatchPlugin + ?Sized> Service<DispatchRequest> for DispatchService<P> {
    type Response = Dispatch;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Dispatch, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: DispatchRequest) -> Self::Future {
        let plugin = self.0.clone();
        Box::pin(async move {
            let name = plugin.name();
            let lowest = request.go();
            let found = plugin.dispatch(request).await?;
            Ok(lowest.join(found).stamped(&name, &name))
        })
    }
}

#[async_trait]
impl<S> DispatchPlugin for S
where
    S: StackService<DispatchRequest, Dispatch>,
{
    /// A service is named `service`. Use [`DispatchLayer::named`] to give it another name.
    fn name(&self) -> CheckName {
        "service".into()
    }

    async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError> {
        call(self, request).await
    }
}

/// Adds a dispatch rule to a stack. It runs concurrently with the service beneath, and the layer joins both answers: the
/// rule can raise the class, add delays and add claims, and nothing else.
///
/// An error of one of them becomes a delay, and what the other found is kept. The layer stamps the name of the rule on its
/// delays: its own, or the one set with [`named`](Self::named).
///
/// ```
/// # use plugin_sdk::{DispatchPlugin, service::{ByCause, DispatchLayer}};
/// # fn stack(one: impl DispatchPlugin, other: impl DispatchPlugin) {
/// let dispatch = tower::ServiceBuilder::new()
///     .layer(DispatchLayer::new(one))
///     .layer(DispatchLayer::new(other).named("fair-by-team"))
///     .service(ByCause);
/// # }
/// ```
#[derive(Debug)]
pub struct DispatchLayer<P: ?Sized> {
    name: Option<CheckName>,
    plugin: Arc<P>,
}

impl<P> DispatchLayer<P> {
    /// Makes a layer that asks `plugin`.
    pub fn new(plugin: P) -> Self {
        Self::shared(Arc::new(plugin))
    }
}

impl<P: ?Sized> DispatchLayer<P> {
    /// Makes a layer that asks a shared rule.
    pub fn shared(plugin: Arc<P>) -> Self {
        let name = None;
        Self { name, plugin }
    }

    /// Stamps `name` on the delays instead of the rule's own name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<P: ?Sized> Clone for DispatchLayer<P> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            plugin: self.plugin.clone(),
        }
    }
}

impl<S, P: DispatchPlugin + ?Sized> Layer<S> for DispatchLayer<P> {
    type Service = Dispatched<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        let own = || self.plugin.name();
        Dispatched {
            inner,
            name: self.name.clone().unwrap_or_else(own),
            plugin: self.plugin.clone(),
        }
    }
}

/// The service made by [`DispatchLayer`]: a rule and the service beneath it.
#[derive(Debug)]
pub struct Dispatched<S, P: ?Sized> {
    inner: S,
    name: CheckName,
    plugin: Arc<P>,
}

impl<S: Clone, P: ?Sized> Clone for Dispatched<S, P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            name: self.name.clone(),
            plugin: self.plugin.clone(),
        }
    }
}

impl<S, P> Service<DispatchRequest> for Dispatched<S, P>
where
    S: StackService<DispatchRequest, Dispatch>,
    P: DispatchPlugin + ?Sized,
{
    type Response = Dispatch;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Dispatch, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: DispatchRequest) -> Self::Future {
        let lowest = request.go();
        let beneath = self.inner.call(request.clone());
        let without = lowest.clone();
        let beneath = async move {
            let found = beneath.await.map_err(Into::into);
            found.unwrap_or_else(|error| {
                let failed = failed("the rules beneath failed", &error);
                without.delayed(failed.check("dispatch"))
            })
        };
        let (plugin, name) = (self.plugin.clone(), self.name.clone());
        Box::pin(async move {
            let (beneath, own) = join(beneath, plugin.dispatch(request)).await;
            let own = match own {
                Ok(found) => found.stamped(&name, &plugin.name()),
                Err(error) => lowest.delayed(failed("the rule failed", &error).check(name)),
            };
            Ok(beneath.join(own))
        })
    }
}

/// A delay for a rule that failed.
fn failed(what: &str, error: &BoxError) -> Delay {
    let reason = format!("{what}: {}", with_causes(&**error));
    Delay::new(reason, Recheck::After(AFTER_ERROR))
}

#[cfg(test)]
mod tests {
    use tower::ServiceBuilder;

    use super::*;
    use crate::{
        Cause, Claim, Class,
        operation::StartCause,
        service::stack,
        testing::{self, MockDispatchPlugin},
    };

    /// A rule named `name` that answers with what `found` makes of the lowest answer.
    fn rule(name: &'static str, found: fn(DispatchRequest) -> Dispatch) -> MockDispatchPlugin {
        let mut mock = MockDispatchPlugin::new();
        mock.expect_name().returning(move || name.into());
        mock.expect_dispatch()
            .returning(move |request| Ok(found(request)));
        mock
    }

    #[tokio::test]
    async fn r32_every_rule_is_asked_and_an_error_is_a_delay_that_keeps_other_findings() {
        let mut fails = MockDispatchPlugin::new();
        fails.expect_name().returning(|| "fails".into());
        fails
            .expect_dispatch()
            .returning(|_| Err("no answer".into()));
        let urgent = rule("urgent", |request| request.go().at_least(Class::Urgent));
        let drain = rule("drain", |request| request.delay("being drained"));
        let fair = rule("fair", |request| {
            request.go().claim(Claim::AtMost("fair/shop".into(), 10))
        });
        let rules = stack(
            ServiceBuilder::new()
                .layer(DispatchLayer::new(urgent))
                .layer(DispatchLayer::new(fails))
                .layer(DispatchLayer::new(drain).named("shop-drain"))
                .service(DispatchService::new(fair)),
        );
        let found = rules.call(testing::dispatch_request()).await.unwrap();
        assert_eq!(found.class, Class::Urgent);
        assert_eq!(found.claims, [Claim::AtMost("fair/shop".into(), 10)]);
        let delays: Vec<String> = found
            .delays
            .iter()
            .map(|delay| format!("{}: {}", delay.check, delay.reason))
            .collect();
        assert_eq!(
            delays,
            [
                "fails: the rule failed: no answer",
                "shop-drain: being drained"
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn r32_timeout_beneath_is_a_delay() {
        let hangs = tower::service_fn(|_: DispatchRequest| {
            std::future::pending::<Result<Dispatch, BoxError>>()
        });
        let rules = stack(
            ServiceBuilder::new()
                .layer(DispatchLayer::new(ByCause))
                .timeout(Duration::from_secs(5))
                .service(hangs),
        );
        let found = rules.call(testing::dispatch_request()).await.unwrap();
        assert_eq!(found.delays[0].check.as_str(), "dispatch");
        assert!(!found.is_go());
    }

    #[tokio::test]
    async fn r32_class_by_cause_is_the_base_and_a_rule_does_not_lower_it() {
        let lowers = rule("lowers", |request| {
            let mut found = request.go();
            found.class = Class::Background;
            found
        });
        let rules = stack(DispatchService::new(lowers));
        let asset = testing::asset("season/2027").id();
        let push = |cause| StartCause::Push {
            asset: asset.clone(),
            incarnation: prodspec_model::IncarnationNo(1),
            cause,
        };
        let slot = StartCause::Slot {
            schedule: asset.clone(),
            at: testing::NOW,
        };
        for (cause, start, step) in [
            (StartCause::Command, Class::New, Class::UnderWay),
            (slot, Class::Background, Class::Background),
            (push(Cause::Intent), Class::New, Class::UnderWay),
            (push(Cause::Rollback), Class::Urgent, Class::Urgent),
        ] {
            let mut request = testing::dispatch_request();
            request.class = Class::of(&cause, false, false);
            request.cause = cause;
            let found = rules.call(request.clone()).await.unwrap();
            assert_eq!(found.class, start);
            let request = request.step("load".into(), None, false);
            assert_eq!(rules.call(request.clone()).await.unwrap().class, step);
            let cleans_up = request.step("undo".into(), None, true);
            assert_eq!(rules.call(cleans_up).await.unwrap().class, Class::Urgent);
        }
    }
}
