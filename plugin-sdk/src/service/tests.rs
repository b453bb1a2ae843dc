//! Plugins as services and services as plugins, with tower's own layers between them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use prodspec_model::Asset;
use tokio::sync::Notify;
use tower::{Layer, ServiceBuilder};

use super::*;
use crate::{
    AssetIntent, AssetPlugin, BoxError, Cause, Causes, CheckInfo, CheckName, CheckPlugin,
    CheckRequest, Delay, Diff, DiffRequest, FencingToken, Finding, Health, Judgement, Progress,
    PushRequest, Pushed, Recheck, Run, SelectRequest, Selection, TargetSelection, Verdict,
    conformance::AssetSuite,
    plugin,
    testing::{self, InMemoryProduction, MockAssetPlugin, MockTargetSelection},
};

fn diff_request(asset: &Asset) -> DiffRequest {
    let incarnation = testing::incarnation(1, [asset.clone()]);
    let run = Run {
        slot: 0,
        n: 1,
        incarnation: incarnation.no(),
    };
    DiffRequest::new(
        AssetIntent::new(incarnation, asset.clone()),
        FencingToken(1),
        run,
    )
}

fn push_request(asset: &Asset) -> PushRequest {
    let diff = diff_request(asset);
    let change = asset.digest();
    PushRequest::new(diff.intent, diff.token, diff.run, change)
}

/// A plugin and check that never answers.
struct Hangs;

#[async_trait]
impl AssetPlugin for Hangs {
    async fn diff(&self, _: DiffRequest) -> Result<Diff, plugin::Error> {
        std::future::pending().await
    }
    async fn push(&self, _: PushRequest) -> Result<Pushed, plugin::Error> {
        std::future::pending().await
    }
}

#[async_trait]
impl CheckPlugin for Hangs {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("hangs")
    }
    async fn check(&self, _: CheckRequest) -> Result<Verdict, BoxError> {
        std::future::pending().await
    }
}

/// Compiles only if the argument is a plugin.
fn plugin(plugin: impl AssetPlugin) -> impl AssetPlugin {
    plugin
}

#[tokio::test]
async fn plugin_in_tower_layers_keeps_the_laws() {
    let production = Arc::new(InMemoryProduction::new());
    let wrapped = plugin(
        ServiceBuilder::new()
            .concurrency_limit(2)
            .timeout(Duration::from_secs(5))
            .service(AssetService::new(Shared(production.clone()))),
    );
    let intent = testing::incarnation(1, [testing::asset("job/eu"), testing::asset("job/us")]);
    let mut suite = AssetSuite::new().guarded();
    suite.run(&wrapped, &intent).await.unwrap();
    assert_eq!(production.effective_pushes(), 2);
}

/// A user's own plugin, which the blanket impl does not cover.
struct Shared(Arc<InMemoryProduction>);

#[async_trait]
impl AssetPlugin for Shared {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.0.diff(request).await
    }
    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.0.push(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn layer_timeout_is_transient_for_a_diff_and_unknown_for_a_push() {
    let wrapped = plugin(
        ServiceBuilder::new()
            .timeout(Duration::from_secs(5))
            .service(AssetService::new(Hangs)),
    );
    let asset = testing::asset("job/eu");
    let diff = wrapped.diff(diff_request(&asset)).await;
    assert!(
        matches!(diff, Err(plugin::Error::Transient { .. })),
        "{diff:?}"
    );
    let push = wrapped.push(push_request(&asset)).await;
    assert!(
        matches!(push, Err(plugin::Error::Unknown { .. })),
        "{push:?}"
    );
}

#[tokio::test]
async fn plugin_error_keeps_its_class_through_layers() {
    let mut mock = MockAssetPlugin::new();
    mock.expect_diff()
        .returning(|_| Err(plugin::Error::permanent("no such cell")));
    let wrapped = plugin(
        ServiceBuilder::new()
            .concurrency_limit(1)
            .timeout(Duration::from_secs(5))
            .service(AssetService::new(mock)),
    );
    let diff = wrapped.diff(diff_request(&testing::asset("job/eu"))).await;
    assert_eq!(diff, Err(plugin::Error::permanent("no such cell")));
}

/// Counts the concurrent pushes, each of which waits until the test releases it.
#[derive(Default)]
struct Counted {
    inside: AtomicUsize,
    most: AtomicUsize,
    go: Notify,
}

struct Counts(Arc<Counted>);

#[async_trait]
impl AssetPlugin for Counts {
    async fn diff(&self, _: DiffRequest) -> Result<Diff, plugin::Error> {
        Ok(Diff::in_sync())
    }
    async fn push(&self, _: PushRequest) -> Result<Pushed, plugin::Error> {
        let inside = self.0.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(inside, Ordering::SeqCst);
        self.0.go.notified().await;
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(Pushed::Done)
    }
}

#[tokio::test]
async fn concurrency_limit_layer_limits_the_plugin() {
    let counted = Arc::new(Counted::default());
    let wrapped = plugin(
        ServiceBuilder::new()
            .concurrency_limit(2)
            .service(AssetService::new(Counts(counted.clone()))),
    );
    let asset = testing::asset("job/eu");
    let pushes = futures::future::join_all((0..6).map(|_| wrapped.push(push_request(&asset))));
    let release = async {
        for _ in 0..6 {
            while counted.inside.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            counted.go.notify_one();
            tokio::task::yield_now().await;
        }
    };
    let (pushed, ()) = futures::join!(pushes, release);
    assert!(pushed.iter().all(Result::is_ok));
    assert_eq!(counted.most.load(Ordering::SeqCst), 2);
}

/// A check that delays under a given name.
struct Delays(&'static str);

#[async_trait]
impl CheckPlugin for Delays {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.0)
    }
    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let delay = Delay::new("not now", Recheck::After(Duration::from_secs(1))).check(self.0);
        Ok(Verdict::delay(request.now, delay))
    }
}

/// A check that fails with an error that has a source.
struct Fails;

#[derive(Debug, thiserror::Error)]
#[error("the alerts cannot be read")]
struct Outer(#[source] std::io::Error);

#[async_trait]
impl CheckPlugin for Fails {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("fails")
    }
    async fn check(&self, _: CheckRequest) -> Result<Verdict, BoxError> {
        Err(Outer(std::io::Error::other("connection refused")).into())
    }
}

fn names(verdict: &Verdict) -> Vec<String> {
    let name = |delay: &Delay| delay.check.to_string();
    verdict.delays.iter().map(name).collect()
}

fn request() -> CheckRequest {
    testing::check_request(&testing::asset("job/eu"))
}

#[tokio::test]
async fn r7_every_check_runs_and_an_error_is_a_delay_that_keeps_other_findings() {
    let checks = stack(
        ServiceBuilder::new()
            .layer(CheckLayer::new(Delays("above")))
            .layer(CheckLayer::new(Fails))
            .layer(CheckLayer::new(Delays("beneath")))
            .service(Proceed),
    );
    let verdict = checks.call(request()).await.unwrap();
    assert_eq!(names(&verdict), ["above", "beneath", "fails"]);
    assert_eq!(
        verdict.delays[2].reason,
        "the check failed: the alerts cannot be read: connection refused"
    );
}

#[tokio::test(start_paused = true)]
async fn r7_layer_timeout_beneath_is_a_delay_that_keeps_other_findings() {
    let checks = stack(
        ServiceBuilder::new()
            .layer(CheckLayer::new(Delays("above")))
            .timeout(Duration::from_secs(30))
            .concurrency_limit(4)
            .layer(CheckLayer::new(Hangs))
            .service(Proceed),
    );
    let verdict = checks.call(request()).await.unwrap();
    assert_eq!(names(&verdict), ["above", CheckName::STACK]);
}

#[tokio::test]
async fn check_stack_works_as_a_check() {
    let checks = Checks::assemble(|_| {
        let inner = ServiceBuilder::new()
            .timeout(Duration::from_secs(30))
            .layer(CheckLayer::new(Delays("inner")))
            .service(Proceed);
        ServiceBuilder::new()
            .layer(CheckLayer::new(inner))
            .service(CheckService::new(Delays("base")))
    });
    let verdict = checks.call(request()).await.unwrap();
    assert_eq!(names(&verdict), ["base", "inner"]);
    assert_eq!(registered(&checks), ["base", "inner", "service"]);
}

fn registered(checks: &Checks) -> Vec<String> {
    checks.names().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn r7_the_layer_names_the_delays_of_its_check() {
    let checks = stack(
        ServiceBuilder::new()
            .layer(CheckLayer::new(Delays("calendar")).named("office-hours"))
            .layer(CheckLayer::new(CheckService::new(Delays("calendar"))))
            .layer(CheckLayer::new(CheckService::new(Fails)).named("alerts"))
            .service(Proceed),
    );
    let verdict = checks.call(request()).await.unwrap();
    assert_eq!(names(&verdict), ["alerts", "office-hours", "service"]);
    let reasons: Vec<_> = verdict.delays.iter().map(|delay| &delay.reason).collect();
    assert_eq!(reasons[1], "not now");
    assert_eq!(
        reasons[2], "calendar: not now",
        "the name that the check wrote"
    );
}

#[tokio::test]
async fn r7_check_added_outside_of_the_assembly_has_no_registered_name() {
    let before = CheckLayer::new(Delays("calendar")).layer(Proceed);
    let checks = Checks::assemble(|_| CheckLayer::new(Delays("calendar")).layer(before));
    let verdict = checks.call(request()).await.unwrap();
    assert_eq!(names(&verdict), ["calendar", CheckName::STACK]);
    assert_eq!(verdict.delays[1].reason, "calendar: not now");
    assert_eq!(registered(&checks), ["calendar"]);
    // The same holds for a stack that was assembled on its own before.
    let own = Checks::assemble(|base| CheckLayer::new(Delays("calendar")).layer(base));
    let own = tower::service_fn(move |request| own.call(request));
    let checks = Checks::assemble(|_| CheckLayer::new(own).layer(Proceed));
    let verdict = checks.call(request()).await.unwrap();
    assert_eq!(names(&verdict), ["service"]);
}

#[test]
fn r7_names_of_checks_are_unique_and_typeable() {
    let two = |one: &'static str, other: &'static str| {
        Checks::assemble(|base| {
            ServiceBuilder::new()
                .layer(CheckLayer::new(Delays(one)))
                .layer(CheckLayer::new(Delays("other")).named(other))
                .service(base)
        })
        .validate()
    };
    assert_eq!(two("calendar", "incident"), Ok(()));
    let twice = two("calendar", "calendar").unwrap_err();
    assert_eq!(twice, checks::Error::Twice(vec!["calendar".into()]));
    assert!(twice.to_string().contains("`calendar`"), "{twice}");
    assert!(twice.to_string().contains(".named("), "{twice}");
    for unfit in [CheckName::STACK, "", " calendar", "two\nlines", "\u{1b}[2J"] {
        let refused = two("calendar", unfit).unwrap_err();
        assert_eq!(refused, checks::Error::Name(unfit.into()));
    }
}

#[test]
fn assembly_that_panics_leaves_no_names_behind() {
    let outer = Checks::assemble(|base| {
        let inner = std::panic::catch_unwind(|| {
            Checks::assemble(|base| -> Proceed {
                let _ = CheckLayer::new(Delays("inner")).layer(base);
                panic!("on purpose")
            })
        });
        assert!(inner.is_err());
        CheckLayer::new(Delays("outer")).layer(base)
    });
    assert_eq!(registered(&outer), ["outer"]);
    assert_eq!(registered(&Checks::default()), [""; 0]);
}

#[tokio::test]
async fn r6_base_check_applies_to_its_causes_only() {
    let mut check = testing::MockCheckPlugin::new();
    check
        .expect_info()
        .returning(|| CheckInfo::new("intent-only").only_for(Causes::INTENT));
    check.expect_check().returning(|request| {
        let delay = Delay::new("not now", Recheck::After(Duration::from_secs(1)));
        Ok(Verdict::delay(request.now, delay))
    });
    let checks = stack(CheckService::new(check));
    assert!(!checks.call(request()).await.unwrap().is_proceed());
    let cure = request().cause(Cause::Drift);
    assert!(checks.call(cure).await.unwrap().is_proceed());
}

#[tokio::test]
async fn layer_stamps_the_name_of_its_validator_on_findings() {
    let finds = |validator: &str| {
        let mut mock = testing::MockHealthValidator::new();
        mock.expect_name().returning(|| "errors".into());
        let finding = Finding::new(Judgement::Unhealthy, "too many").validator(validator);
        mock.expect_validate()
            .returning(move |request| Ok(Health::found(request.now, finding.clone())));
        mock
    };
    let health = stack(
        ServiceBuilder::new()
            .layer(HealthLayer::new(finds("latency")))
            .layer(HealthLayer::new(finds("errors")).named("http-errors"))
            .layer(HealthLayer::new(HealthService::new(finds("errors"))))
            .service(Healthy),
    );
    let found = health
        .call(testing::health_request(["job/eu"]))
        .await
        .unwrap();
    let found: Vec<String> = found
        .findings
        .iter()
        .map(|finding| format!("{} | {}", finding.validator, finding.summary))
        .collect();
    let expected = [
        "errors | latency: too many",
        "http-errors | too many",
        "service | errors: too many",
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn shared_check_works_in_a_stack_without_its_type() {
    let some: Arc<dyn CheckPlugin> = Arc::new(Delays("shared"));
    let checks = stack(CheckLayer::shared(some).layer(Proceed));
    assert_eq!(names(&checks.call(request()).await.unwrap()), ["shared"]);
}

#[tokio::test]
async fn selection_works_as_a_service() {
    let mut mock = MockTargetSelection::new();
    mock.expect_select().returning(|request| {
        let now = vec![request.targets.len() as u32 - 1];
        Ok(Selection {
            now,
            ..Selection::default()
        })
    });
    let policy = ServiceBuilder::new()
        .timeout(Duration::from_secs(1))
        .service(SelectService::new(mock));
    let targets = ["job/eu", "job/us"].map(|id| testing::target(id, &[]));
    let selection = policy.select(testing::select_request(targets)).await;
    assert_eq!(selection.unwrap().now, [1]);
}

#[tokio::test]
async fn rule_chooses_among_the_targets_selected_beneath_it() {
    let first = |_: &SelectRequest, beneath: Selection| beneath.narrowed(|place| place == 0);
    let policy = NarrowLayer::new(first).layer(AllTargets);
    let mut targets = ["job/eu", "job/us"].map(|id| testing::target(id, &[]));
    targets[0].progress = Progress::Updated { at: testing::NOW };
    let request = testing::select_request(targets);
    assert_eq!(AllTargets.select(request.clone()).await.unwrap().now, [1]);
    assert!(policy.select(request).await.unwrap().now.is_empty());
}
