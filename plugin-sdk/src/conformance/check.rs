//! Laws of checks: layers only add to a verdict, and verdicts form a join-semilattice.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
    time::Duration,
};

use tower_layer::Layer;
use tower_service::Service;

use super::Violation;
use crate::{
    Cause, Causes, CheckPlugin, CheckRequest, Claim, Delay, Recheck, Stamp, Verdict,
    error::BoxError,
    service::{CheckLayer, Checks, StackService, stack},
};

/// The service that the tests put beneath a layer. It always returns the same verdict, or an error.
#[derive(Debug, Clone)]
pub struct Beneath(Option<Verdict>);

impl Service<CheckRequest> for Beneath {
    type Response = Verdict;
    type Error = BoxError;
    type Future = Ready<Result<Verdict, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: CheckRequest) -> Self::Future {
        ready(
            self.0
                .clone()
                .ok_or_else(|| "the service beneath failed".into()),
        )
    }
}

/// Tests the laws of check layers for `layer`, which applies to `causes`, with each of `requests`.
///
/// The layer must answer equal requests equally: use fakes in a layer that calls external systems.
///
/// ```
/// use plugin_sdk::{Causes, conformance, service::{CheckLayer, CheckService, Proceed}, testing};
///
/// # futures::executor::block_on(async {
/// let asset = testing::asset("job/eu");
/// let layer = CheckLayer::new(Proceed); // yours instead
/// conformance::check_layer(layer, Causes::ALL, [testing::check_request(&asset)]).await
/// # }).unwrap();
/// ```
///
/// # Errors
/// The first law that does not hold.
pub async fn check_layer<L>(
    layer: L,
    causes: Causes,
    requests: impl IntoIterator<Item = CheckRequest>,
) -> Result<(), Violation>
where
    L: Layer<Beneath, Service: StackService<CheckRequest, Verdict>>,
{
    for request in requests {
        for cause in [
            Cause::Intent,
            Cause::Drift,
            Cause::Rollback,
            Cause::Emergency,
        ] {
            let request = request.clone().cause(cause);
            only_adds(&layer, causes.contains(cause), &request).await?;
            names_its_delays(&layer, &request).await?;
            error_loses_nothing(&layer, &request).await?;
        }
    }
    Ok(())
}

/// As [`check_layer`], for a plugin in a [`CheckLayer`]. The causes come from the plugin's info.
///
/// # Errors
/// The first law that does not hold.
pub async fn check_plugin(
    plugin: impl CheckPlugin,
    requests: impl IntoIterator<Item = CheckRequest>,
) -> Result<(), Violation> {
    let causes = plugin.info().causes;
    check_layer(CheckLayer::new(plugin), causes, requests).await
}

/// Tests that joining three verdicts is associative, commutative and idempotent.
///
/// # Errors
/// The first law that does not hold.
pub fn join(a: &Verdict, b: &Verdict, c: &Verdict) -> Result<(), Violation> {
    let of = |x: &Verdict, y: &Verdict| x.clone().join(y.clone());
    let fail = |law, found| Err(Violation::new("join", law, found));
    if of(&of(a, b), c) != of(a, &of(b, c)) {
        return fail("join is associative", (a, b, c));
    }
    if of(a, b) != of(b, a) {
        return fail("join is commutative", (a, b, c));
    }
    if of(&of(a, b), b) != of(a, b) || !holds(a, &of(a, a)) {
        return fail("join is idempotent", (a, b, c));
    }
    if !holds(&of(a, b), a) || !holds(&of(a, b), b) {
        return fail("join keeps everything", (a, b, c));
    }
    Ok(())
}

async fn only_adds<L>(layer: &L, applies: bool, request: &CheckRequest) -> Result<(), Violation>
where
    L: Layer<Beneath, Service: StackService<CheckRequest, Verdict>>,
{
    for beneath in samples(request) {
        let found = over(layer, Some(beneath.clone()), request).await?;
        if !holds(&found, &beneath) {
            let law = "a layer keeps the whole verdict of the service beneath it";
            return Err(Violation::new(request.asset_id(), law, (found, beneath)));
        }
        if !applies && !holds(&beneath, &found) {
            let law = "a check that does not apply to a cause adds nothing";
            return Err(Violation::new(request.asset_id(), law, found));
        }
    }
    Ok(())
}

async fn names_its_delays<L>(layer: &L, request: &CheckRequest) -> Result<(), Violation>
where
    L: Layer<Beneath, Service: StackService<CheckRequest, Verdict>>,
{
    let nothing = Beneath(Some(request.proceed()));
    let checks = Checks::assemble(|_| layer.layer(nothing));
    let law =
        "a delay carries the name of a check of the stack; put the check in with a CheckLayer";
    let found = checks.call(request.clone()).await;
    let found = found.map_err(|error| Violation::new(request.asset_id(), law, error))?;
    match found
        .delays
        .iter()
        .find(|delay| !checks.names().contains(&delay.check))
    {
        Some(delay) => Err(Violation::new(request.asset_id(), law, delay)),
        None => Ok(()),
    }
}

async fn error_loses_nothing<L>(layer: &L, request: &CheckRequest) -> Result<(), Violation>
where
    L: Layer<Beneath, Service: StackService<CheckRequest, Verdict>>,
{
    let own = over(layer, Some(request.proceed()), request).await?;
    let found = over(layer, None, request).await?;
    if found.is_proceed() || found.delays.len() <= own.delays.len() {
        let law = "an error beneath is a delay";
        return Err(Violation::new(request.asset_id(), law, found));
    }
    if !holds(&found, &own) {
        let law = "an error beneath keeps every finding of the layer";
        return Err(Violation::new(request.asset_id(), law, (found, own)));
    }
    Ok(())
}

async fn over<L>(
    layer: &L,
    beneath: Option<Verdict>,
    request: &CheckRequest,
) -> Result<Verdict, Violation>
where
    L: Layer<Beneath, Service: StackService<CheckRequest, Verdict>>,
{
    let found = stack(layer.layer(Beneath(beneath)))
        .call(request.clone())
        .await;
    let law = "an error is a delay, not an error of the stack";
    found.map_err(|error| Violation::new(request.asset_id(), law, error))
}

/// Whether `all` contains all parts of `part` and is not younger.
fn holds(all: &Verdict, part: &Verdict) -> bool {
    part.delays.iter().all(|delay| all.delays.contains(delay))
        && part
            .relies_on
            .iter()
            .all(|stamp| all.relies_on.contains(stamp))
        && part.claims.iter().all(|claim| all.claims.contains(claim))
        && all.as_of <= part.as_of
}

/// Verdicts of the service beneath: an empty one, and one with every kind of part.
fn samples(request: &CheckRequest) -> [Verdict; 2] {
    let delay = |reason: &str| {
        Delay::new(reason, Recheck::After(Duration::from_secs(1)))
            .check("beneath")
            .because(reason.len())
    };
    let earlier = request.now - Duration::from_secs(30);
    let full = Verdict {
        delays: vec![delay("one reason"), delay("and another")],
        relies_on: vec![Stamp { slot: 7, seq: 2 }, Stamp { slot: 3, seq: 0 }],
        claims: vec![
            Claim::Exclusive("z".into()),
            Claim::AtMost("beneath".into(), 2),
        ],
        as_of: earlier,
    };
    [request.proceed(), full]
}
