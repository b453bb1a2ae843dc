//! R65 with rollouts: a plan calls *now* exactly the pushes that a new owner begins at once, and names the stage that the
//! others wait for.

use std::{collections::BTreeSet, time::Duration};

use control_plane::{
    enforcer::{Outcome, Plan},
    prelude::*,
};

use crate::{
    rollouts::{build, manifest, of_size, passes, until},
    world::{LONG, Production, Running, Text, id},
};

/// One edit of the manifest, and the assets that are pushed first.
struct Case {
    before: Option<String>,
    after: String,
    first: &'static [&'static str],
    /// The number of other assets, and a part of the reason for which they wait.
    others: (usize, &'static str),
}

/// Plans an edit before any process owns the partition, then starts an owner and lets no push end. Returns the plan and
/// the assets whose pushes begin.
async fn planned_and_begun(case: &Case) -> (Plan, BTreeSet<AssetId>) {
    let (production, store) = (Production::default(), MemoryStore::new());
    if let Some(before) = &case.before {
        let running = Running::start(build(&Text::new(before), &production, store.clone()));
        running.handle.settle(LONG).await.unwrap();
        // Until the first rollout is recorded as complete.
        passes(LONG).await;
        running.stop().await;
    }
    let plane = build(&Text::new(&case.after), &production, store);
    let plan = plane.handle().plan_with(&[]).await.unwrap();
    let before = production.pushes();
    production.state().hangs = true;
    let _running = Running::start(plane);
    passes(2 * LONG).await;
    let pushes = production.state().pushes.clone();
    (plan, pushes.into_iter().skip(before).collect())
}

/// Services under the policy `slow`, where `a` needs `d`.
fn tied(size: u64, policy: &str) -> String {
    let service = |name| format!("  {name}: {{size: {size}, policy: slow}}\n");
    let services: String = ["b", "c", "d"].into_iter().map(service).collect();
    format!(
        "services:\n  a: {{size: {size}, needs: [d], policy: slow}}\n{services}policies: {{slow: {policy}}}\n"
    )
}

fn cases() -> [Case; 6] {
    let canary = "{canary: {count: 1, bake_secs: 3600}}";
    let gradual = "{canary: {count: 1, bake_secs: 3600}, first_turnup: gradual}";
    let waves = "{waves: [{upto: {count: 2}, bake_secs: 3600}]}";
    let limit = "{max_in_flight: 3}";
    let edit = |policy, first, others| Case {
        before: Some(manifest(1, policy, 1)),
        after: manifest(2, policy, 1),
        first,
        others,
    };
    [
        // The first turnup is at once, unless the policy says otherwise.
        Case {
            before: None,
            after: manifest(1, canary, 1),
            first: &["a", "b", "c", "d", "free"],
            others: (0, ""),
        },
        Case {
            before: None,
            after: manifest(1, gradual, 1),
            first: &["a", "free"],
            others: (3, "canary"),
        },
        edit(canary, &["a"], (3, "canary")),
        edit(waves, &["a", "b"], (2, "wave 1 of 1")),
        edit(limit, &["a", "b", "c"], (1, "3 targets are in flight")),
        // R19: the canary takes the asset along that it waits for.
        Case {
            before: Some(tied(1, canary)),
            after: tied(2, canary),
            first: &["d"],
            others: (3, ""),
        },
    ]
}

#[tokio::test(start_paused = true)]
async fn r65_plan_now_equals_the_first_pushes_of_a_rollout() {
    for case in cases() {
        let (plan, begun) = planned_and_begun(&case).await;
        let now = plan.with(Outcome::Now).map(|row| row.asset.clone());
        let now: BTreeSet<AssetId> = now.collect();
        let first: BTreeSet<AssetId> = case.first.iter().copied().map(id).collect();
        assert_eq!(begun, first, "{}", case.after);
        assert_eq!(now, begun, "{}: {plan:#?}", case.after);
        let (many, why) = case.others;
        assert_eq!(plan.count(Outcome::InTurn), many, "{plan:#?}");
        let said = plan.with(Outcome::InTurn).all(|it| it.why.contains(why));
        assert!(said, "{why}: {plan:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn r65_a_plan_in_the_middle_of_a_rollout_starts_no_further_push() {
    let policy = "{canary: {count: 1, bake_secs: 3600}}";
    let (text, production) = (Text::new(&manifest(1, policy, 1)), Production::default());
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    running.handle.settle(LONG).await.unwrap();
    text.edit(&manifest(2, policy, 1));
    until(&running, "the canary is updated", || {
        of_size(&production, 2) == 1
    })
    .await;
    passes(Duration::from_secs(60)).await;
    let plan = running.handle.plan().await.unwrap();
    assert_eq!(plan.count(Outcome::Now), 0, "{plan:#?}");
    assert_eq!(plan.count(Outcome::InTurn), 3, "{plan:#?}");
    let said = plan
        .with(Outcome::InTurn)
        .all(|it| it.why.contains("canary"));
    assert!(said, "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn r65_a_target_that_a_plan_finds_in_sync_makes_room_for_the_next_one() {
    let policy = "{max_in_flight: 1}";
    let (production, store) = (Production::default(), MemoryStore::new());
    let text = Text::new(&manifest(1, policy, 1));
    let running = Running::start(build(&text, &production, store.clone()));
    running.handle.settle(LONG).await.unwrap();
    passes(LONG).await;
    production.state().broken.insert(id("a"));
    text.edit(&manifest(2, policy, 1));
    running.handle.wait_until_owner().await.next_run().await;
    passes(LONG).await;
    let plan = running.handle.plan().await.unwrap();
    assert_eq!(plan.count(Outcome::InTurn), 3, "{plan:#?}");
    running.stop().await;

    // The change was made by hand meanwhile.
    production.state().sizes.insert(id("a"), 2);
    let plane = build(&text, &production, store);
    let plan = plane.handle().plan().await.unwrap();
    let now: Vec<_> = plan.with(Outcome::Now).map(|row| &row.asset).collect();
    assert_eq!(now, [&id("b")], "{plan:#?}");
    assert_eq!(plan.count(Outcome::InTurn), 2, "{plan:#?}");
    let before = production.pushes();
    production.state().hangs = true;
    let _running = Running::start(plane);
    passes(2 * LONG).await;
    assert_eq!(production.state().pushes[before..], [id("b")]);
}
