//! Commands of operators take effect, and are required where the rules say so.

use std::time::Duration;

use control_plane::{
    prelude::*,
    sdk::service::{Proceed, StackService},
};

use crate::world::{LONG, Production, QUIET, Running, Service, Text, ann, id};

#[tokio::test(start_paused = true)]
async fn a_pause_holds_pushes_until_it_is_resumed() {
    let (text, production) = (
        Text::new("services: {eu: {size: 1}}"),
        Production::default(),
    );
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();
    for scope in [
        PauseScope::Asset(id("eu")),
        PauseScope::Type(Service::type_name().unwrap()),
        PauseScope::Partition,
    ] {
        running
            .handle
            .pause(scope.clone(), ann(), None)
            .await
            .unwrap();
        let pushes = production.pushes();
        text.edit(&format!("services: {{eu: {{size: {}}}}}", pushes + 1));
        running.handle.wait_until_owner().await.next_run().await;
        running.quiet().await;
        assert_eq!(production.pushes(), pushes, "{scope:?}");
        let explained = running.handle.explain(&id("eu")).await.unwrap();
        let said = format!("{:?}", explained.enforced().unwrap().chain[0].waiting);
        assert!(said.contains("ann") && said.contains("a test"), "{said}");
        running.handle.resume(scope, ann()).await.unwrap();
        running.handle.settle(LONG).await.unwrap();
        assert_eq!(production.pushes(), pushes + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn r12_a_turndown_waits_for_an_approval_of_its_change() {
    let both = "services: {eu: {size: 1}, us: {size: 1}}";
    let (text, production) = (Text::new(both), Production::default());
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();

    text.edit("services: {eu: {size: 1}, us: {size: 1, turndown: true}}");
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;
    assert_eq!(production.size("us"), Some(1));
    let explained = running.handle.explain(&id("us")).await.unwrap();
    let change = explained.enforced().unwrap().chain[0]
        .change
        .clone()
        .unwrap();
    assert!(change.effects.destructive);
    let other = prodspec_model::Digest::of(b"another change");
    let handle = &running.handle;
    let refused = handle.approve(&id("us"), other, ann(), None).await;
    let why = refused.unwrap_err().to_string();
    assert!(why.contains(&change.digest.to_string()), "{why}");
    running.quiet().await;
    assert_eq!(production.size("us"), Some(1));

    let us = id("us");
    let approved = handle.approve(&us, change.digest, ann(), None);
    approved.await.unwrap();
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(
        (production.size("eu"), production.size("us")),
        (Some(1), None)
    );
    // The decision about the push names the operator who approved it, and the approval is used up.
    let explained = handle.explain(&us).await.unwrap();
    let decisions = &explained.enforced().unwrap().decisions;
    let allowed: Vec<_> = decisions.iter().flat_map(|it| &it.allowed_by).collect();
    assert_eq!(allowed.len(), 1);
    assert_eq!(allowed[0].by, ann());
    assert_eq!(handle.interventions().await.unwrap().approvals, []);
}

#[tokio::test(start_paused = true)]
async fn an_override_lifts_one_check_for_one_change() {
    let chain = "services: {a: {size: 1, needs: [b]}, b: {size: 1}}";
    let (text, production) = (Text::new(chain), Production::default());
    production.state().broken.insert(id("b"));
    let running = Running::over(&text, &production);
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;
    assert_eq!(production.size("a"), None);

    let explained = running.handle.explain(&id("a")).await.unwrap();
    let change = explained.enforced().unwrap().chain[0]
        .change
        .clone()
        .unwrap();
    let handle = &running.handle;
    handle
        .override_check(&id("a"), change.digest, "dependency-solver", ann(), None)
        .await
        .unwrap();
    let newest = handle.latest().await.unwrap().no();
    handle
        .wait_settled(Settle::Asset(id("a"), newest), LONG)
        .await
        .unwrap();
    assert_eq!(
        (production.size("a"), production.size("b")),
        (Some(1), None)
    );
}

/// A check registered as `incident` whose delays carry the name of another check.
struct FalselyNamed(&'static str);

#[async_trait]
impl CheckPlugin for FalselyNamed {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("incident")
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        Ok(Verdict::delay(request.now, not_now(self.0)))
    }
}

fn not_now(check: &str) -> Delay {
    Delay::new("not now", Recheck::After(Duration::from_secs(1))).check(check)
}

/// Runs a control plane with these checks, and overrides the check named `lifted` for the first change of `eu`. Returns
/// whether `eu` was pushed.
async fn pushed_in_spite_of<S>(checks: impl FnOnce(Proceed) -> S, lifted: &str) -> bool
where
    S: StackService<CheckRequest, Verdict>,
{
    let production = Production::default();
    let plane = crate::world::plane(&production)
        .checks(checks)
        .store(MemoryStore::new())
        .source(Text::new("services: {eu: {size: 1}}"));
    let running = Running::start(plane.build().unwrap());
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;
    let explained = running.handle.explain(&id("eu")).await.unwrap();
    let change = explained.enforced().unwrap().chain[0].change.clone();
    let handle = &running.handle;
    let _ = handle
        .override_check(&id("eu"), change.unwrap().digest, lifted, ann(), None)
        .await;
    let newest = handle.latest().await.unwrap().no();
    let settled = handle.wait_settled(Settle::All(newest), QUIET).await;
    assert_eq!(settled.is_ok(), production.size("eu").is_some());
    settled.is_ok()
}

#[tokio::test(start_paused = true)]
async fn r7_a_delay_carries_the_name_under_which_its_check_was_registered() {
    let falsely_named = |base| {
        ServiceBuilder::new()
            .layer(DependencySolverLayer::standard())
            .layer(CheckLayer::new(FalselyNamed("dependency-solver")))
            .service(base)
    };
    assert!(!pushed_in_spite_of(falsely_named, "dependency-solver").await);
    assert!(pushed_in_spite_of(falsely_named, "incident").await);
}

#[tokio::test(start_paused = true)]
async fn r7_no_override_lifts_the_delay_of_an_unnamed_layer() {
    for name in ["dependency-solver", "checks", "stack", "mine"] {
        let adds = move |base| {
            ServiceBuilder::new()
                .map_response(move |verdict: Verdict| {
                    let delay = Verdict::delay(verdict.as_of, not_now(name));
                    verdict.join(delay)
                })
                .layer(DependencySolverLayer::standard())
                .service(base)
        };
        assert!(!pushed_in_spite_of(adds, name).await, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn look_now_finds_a_manual_change() {
    let (text, production) = (
        Text::new("services: {eu: {size: 1}}"),
        Production::default(),
    );
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();
    // The look finds no difference, and the call still gets an answer.
    running.handle.look_now(&id("eu"), ann()).await.unwrap();
    production.state().sizes.insert(id("eu"), 9);
    running.handle.look_now(&id("eu"), ann()).await.unwrap();
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(production.size("eu"), Some(1));
}
