//! The course of intent: refused, guarded, orphaned, planned, kept.

use control_plane::{
    Error, Outcome,
    generation::Refusal,
    prelude::*,
    sdk::{ExternalValidator, Pin},
};
use futures::FutureExt;
use prodspec_model::Digest;

use crate::world::{LONG, Production, Running, Service, Text, ann, id, plane};

const FIVE: &str =
    "services: {a: {size: 1}, b: {size: 1}, c: {size: 1}, d: {size: 1}, e: {size: 1}}";

#[tokio::test(start_paused = true)]
async fn r3_a_bad_manifest_keeps_the_last_good_incarnation_and_shows_every_problem() {
    let (text, production) = (
        Text::new("services: {eu: {size: 1}}"),
        Production::default(),
    );
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();

    text.edit("services:\n  eu: {size: 2, needs: [nowhere]}\n  us: {size: 1, needs: [nothing]}\n");
    let refused = running.handle.settle(LONG).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    let status = running.handle.status().await.unwrap();
    let generation = status.generation.unwrap();
    assert_eq!(generation.incarnation.unwrap().id.no, IncarnationNo(1));
    let said = generation.problems.to_string();
    assert!(
        said.contains("nowhere") && said.contains("nothing"),
        "{said}"
    );
    assert_eq!(status.enforcement.unwrap().incarnation, IncarnationNo(1));
    assert_eq!(production.size("eu"), Some(1));

    text.edit("services: {eu: {size: 2}}");
    assert_eq!(
        running.handle.settle(LONG).await.unwrap().no,
        IncarnationNo(2)
    );
    assert_eq!(production.size("eu"), Some(2));
}

/// A validator that panics on the number 13.
struct Superstitious;

impl Validator for Superstitious {
    fn name(&self) -> &str {
        "superstitious"
    }

    fn validate_asset(&self, view: &AssetView<'_>, _: &mut Problems) {
        let service = view.asset().payload::<Service>().unwrap();
        assert_ne!(service.size, 13, "on purpose");
    }
}

#[async_trait]
impl ExternalValidator for Superstitious {
    fn name(&self) -> &str {
        "superstitious-board"
    }

    async fn validate(&self, candidate: Candidate) -> Result<Problems, BoxError> {
        assert!(candidate.snapshot.len() < 13, "on purpose");
        Ok(Problems::none())
    }
}

#[tokio::test(start_paused = true)]
async fn r3_a_panic_is_a_problem_and_generation_continues() {
    let (text, production) = (
        Text::new("services: {eu: {size: 1}}"),
        Production::default(),
    );
    let plane = plane(&production)
        .store(MemoryStore::new())
        .source(text.clone())
        .validator(Superstitious)
        .generation(|builder| builder.external_validator(Superstitious, LONG));
    let running = Running::start(plane.build().unwrap());
    running.handle.settle(LONG).await.unwrap();

    let many: String = (0..13).map(|n| format!("s{n}: {{size: 1}}, ")).collect();
    for (bad, who) in [
        (
            "panic".to_owned(),
            "panicked; fix the source (says source manifest.yaml)",
        ),
        (
            "services: {eu: {size: 13}}".to_owned(),
            "eu: panicked; fix the validator (says superstitious)",
        ),
        (format!("services: {{{many}}}"), "it panicked"),
    ] {
        text.edit(&bad);
        let refused = running.handle.settle(LONG).await.unwrap_err().to_string();
        assert!(refused.contains(who), "{refused}");
    }
    text.edit("services: {eu: {size: 2}}");
    assert_eq!(
        running.handle.settle(LONG).await.unwrap().no,
        IncarnationNo(2)
    );
}

#[tokio::test(start_paused = true)]
async fn r4_losing_too_many_assets_needs_an_override_of_that_change() {
    let (text, production) = (Text::new(FIVE), Production::default());
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();

    text.edit("services: {a: {size: 2}}");
    let Err(Error::Refused(problems)) = running.handle.settle(LONG).await else {
        panic!("losing four of five assets was not refused");
    };
    let said = problems.to_string();
    let digest = said.split("shrink-guard for ").nth(1).unwrap();
    let digest: Digest = digest.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(production.size("a"), Some(1));
    running
        .handle
        .override_guard("shrink-guard", digest, ann(), None)
        .await
        .unwrap();
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(production.size("a"), Some(2));
    assert_eq!(production.size("b"), Some(1), "an orphan is left alone");

    text.edit(FIVE);
    running.handle.settle(LONG).await.unwrap();
    text.edit("services: {a: {size: 2}}");
    let again = running.handle.settle(LONG).await;
    assert!(again.is_err(), "an override is used up by its seal");
}

/// Waits until a guard refuses the sources, and returns the refusal.
async fn refusal(running: &Running) -> Refusal {
    let generation = running.handle.wait_until_owner().await;
    let status = generation.next_run().await;
    assert_eq!(status.refusals.len(), 1, "{}", status.problems);
    status.refusals[0].clone()
}

#[tokio::test(start_paused = true)]
async fn r4_override_of_nothing_is_refused_with_what_fits() {
    let (text, production) = (Text::new(FIVE), Production::default());
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();
    text.edit("services: {a: {size: 2}}");
    let Refusal { guard, digest } = refusal(&running).await;
    let handle = &running.handle;
    let other = Digest::of(b"another change");
    for (wrong, digest) in [("typo", digest), (&*guard, other)] {
        let refused = handle.override_guard(wrong, digest, ann(), None).await;
        let said = refused.unwrap_err().to_string();
        assert!(said.contains(&format!("{guard} for ")), "{said}");
    }
    let long_ago = Some(Timestamp::UNIX_EPOCH);
    let past = handle.override_guard(&guard, digest, ann(), long_ago).await;
    let said = past.unwrap_err().to_string();
    assert!(said.contains("is in the past"), "{said}");
    assert_eq!(handle.interventions().await.unwrap().guard_overrides, []);

    // In another process it is refused by the name of the owner.
    let store = MemoryStore::new();
    let plane = plane(&production).store(store).source(text.clone());
    let aside = plane.build().unwrap().handle();
    let refused = aside.override_guard(&guard, digest, ann(), None).await;
    assert!(
        matches!(refused, Err(Error::NotOwner { .. })),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn r4_guard_override_is_listed_while_in_force_and_does_not_come_back() {
    let (text, production) = (Text::new(FIVE), Production::default());
    let store = MemoryStore::new();
    let start = || {
        let plane = plane(&production).store(store.clone());
        Running::start(plane.source(text.clone()).build().unwrap())
    };
    let running = start();
    running.handle.settle(LONG).await.unwrap();
    text.edit("services: {a: {size: 2}}");
    let Refusal { guard, digest } = refusal(&running).await;
    let handle = &running.handle;
    // No seal can use the override before it was listed.
    text.edit("services: {");
    for _ in 0..2 {
        let lifted = handle.override_guard(&guard, digest, ann(), None);
        lifted.now_or_never().unwrap().unwrap();
    }
    let listed = handle.interventions().await.unwrap().guard_overrides;
    assert_eq!((listed.len(), &listed[0].by), (1, &ann()));
    assert_eq!(handle.status().await.unwrap().guard_overrides, listed);
    text.edit("services: {a: {size: 2}}");
    handle.settle(LONG).await.unwrap();
    assert_eq!(handle.interventions().await.unwrap().guard_overrides, []);
    text.edit(FIVE);
    handle.settle(LONG).await.unwrap();
    running.stop().await;

    let running = start();
    running.handle.settle(LONG).await.unwrap();
    text.edit("services: {a: {size: 2}}");
    assert_eq!(refusal(&running).await.guard, guard);
    assert_eq!(production.size("b"), Some(1));
}

#[tokio::test(start_paused = true)]
async fn r15_an_asset_that_left_intent_is_an_orphan_until_acknowledged() {
    let both = "services: {eu: {size: 1}, us: {size: 1}}";
    let (text, production) = (Text::new(both), Production::default());
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();

    text.edit("services: {eu: {size: 1}}");
    running.handle.settle(LONG).await.unwrap();
    let orphans = async || {
        let status = running.handle.status().await.unwrap();
        status.enforcement.unwrap().orphans
    };
    assert_eq!(orphans().await, [id("us")]);
    assert_eq!(production.size("us"), Some(1));
    assert!(
        running
            .handle
            .explain(&id("us"))
            .await
            .unwrap()
            .enforced()
            .is_some()
    );

    running.handle.acknowledge(&id("us"), ann()).await.unwrap();
    assert_eq!(orphans().await, []);
    assert_eq!(production.size("us"), Some(1));
    let forgotten = running.handle.explain(&id("us")).await;
    assert!(
        matches!(forgotten, Err(Error::UnknownAsset { .. })),
        "{forgotten:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_plan_pushes_nothing() {
    let (text, production) = (
        Text::new("services: {eu: {size: 1}}"),
        Production::default(),
    );
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();
    let plan = running.handle.plan().await.unwrap();
    assert_eq!((plan.in_sync, plan.assets.len()), (1, 0));

    production.state().sizes.insert(id("eu"), 7);
    let edited = Text::new("services: {eu: {size: 2}, us: {size: 1, needs: [eu]}}");
    let plan = running.handle.plan_with(&[&edited]).await.unwrap();
    let planned: Vec<_> = plan
        .assets
        .iter()
        .map(|planned| planned.asset.as_str())
        .collect();
    assert_eq!(planned, ["eu", "us"]);
    assert!(plan.assets[0].delays.is_empty());
    assert!(plan.assets[1].delays[0].reason.contains("waits for `eu`"));
    assert_eq!(production.pushes(), 1);
    assert_eq!(
        running.handle.latest().await.unwrap().no(),
        IncarnationNo(1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_check_returns_the_incarnation_of_an_edit_or_every_problem() {
    let both = "services: {eu: {size: 1}, us: {size: 1}}";
    let (text, production) = (Text::new(both), Production::default());
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();

    let as_it_is = running.handle.dry_run(&[]).await.unwrap();
    assert_eq!(as_it_is.incarnation.to_string(), "world@1");
    assert!(as_it_is.changes.is_empty());

    let edited = YamlFile::new("manifest.yaml")
        .parse(b"services: {us: {size: 2}, asia: {size: 1, needs: [us]}}");
    let edited = Given::new("manifest.yaml", edited.unwrap());
    let checked = running.handle.dry_run(&[&edited]).await.unwrap();
    assert_eq!(checked.incarnation.to_string(), "world@2");
    assert_ne!(checked.digest, as_it_is.digest);
    assert_eq!(checked.assets[0].references, [id("us")]);
    let changes: Vec<_> = checked
        .changes
        .iter()
        .map(|change| (change.id.as_str(), change.outcome))
        .collect();
    assert_eq!(
        changes,
        [
            ("asia", Outcome::Added),
            ("eu", Outcome::Removed),
            ("us", Outcome::Changed)
        ]
    );

    let wrong = Text::new("services:\n  a: {size: 1, needs: [x]}\n  b: {size: 1, needs: [y]}\n");
    let Err(Error::Refused(problems)) = running.handle.dry_run(&[&wrong]).await else {
        panic!("references to missing assets were not refused");
    };
    assert_eq!(problems.len(), 2, "{problems}");
    let unknown = Given::new("other.yaml", YamlFile::new("x").parse(b"{}").unwrap());
    assert!(matches!(
        running.handle.dry_run(&[&unknown]).await,
        Err(Error::UnknownSource(_))
    ));
    assert_eq!(
        running.handle.latest().await.unwrap().no(),
        IncarnationNo(1)
    );
}

#[tokio::test(start_paused = true)]
async fn r5_retention_keeps_a_count_and_incarnations_that_decisions_cite() {
    let (store, production) = (MemoryStore::new(), Production::default());
    let text = Text::new("services: {old: {size: 1}, new: {size: 1}}");
    let kept = |store: MemoryStore| async move {
        let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(store);
        let all =
            control_plane_store::incarnations::Incarnations::new(store, "world".parse().unwrap());
        let headers = all.headers(IncarnationNo(0), 100).await.unwrap();
        headers
            .iter()
            .map(|header| header.id.no.0)
            .collect::<Vec<_>>()
    };
    let plane = plane(&production)
        .store(store.clone())
        .source(text.clone())
        .retain(2);
    let running = Running::start(plane.build().unwrap());
    for size in 1..=30 {
        text.edit(&format!(
            "services: {{old: {{size: 1}}, new: {{size: {size}}}}}"
        ));
        running.handle.settle(LONG).await.unwrap();
        if size == 3 {
            let third = running.handle.latest().await.unwrap();
            let pin = Pin::At(third, Cause::Intent);
            running
                .handle
                .enforcer()
                .pin(&id("old"), pin)
                .await
                .unwrap();
        }
    }
    running.stop().await;
    let kept = kept(store).await;
    // `old` was pushed at incarnation 1 only, and is pinned to 3. Of `new` the last 16 decisions are kept: 8 pushes,
    // each admitted and done.
    let mut spared = [1, 3].into_iter().chain(23..=30);
    assert!(spared.all(|no| kept.contains(&no)), "{kept:?}");
    let mut gone = [2].into_iter().chain(4..=20);
    assert!(!gone.any(|no| kept.contains(&no)), "{kept:?}");
}
