//! A budget per failure domain counts the assets of all rollouts together.

use control_plane::{prelude::*, strategist::Command};

use crate::{
    rollouts::until,
    world::{LONG, Production, Running, Text, ann, id, plane},
};

fn manifest(size: u64) -> String {
    format!(
        "services:\n  a: {{size: {size}, policy: one}}\n  b: {{size: {size}, policy: two}}\npolicies: {{one: {{}}, two: {{}}}}\n"
    )
}

#[tokio::test(start_paused = true)]
async fn blast_radius_counts_the_assets_of_all_rollouts_together() {
    let (text, production) = (Text::new(&manifest(1)), Production::default());
    let plane = plane(&production)
        .store(MemoryStore::new())
        .source(text.clone())
        .checks(|base| {
            let one = BlastRadiusLayer::new("per-region", Scope::per_domain(["eu", "us"]), 1);
            ServiceBuilder::new().layer(one).service(base)
        });
    let running = Running::start(plane.build().unwrap());
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();

    production.state().broken.insert(id("a"));
    text.edit(&manifest(2));
    let _ = handle.settle(LONG).await.unwrap_err();
    assert_eq!(production.size("b"), Some(1), "`a` has the budget");
    let explained = handle.explain(&id("b")).await.unwrap();
    let waiting = explained.enforced().unwrap().chain[0].waiting.clone();
    let why = waiting.unwrap().to_string();
    assert!(why.contains("per-region"), "{why}");

    // The way back of the one gives the budget to the other.
    handle
        .tell_rollout(&id("one"), Command::RollBack, ann())
        .await
        .unwrap();
    until(&running, "the other asset follows", || {
        production.size("b") == Some(2)
    })
    .await;
    running.stop().await;
}
