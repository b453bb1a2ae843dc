//! R49: renames of assets that a rollout governs, or that are pinned.

use plugin_sdk::{Cause, Claim, GroupHead, Pin, Pushed, Recheck, Verdict};
use prodspec_model::{Asset, AssetRef, Incarnation, addons::RolloutPolicyRef};

use super::{
    moved::{delay_of, moved, renames, rig, settled},
    rig::{Rig, differs, id, thing},
};
use crate::kernel::Event;

fn governed(asset: &Asset) -> Asset {
    let policy = AssetRef::to(id("policy"));
    let asset = asset.edit().addon(&RolloutPolicyRef { policy });
    asset.unwrap().build().unwrap()
}

/// A rig with `a`, which is governed and in sync at its group's head, and `z`.
fn at_head() -> Rig {
    let mut rig = rig(vec![governed(&thing("a", 1)), thing("z", 1)]);
    let head = rig.latest.clone();
    pin(&mut rig, "a", &head, Cause::Intent);
    rig.in_sync("a");
    rig.in_sync("z");
    rig.step(Event::Actuate {
        heads: vec![(id("policy"), GroupHead::At(head))],
        moves: vec![(id("a"), Pin::Default)],
    });
    rig
}

/// `a` is at its group's head, and the next incarnation renames it to `b`. Returns both incarnations.
fn in_a_rollout() -> (Rig, Incarnation, Incarnation) {
    let mut rig = at_head();
    let old = rig.latest.clone();
    rig.publish(vec![moved(&governed(&thing("b", 1)), "a")], &["a"]);
    let new = rig.latest.clone();
    assert!(!rig.is_diffing("b"), "its rollout has not reached it");
    (rig, old, new)
}

fn pin(rig: &mut Rig, name: &str, to: &Incarnation, cause: Cause) {
    let (asset, pin) = (id(name), Pin::At(to.clone(), cause));
    rig.step(Event::Pin { asset, pin });
}

#[test]
fn r49_old_id_leaves_when_its_rollout_moves_the_new_one() {
    let (mut rig, _, new) = in_a_rollout();
    assert!(rig.kernel.explain(rig.now, &id("a")).is_some(), "enforced");
    pin(&mut rig, "b", &new, Cause::Intent);
    assert!(rig.is_diffing("b"));
    assert_eq!(rig.kernel.status(rig.now).orphans, []);
    assert_eq!(renames(&rig), ["a to b"]);
}

#[test]
fn r49_old_id_that_is_enforced_elsewhere_is_waited_for() {
    let mut rig = settled(vec![thing("a", 1), thing("z", 1)]);
    let old = rig.latest.clone();
    pin(&mut rig, "a", &old, Cause::Intent);
    rig.publish(vec![moved(&thing("b", 1), "a")], &["a"]);
    assert!(!rig.is_diffing("b"));
    let (why, until) = delay_of(&rig, "b");
    assert_eq!(why, "`a`, from which it is renamed, is still enforced");
    assert_eq!(until, Recheck::WhenSettled(id("a")));
    let (asset, pin) = (id("a"), Pin::Default);
    rig.step(Event::Pin { asset, pin });
    assert!(rig.is_diffing("b"));
    assert_eq!(rig.kernel.status(rig.now).orphans, []);
}

/// R63: what is enforced under the old id is another intent for the same resource.
#[test]
fn r49_settled_asset_whose_old_id_is_enforced_again_is_not_settled() {
    let mut rig = settled(vec![thing("a", 1), thing("z", 1)]);
    let old = rig.latest.clone();
    rig.publish(vec![moved(&thing("b", 1), "a")], &["a"]);
    rig.in_sync("b");
    pin(&mut rig, "a", &old, Cause::Intent);
    rig.in_sync("a");
    rig.look_now("b");
    assert!(!rig.is_diffing("b"), "it waits for its old id");
    assert_eq!(rig.kernel.unsettled(), 1);
    let (asset, pin) = (id("a"), Pin::Default);
    rig.step(Event::Pin { asset, pin });
    rig.in_sync("b");
    assert_eq!(rig.kernel.unsettled(), 0);
}

/// R9: its claims are for its own intent, which has no turn until the old id leaves.
#[test]
fn r49_asset_whose_old_id_is_enforced_again_gives_its_claims_back() {
    let mut rig = settled(vec![thing("a", 1), thing("z", 1)]);
    let old = rig.latest.clone();
    rig.publish(vec![moved(&thing("b", 2), "a")], &["a"]);
    let one = |verdict: Verdict| verdict.claim(Claim::AtMost("domain".into(), 1));
    let push = rig.until_push("b", one).unwrap();
    let (run, answer) = (push.target.run, Ok(Pushed::Done));
    rig.step(Event::PushDone { run, answer });
    rig.diffed("b", differs);
    rig.until_diff("b");
    pin(&mut rig, "a", &old, Cause::Intent);
    rig.diffed("b", differs);
    rig.checked("b", one);
    rig.look_now("b");
    assert!(!rig.is_diffing("b"), "it waits for its old id");
    rig.publish(vec![thing("z", 2)], &[]);
    assert!(rig.until_push("z", one).is_some(), "the claim is free");
    let next = rig.taken_over();
    assert_eq!(next.kernel.claims.held()[&"domain".into()].len(), 1, "z");
}

#[test]
fn r49_old_id_in_another_group_leaves_with_that_group() {
    let mut rig = at_head();
    rig.publish(vec![moved(&thing("b", 1), "a")], &["a"]);
    assert!(!rig.is_diffing("b"), "the rollout of a has not let it go");
    let heads = vec![(id("policy"), GroupHead::At(rig.latest.clone()))];
    let moves = Vec::new();
    rig.step(Event::Actuate { heads, moves });
    assert!(rig.is_diffing("b"));
    assert_eq!(rig.kernel.status(rig.now).orphans, []);
}

#[test]
fn r49_rollback_before_the_push_gives_back_to_the_old_id() {
    let (mut rig, old, new) = in_a_rollout();
    pin(&mut rig, "b", &new, Cause::Intent);
    rig.diff("b").unwrap();
    pin(&mut rig, "b", &old, Cause::Rollback);
    assert_eq!(rig.kernel.status(rig.now).orphans, []);
    rig.in_sync("a");
    assert_eq!(rig.remembered("b"), None);
    assert_eq!(renames(&rig), ["a to b", "b to a"]);
    assert_eq!(rig.kernel.unsettled(), 0);
}

#[test]
fn r49_rollback_after_the_push_leaves_the_new_id_as_an_orphan() {
    let (mut rig, old, new) = in_a_rollout();
    pin(&mut rig, "b", &new, Cause::Intent);
    assert!(rig.until_push("b", |verdict| verdict).is_some());
    pin(&mut rig, "b", &old, Cause::Rollback);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(
        rig.push("a").is_none(),
        "the push under the new id is about the same resource"
    );
    let status = rig.kernel.status(rig.now);
    assert_eq!(status.left_running, [id("b")], "R22: never deleted");
}

#[test]
fn r49_renamed_asset_that_loses_its_intent_before_its_first_push_is_an_orphan() {
    let mut rig = settled(vec![thing("a", 1), thing("z", 1)]);
    rig.publish(vec![moved(&thing("b", 1), "a")], &["a"]);
    let taken_over = rig.latest.clone();
    pin(&mut rig, "b", &taken_over, Cause::Intent);
    rig.publish(vec![thing("z", 2)], &["b"]);
    let (asset, pin) = (id("b"), Pin::Default);
    rig.step(Event::Pin { asset, pin });
    assert_eq!(
        rig.kernel.status(rig.now).orphans,
        [id("b")],
        "the resource of `a`"
    );
    let known = rig.remembered("b").and_then(|record| record.moved);
    assert_eq!(known.map(|moved| moved.from), Some(id("a")));
}
