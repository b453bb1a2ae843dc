//! The laws hold for the implementations of this crate, and the suites report each violation.

use std::time::Duration;

use async_trait::async_trait;
use futures::executor::block_on;
use jiff::Timestamp;
use proptest::prelude::*;
use tower_layer::{Layer, layer_fn};

use super::*;
use crate::{
    AssetPlugin, BoxError, Causes, CheckInfo, CheckPlugin, CheckRequest, Claim, Delay, Diff,
    DiffRequest, FencingToken, PushRequest, Pushed, Quota, Recheck, Stamp, Turndown, Verdict,
    plugin,
    service::{CheckLayer, Proceed},
    testing::{self, InMemoryProduction, MockAssetPlugin, MockCheckPlugin, NOW},
};

fn delay(check: &str, reason: &str, evidence: u8) -> Delay {
    Delay::new(reason, Recheck::After(Duration::from_secs(1)))
        .check(check)
        .because(evidence)
}

prop_compose! {
    fn verdict()(
        delays in prop::collection::vec(("[ab]", "[xy]", 0..3u8), 0..4),
        stamps in prop::collection::vec((0..3u32, 0..3u32), 0..4),
        claims in prop::collection::vec((0..3u8, "[ab]"), 0..4),
        age in 0..90i64,
    ) -> Verdict {
        let claim = |(kind, key): (u8, String)| match kind {
            0 => Claim::Exclusive(key.as_str().into()),
            1 => Claim::AtMost(key.as_str().into(), 3),
            _ => Claim::Rate(key.as_str().into(), Quota { burst: 1, every: Duration::from_secs(1) }),
        };
        Verdict {
            delays: delays.iter().map(|(check, reason, evidence)| delay(check, reason, *evidence)).collect(),
            relies_on: stamps.into_iter().map(|(slot, seq)| Stamp { slot, seq }).collect(),
            claims: claims.into_iter().map(claim).collect(),
            as_of: Timestamp::from_second(age).unwrap(),
        }
    }
}

proptest! {
    #[test]
    fn verdict_join_is_a_semilattice(a in verdict(), b in verdict(), c in verdict()) {
        join(&a, &b, &c)?;
    }
}

/// A check that returns a given verdict, or fails.
#[derive(Debug)]
struct FakeCheck(Option<Verdict>, Causes);

#[async_trait]
impl CheckPlugin for FakeCheck {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("fake").only_for(self.1)
    }
    async fn check(&self, _: CheckRequest) -> Result<Verdict, BoxError> {
        self.0.clone().ok_or_else(|| "the check failed".into())
    }
}

fn requests() -> [CheckRequest; 1] {
    [testing::check_request(&testing::asset("job/eu"))]
}

proptest! {
    #[test]
    fn check_layer_keeps_the_laws_with_any_verdict(found in prop::option::of(verdict()), intent_only: bool) {
        let causes = if intent_only { Causes::INTENT } else { Causes::ALL };
        block_on(check_plugin(FakeCheck(found, causes), requests()))?;
    }
}

#[test]
fn layer_that_drops_the_verdict_beneath_is_reported() {
    let broken = block_on(check_layer(layer_fn(|_| Proceed), Causes::ALL, requests()));
    assert_eq!(
        broken.unwrap_err().law(),
        "a layer keeps the whole verdict of the service beneath it"
    );
}

#[test]
fn layer_that_passes_errors_on_is_reported() {
    let broken = block_on(check_layer(
        layer_fn(|beneath: Beneath| beneath),
        Causes::ALL,
        requests(),
    ));
    assert_eq!(
        broken.unwrap_err().law(),
        "an error is a delay, not an error of the stack"
    );
}

#[test]
fn layer_whose_delays_have_no_registered_name_is_reported() {
    let adds = |beneath: Beneath| {
        tower::ServiceBuilder::new()
            .map_response(|found: Verdict| found.join(Verdict::delay(NOW, delay("fake", "no", 0))))
            .service(
                CheckLayer::new(FakeCheck(Some(Verdict::proceed(NOW)), Causes::ALL)).layer(beneath),
            )
    };
    let broken = block_on(check_layer(layer_fn(adds), Causes::ALL, requests()));
    let law = broken.unwrap_err().law();
    assert!(
        law.starts_with("a delay carries the name of a check"),
        "{law}"
    );
}

#[test]
fn check_that_delays_other_causes_than_declared_is_reported() {
    let check = || {
        FakeCheck(
            Some(Verdict::delay(NOW, delay("fake", "no", 0))),
            Causes::ALL,
        )
    };
    let broken = block_on(check_layer(
        CheckLayer::new(check()),
        Causes::INTENT,
        requests(),
    ));
    assert_eq!(
        broken.unwrap_err().law(),
        "a check that does not apply to a cause adds nothing"
    );
    block_on(check_layer(
        CheckLayer::new(check()),
        Causes::ALL,
        requests(),
    ))
    .unwrap();
}

#[test]
fn mock_check_keeps_the_laws() {
    let mut mock = MockCheckPlugin::new();
    mock.expect_info().returning(|| CheckInfo::new("mock"));
    mock.expect_check()
        .returning(|request| Ok(request.proceed()));
    block_on(check_plugin(mock, requests())).unwrap();
}

/// A plugin with one fault, over production in memory.
struct Faulty(InMemoryProduction, Fault, std::sync::Mutex<Option<u32>>);

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    DiffPushes,
    PushDoesNothing,
    UnknownIsInSync,
    NeverDone,
    RefusesPlans,
    RefusesEqualNumbers,
}

#[async_trait]
impl AssetPlugin for Faulty {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        if self.1 == Fault::UnknownIsInSync && request.reader().get(request.asset_id()).is_none() {
            return Ok(Diff::in_sync());
        }
        if self.1 == Fault::RefusesPlans && request.token == FencingToken(0) {
            return Err(plugin::Error::fenced("an older owner"));
        }
        if self.1 == Fault::RefusesEqualNumbers
            && self.2.lock().unwrap().replace(request.run.n) == Some(request.run.n)
        {
            return Err(plugin::Error::permanent("this number was there already"));
        }
        let id = request.asset_id().clone();
        let payload = request.reader().asset(&id)?.payload_json().to_owned();
        let diff = self.0.diff(request).await;
        if self.1 == Fault::DiffPushes {
            self.0.tamper(&id, Some(&payload));
        }
        diff
    }
    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        match self.1 {
            Fault::PushDoesNothing => Ok(Pushed::Done),
            Fault::NeverDone => Ok(Pushed::InProgress {
                check_again_in: Duration::from_secs(1),
            }),
            _ => self.0.push(request).await,
        }
    }
}

#[test]
fn every_fault_of_an_asset_plugin_is_reported() {
    let intent = testing::incarnation(1, [testing::asset("job/eu")]);
    for (fault, law) in [
        (Fault::DiffPushes, "diff has no effect"),
        (Fault::PushDoesNothing, "a diff after a push is in sync"),
        (
            Fault::UnknownIsInSync,
            "an asset that intent does not have is an error",
        ),
        (Fault::NeverDone, "a push ends"),
    ] {
        let plugin = Faulty(InMemoryProduction::new(), fault, Default::default());
        let broken = block_on(AssetSuite::new().run(&plugin, &intent));
        assert_eq!(broken.unwrap_err().law(), law);
    }
    for (fault, law) in [
        (
            Fault::RefusesPlans,
            "the diff of a plan, whose token is 0, is answered",
        ),
        (
            Fault::RefusesEqualNumbers,
            "a diff of valid intent succeeds",
        ),
    ] {
        let plugin = Faulty(InMemoryProduction::new(), fault, Default::default());
        let broken = block_on(AssetSuite::new().guarded().run(&plugin, &intent));
        assert_eq!(broken.unwrap_err().law(), law);
    }
}

#[test]
fn in_memory_production_keeps_the_laws_when_intent_changes() {
    let production = InMemoryProduction::new();
    let mut suite = AssetSuite::new().guarded();
    let first = testing::asset("job/eu");
    let changed = first
        .edit()
        .payload(&testing::Thing {
            content: "more".into(),
        })
        .unwrap()
        .build()
        .unwrap();
    for asset in [first, changed.clone()] {
        block_on(suite.run(&production, &testing::incarnation(1, [asset]))).unwrap();
    }
    assert_eq!(production.effective_pushes(), 2);
    assert_eq!(
        production.payload(&changed.id()).as_deref(),
        Some(changed.payload_json())
    );
}

#[test]
fn guarded_plugin_that_accepts_old_calls_is_reported() {
    let intent = testing::incarnation(1, [testing::asset("job/eu")]);
    let mock = || {
        let mut mock = MockAssetPlugin::new();
        mock.expect_diff().returning(|request| {
            request.asset()?;
            Ok(Diff::in_sync())
        });
        mock.expect_push().returning(|_| Ok(Pushed::Done));
        mock
    };
    block_on(AssetSuite::new().run(&mock(), &intent)).unwrap();
    let broken = block_on(AssetSuite::new().guarded().run(&mock(), &intent));
    assert_eq!(
        broken.unwrap_err().law(),
        "an older token is refused as fenced"
    );
}

#[test]
fn r49_in_memory_production_keeps_the_law_of_renames() {
    let production = InMemoryProduction::new();
    let intent = testing::incarnation(1, [testing::asset("a"), testing::asset("b")]);
    block_on(
        AssetSuite::new()
            .guarded()
            .run_renames(&production, &intent),
    )
    .unwrap();
}

/// A production without a look at old ids.
#[derive(Default)]
struct Forgets(InMemoryProduction);

#[async_trait]
impl AssetPlugin for Forgets {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.0.diff(without_moved(request)).await
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let intent = without_moved_in(&request.intent);
        self.0.push(PushRequest { intent, ..request }).await
    }
}

fn without_moved(request: DiffRequest) -> DiffRequest {
    let intent = without_moved_in(&request.intent);
    DiffRequest { intent, ..request }
}

/// The intent of an asset, with an addon `Moved` taken away.
fn without_moved_in(intent: &crate::AssetIntent) -> crate::AssetIntent {
    let asset = intent.asset().unwrap();
    let asset = asset
        .edit()
        .without_addon::<prodspec_model::addons::Moved>();
    let incarnation = testing::incarnation(1, [asset.build().unwrap()]);
    crate::AssetIntent::find(incarnation, intent.id().clone())
}

#[test]
fn r49_plugin_that_does_not_look_under_the_old_id_is_reported() {
    let production = Forgets(
        InMemoryProduction::new().observing(|_| crate::Observed::default().capacity("qps", 1)),
    );
    let intent = testing::incarnation(1, [testing::asset("a")]);
    let broken = block_on(AssetSuite::new().run_renames(&production, &intent)).unwrap_err();
    let law = "a renamed resource is found under its old id, with all that it has";
    assert!(broken.to_string().contains(law), "{broken}");
}

/// The intent of one asset, before and after an edit.
fn edited() -> (prodspec_model::Incarnation, prodspec_model::Incarnation) {
    let older = testing::asset("job/eu");
    let thing = testing::Thing {
        content: "newer".into(),
    };
    let newer = older.edit().payload(&thing).unwrap().build().unwrap();
    (
        testing::incarnation(1, [older]),
        testing::incarnation(2, [newer]),
    )
}

#[test]
fn r15_in_memory_production_keeps_the_laws_of_turndown_and_repairs() {
    let production = InMemoryProduction::new();
    let (older, intent) = edited();
    let mut suite = AssetSuite::new().guarded();
    block_on(suite.run_turndown(&production, &production, &intent)).unwrap();
    block_on(suite.run_repairs(&production, &production, &older, &intent)).unwrap();
}

/// A turndown that answers without an effect.
struct Idle;

#[async_trait]
impl Turndown for Idle {
    async fn turndown(&self, _: PushRequest) -> Result<Pushed, plugin::Error> {
        Ok(Pushed::Done)
    }
}

#[test]
fn r15_turndown_that_leaves_the_resource_is_reported() {
    let (production, (_, intent)) = (InMemoryProduction::new(), edited());
    let run = block_on(AssetSuite::new().run_turndown(&production, &Idle, &intent));
    let law = "a diff after a turndown is in sync";
    assert_eq!(run.unwrap_err().law(), law);
}

/// A plugin that does not say that a removal loses something.
struct Harmless(InMemoryProduction);

#[async_trait]
impl AssetPlugin for Harmless {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let mut diff = self.0.diff(request).await?;
        if let Diff::Differs { change, .. } = &mut diff {
            change.effects.destructive = false;
        }
        Ok(diff)
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.0.push(request).await
    }
}

#[test]
fn r12_removal_that_is_not_called_destructive_is_reported() {
    let (production, (_, intent)) = (InMemoryProduction::new(), edited());
    let plugin = Harmless(production.clone());
    let run = block_on(AssetSuite::new().run_turndown(&plugin, &production, &intent));
    let law = run.unwrap_err().law();
    assert!(law.contains("is a destructive change"), "{law}");
}

/// A plugin whose diff does not see that a resource was changed by hand.
struct Trusting(InMemoryProduction);

#[async_trait]
impl AssetPlugin for Trusting {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let there = self.0.payload(request.asset_id());
        match there.is_some_and(|there| there.contains("by hand")) {
            true => Ok(Diff::in_sync()),
            false => self.0.diff(request).await,
        }
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        self.0.push(request).await
    }
}

#[test]
fn plugin_that_does_not_find_a_change_by_hand_is_reported() {
    let (production, (older, intent)) = (InMemoryProduction::new(), edited());
    let plugin = Trusting(production.clone());
    let run = block_on(AssetSuite::new().run_repairs(&plugin, &production, &older, &intent));
    assert_eq!(run.unwrap_err().law(), "a change by hand is found");
}

/// A hand whose production also keeps what was there before.
struct Remembers(InMemoryProduction);

#[async_trait]
impl ByHand for Remembers {
    async fn change(&self, asset: &prodspec_model::AssetId) {
        self.0.change(asset).await;
    }

    async fn remove(&self, asset: &prodspec_model::AssetId) {
        self.0.remove(asset).await;
    }

    async fn state(&self, asset: &prodspec_model::AssetId) -> String {
        let state = self.0.state(asset).await;
        format!("{state} after {} pushes", self.0.effective_pushes())
    }
}

#[test]
fn push_over_older_content_that_leaves_something_is_reported() {
    let (production, (older, intent)) = (InMemoryProduction::new(), edited());
    let hand = Remembers(production.clone());
    let run = block_on(AssetSuite::new().run_repairs(&production, &hand, &older, &intent));
    let law = run.unwrap_err().law();
    assert!(law.contains("a push over older content"), "{law}");
}
