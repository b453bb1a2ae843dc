//! R22: failed content is quarantined, and released by a fix or an operator.

use std::time::Duration;

use plugin_sdk::Judgement;
use prodspec_model::{
    AssetRef,
    addons::{DependsOn, Edge, Need},
    rollout::{Canary, OnUnhealthy, RolloutPolicy},
};

use super::{
    back::one_by_one,
    pins::canary,
    rig::{P, Rig, id, of_group, policy_asset, thing},
};
use crate::{kernel::Command, record::State};

const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn rolled_back() -> Rig {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.lag = Some(Duration::from_secs(1));
    rig.health = Ok(Judgement::Unhealthy);
    rig.pass(HOUR);
    assert_eq!(rig.state().word(), "rolled back");
    rig.health = Ok(Judgement::Healthy);
    rig
}

#[test]
pub(super) fn r22_failed_content_is_quarantined_until_an_operator_retries() {
    let mut rig = rolled_back();
    rig.pass(HOUR);
    assert_eq!((rig.rollouts(), rig.plane.quarantine.len()), (2, 2));
    rig.put(vec![thing("c", 1)]);
    rig.pass(HOUR);
    assert_eq!((rig.head(), rig.at(1)), (Some(3), vec!["a", "b"]));
    rig.tell(Command::Retry).unwrap();
    rig.pass(HOUR);
    assert_eq!((rig.head(), rig.state()), (Some(3), &State::Completed));
    assert_eq!(rig.plane.content(&id("a")), Some(thing("a", 2).digest()));
    assert!(rig.plane.quarantine.is_empty() && rig.plane.pins.is_empty());
}

#[test]
fn r22_completed_fix_releases_the_content_that_only_waited() {
    let mut rig = rolled_back();
    let failed = |rig: &Rig| rig.kernel.view(rig.now).left_out;
    assert_eq!(
        failed(&rig),
        [id("a"), id("b")],
        "`b` waited when `a` failed"
    );
    rig.put(vec![thing("c", 1)]);
    rig.pass(HOUR);
    assert_eq!(failed(&rig), [id("a"), id("b")], "an unrelated edit");
    rig.health = Ok(Judgement::Unhealthy);
    rig.put(vec![thing("a", 3)]);
    rig.pass(HOUR);
    assert_eq!(rig.state().word(), "rolled back");
    assert_eq!(failed(&rig), [id("a"), id("b")], "a fix that fails");
    rig.health = Ok(Judgement::Healthy);
    rig.put(vec![thing("a", 4)]);
    rig.pass(HOUR);
    assert_eq!((failed(&rig), rig.state()), (vec![], &State::Completed));
    assert_eq!(rig.plane.content(&id("b")), Some(thing("b", 2).digest()));
    assert!(rig.plane.quarantine.is_empty() && rig.plane.pins.is_empty());
    assert_eq!(rig.rollouts(), 6, "`b` has a rollout of its own");
}

#[test]
pub(super) fn r22_fix_of_a_part_of_the_failed_content_releases_nothing() {
    let two = RolloutPolicy {
        canary: Some(Canary {
            count: 2,
            bake_secs: 600,
        }),
        ..RolloutPolicy::default()
    };
    let mut rig = Rig::begun(two, &["a", "b", "c", "d"]);
    rig.lag = Some(Duration::from_secs(1));
    rig.health = Ok(Judgement::Unhealthy);
    rig.pass(HOUR);
    rig.health = Ok(Judgement::Healthy);
    rig.put(vec![thing("a", 3)]);
    rig.pass(HOUR);
    assert_eq!(rig.state(), &State::Completed);
    assert_eq!(rig.view().left_out, ["b", "c", "d"].map(id));
    rig.put(vec![thing("b", 3)]);
    rig.pass(HOUR);
    assert_eq!(
        (rig.state(), rig.view().left_out),
        (&State::Completed, vec![])
    );
}

#[test]
fn r22_revert_of_the_failed_content_releases_nothing() {
    let mut rig = rolled_back();
    rig.put(vec![thing("a", 1), thing("c", 1)]);
    rig.pass(HOUR);
    assert_eq!(rig.state(), &State::Completed);
    assert_eq!(rig.view().left_out, [id("b")]);
    rig.put(vec![thing("c", 2)]);
    rig.pass(HOUR);
    assert_eq!(rig.view().left_out, [id("b")]);
}

/// `a` and `b` fail. The newer rollout takes over `b` with its content, and fails before it moves `b`.
#[test]
fn r22_content_that_failed_before_does_not_only_wait_in_a_later_rollout() {
    let stop = RolloutPolicy {
        on_unhealthy: OnUnhealthy::Stop,
        ..one_by_one()
    };
    let mut rig = Rig::begun(stop.clone(), &["a", "b"]);
    rig.settle("a");
    rig.plane.fail_push(&id("b"));
    rig.run();
    assert_eq!((rig.state().word(), rig.at(2)), ("stopped", vec!["a", "b"]));
    rig.tell(Command::Retry).unwrap();
    rig.plane.fail_push(&id("b"));
    rig.run();
    let held = RolloutPolicy {
        hold: Some("wait".into()),
        ..stop
    };
    rig.put(vec![thing("a", 3), thing("b", 3), policy_asset(&held)]);
    rig.run();
    rig.tell(Command::RollBack).unwrap();
    assert_eq!(rig.rollouts(), 3);
    let reached = |name| {
        let failed = rig.plane.quarantine[&id(name)].failed.iter();
        failed.map(|failed| failed.reached).collect::<Vec<_>>()
    };
    assert_eq!(["a", "b"].map(reached), [[true, true], [true, true]]);
}

#[test]
fn r22_content_tied_to_what_moved_counts_as_failed() {
    let edge = Edge {
        provider: AssetRef::to(id("a")),
        need: Need::Version,
    };
    let consumer = |size| {
        let edges = vec![edge.clone()];
        let asset = of_group(Some(P), "b", size).addon(&DependsOn { edges });
        asset.unwrap().build().unwrap()
    };
    let assets = |size| vec![thing("a", size), consumer(size), thing("c", size)];
    let mut rig = Rig::settled(canary(), assets(1));
    rig.lag = None;
    rig.put(assets(2));
    rig.run();
    assert_eq!(rig.at(2), ["a"]);
    rig.plane.fail_push(&id("a"));
    rig.run();
    let reached = |name| rig.plane.quarantine[&id(name)].failed[0].reached;
    assert_eq!(["a", "b", "c"].map(reached), [true, true, false]);
}

#[test]
pub(super) fn r22_retry_after_a_rollback_begins_a_new_rollout() {
    let mut rig = rolled_back();
    rig.crash();
    rig.run();
    rig.tell(Command::Retry).unwrap();
    rig.pass(HOUR);
    assert_eq!((rig.rollouts(), rig.head()), (3, Some(2)));
}

#[test]
fn r22_failed_content_stays_quarantined_when_newer_content_fails() {
    let mut rig = rolled_back();
    rig.health = Ok(Judgement::Unhealthy);
    rig.put(vec![thing("a", 3), thing("b", 3)]);
    rig.pass(HOUR);
    assert_eq!((rig.rollouts(), rig.state().word()), (3, "rolled back"));
    rig.health = Ok(Judgement::Healthy);
    rig.put(vec![thing("a", 2), thing("b", 2)]);
    rig.pass(HOUR);
    assert_eq!(rig.rollouts(), 3);
    assert_eq!(rig.plane.content(&id("a")), Some(thing("a", 1).digest()));
}

#[test]
fn r22_retry_releases_only_the_content_that_failed_last() {
    let mut rig = rolled_back();
    rig.health = Ok(Judgement::Unhealthy);
    rig.put(vec![thing("b", 3)]);
    rig.pass(HOUR);
    assert_eq!((rig.rollouts(), rig.state().word()), (3, "rolled back"));
    rig.health = Ok(Judgement::Healthy);
    rig.tell(Command::Retry).unwrap();
    rig.pass(HOUR);
    let content = |rig: &Rig, name| rig.plane.content(&id(name));
    assert_eq!(content(&rig, "a"), Some(thing("a", 1).digest()));
    assert_eq!(content(&rig, "b"), Some(thing("b", 3).digest()));
    // No intended content failed in the last rollout: this retry releases older content.
    rig.tell(Command::Retry).unwrap();
    rig.pass(HOUR);
    assert_eq!(content(&rig, "a"), Some(thing("a", 2).digest()));
}

#[test]
fn r22_retry_applies_to_intended_content() {
    let mut rig = rolled_back();
    rig.health = Ok(Judgement::Unhealthy);
    rig.put(vec![thing("b", 3)]);
    rig.pass(HOUR);
    rig.health = Ok(Judgement::Healthy);
    rig.put(vec![thing("b", 1)]);
    rig.pass(HOUR);
    assert_eq!(rig.kernel.view(rig.now).left_out, [id("a")]);
    rig.tell(Command::Retry).unwrap();
    rig.pass(HOUR);
    assert_eq!(rig.plane.content(&id("a")), Some(thing("a", 2).digest()));
    assert_eq!(rig.kernel.view(rig.now).left_out, []);
}

#[test]
fn r22_asset_that_is_as_intended_again_is_not_shown_as_left_out() {
    let mut rig = rolled_back();
    assert_eq!(rig.kernel.view(rig.now).left_out, [id("a"), id("b")]);
    rig.put(vec![thing("a", 1)]);
    rig.pass(HOUR);
    assert_eq!(rig.kernel.view(rig.now).left_out, [id("b")]);
}
