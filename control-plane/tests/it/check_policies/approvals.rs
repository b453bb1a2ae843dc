//! Approval policies in intent, through the whole control plane (R110).

use std::time::Duration;

use control_plane::{enforcer, prelude::*};

use super::{World, manifest};
use crate::{
    rollouts::{passes, until},
    world::{LONG, QUIET, ann, id},
};

#[tokio::test(start_paused = true)]
async fn r110_change_waits_for_the_approvals_of_different_people() {
    let two = "approval/services: {type: ApprovalPolicy, of: {ids: [a]}, people: 2, expires: 2h}";
    let world = World::start(two).await;
    until(&world.running, "the other is pushed", || {
        world.of_size(2) == 1
    })
    .await;
    passes(QUIET).await;
    let shown = world.shown("a").await;
    assert!(shown.contains("needs 2 more of 2 approvals"), "{shown}");
    let handle = &world.running.handle;
    let change = async || {
        let explained = handle.explain(&id("a")).await.unwrap();
        let change = explained.enforced().unwrap().chain[0].change.clone();
        change.unwrap().digest
    };
    let asset = id("a");
    let approve = async |who: &str| {
        let by = By::new(who, "a test");
        handle
            .approve(&asset, change().await, by, None)
            .await
            .unwrap();
        passes(QUIET).await;
    };
    approve("ada").await;
    // A person who repeats the command is still one person.
    approve("ada").await;
    let shown = world.shown("a").await;
    assert!(
        shown.contains("needs 1 more of 2 approvals (ada at"),
        "{shown}"
    );
    // An approval counts for the time of the policy.
    passes(Duration::from_secs(2 * 3600)).await;
    approve("bo").await;
    assert_eq!(world.production.size("a"), Some(1));
    approve("ada").await;
    assert_eq!(world.production.size("a"), Some(2));
    // It has settled: the same change needs new approvals.
    world.text.edit(&manifest(1, two));
    until(&world.running, "it is known", || world.of_size(1) == 1).await;
    passes(QUIET).await;
    let shown = world.shown("a").await;
    assert!(shown.contains("needs 2 more of 2 approvals:"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn r110_equal_changes_are_approved_as_a_set_that_is_still_the_same() {
    let one = "approval/services: {type: ApprovalPolicy, of: {types: [world.v1.Service]}}";
    let world = World::start(one).await;
    let handle = &world.running.handle;
    let sets = async || handle.awaiting_approval().await.unwrap();
    passes(LONG).await;
    let shown = sets().await;
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!(shown[0].check.as_str(), "policies/approval/services");
    let approve = async |set: &enforcer::ApprovalSet| {
        let by = By::new("ada", "a test");
        handle.approve_set(set.digest, 2, by, None).await
    };
    // Another edit: the changes that wait are not those that she saw.
    world.text.edit(&manifest(3, one));
    passes(LONG).await;
    let refused = approve(&shown[0]).await.unwrap_err().to_string();
    assert!(
        refused.contains("(2 of policies/approval/services)"),
        "{refused}"
    );
    approve(&sets().await[0]).await.unwrap();
    world.all_have(3).await;
    assert_eq!(sets().await, []);
}

#[tokio::test(start_paused = true)]
async fn r110_rollout_goes_on_soon_after_the_approval_of_its_target() {
    let world = World::start("").await;
    let governed = |size| {
        let policy = "policies: {slow: {domains: []}}";
        let check = "approval/a: {type: ApprovalPolicy, of: {ids: [a]}}";
        format!(
            "{policy}\nservices: {{a: {{size: {size}, policy: slow}}, b: {{size: 2}}}}\nchecks: {{{check}}}\n"
        )
    };
    world.text.edit(&governed(2));
    passes(LONG).await;
    let handle = &world.running.handle;
    let wait = async || {
        let sets = handle.awaiting_approval().await.unwrap();
        assert_eq!(sets.len(), 1, "{sets:?}");
        let set = &sets[0];
        handle
            .approve_set(set.digest, 1, ann(), None)
            .await
            .unwrap();
        passes(Duration::from_secs(40)).await;
    };
    wait().await;
    assert_eq!(world.production.size("a"), Some(2));
    world.text.edit(&governed(3));
    passes(Duration::from_secs(600)).await;
    assert_eq!(world.production.size("a"), Some(2));
    wait().await;
    assert_eq!(world.production.size("a"), Some(3));
}
