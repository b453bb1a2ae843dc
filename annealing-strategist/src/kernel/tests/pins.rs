//! R17: the pins of governed assets, and when a rollout begins.

use std::{collections::BTreeMap, time::Duration};

use control_plane_runtime::Kernel as _;
use plugin_sdk::{Cause, GroupHead, Judgement, Pin};
use prodspec_model::{
    IncarnationNo,
    rollout::{Canary, OnUnhealthy, RolloutPolicy},
};

use super::rig::{P, Rig, id, of_group, seal, thing};
use crate::{
    kernel::{Command, Effects, Event},
    record::State,
};

const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn canary() -> RolloutPolicy {
    RolloutPolicy {
        canary: Some(Canary {
            count: 1,
            bake_secs: 600,
        }),
        ..RolloutPolicy::default()
    }
}

#[test]
pub(super) fn r17_governed_assets_never_follow_latest_before_their_turn() {
    let mut rig = Rig::begun(canary(), &["a", "b", "c"]);
    assert_eq!(rig.at(2), ["a"]);
    assert_eq!(rig.pin("b"), Pin::Default);
    assert_eq!(rig.head(), Some(1));
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
    assert_eq!((rig.head(), rig.state()), (Some(2), &State::Completed));
    assert!(rig.plane.pins.is_empty());
    assert!(rig.plane.rows.is_empty());
}

/// A rig whose newest edit removes the policy together with every reference to it, and grows all assets.
fn policy_removed() -> Rig {
    let assets = ["a", "b", "c"].map(|name| thing(name, 1));
    let mut rig = Rig::settled(RolloutPolicy::default(), assets.into());
    // The head does not follow this edit of the policy.
    rig.swap(canary());
    rig.pass(Duration::from_secs(60));
    rig.lag = None;
    let bare = ["a", "b", "c"].map(|name| of_group(None, name, 2).build().unwrap());
    rig.edit(bare.into(), &[P]);
    rig.run();
    rig
}

#[test]
fn r17_policy_removed_with_its_references_is_rolled_out_by_itself_and_ends_the_group() {
    for crashes in [false, true] {
        let mut rig = policy_removed();
        if crashes {
            rig.crash();
            rig.run();
        }
        assert_eq!(rig.at(3), ["a"], "the canary of the removed policy");
        rig.settle("a");
        rig.pass(Duration::from_secs(500));
        assert_eq!(rig.at(3), ["a"], "it bakes");
        if crashes {
            rig.crash();
        }
        rig.lag = Some(Duration::from_secs(1));
        rig.pass(HOUR);
        assert_eq!((rig.head(), rig.state()), (Some(3), &State::Completed));
        assert!(rig.plane.pins.is_empty(), "no pin outlives the group");
        assert!(rig.plane.rows.is_empty());
        let b = of_group(None, "b", 3).build().unwrap();
        rig.edit(vec![b], &[]);
        rig.pass(HOUR);
        assert_eq!(
            rig.rollouts(),
            2,
            "its assets follow the newest incarnation"
        );
    }
}

#[test]
fn r22_removal_of_a_policy_that_fails_is_rolled_back_by_that_policy() {
    let mut rig = policy_removed();
    rig.health = Ok(Judgement::Unhealthy);
    rig.settle("a");
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
    assert_eq!(rig.state().word(), "rolled back");
    assert_eq!(rig.pin("b"), Pin::Default);
}

#[test]
fn r17_policy_that_is_still_named_is_waited_for() {
    let assets = ["a", "b"].map(|name| thing(name, 1));
    let mut rig = Rig::settled(canary(), assets.into());
    rig.edit(vec![thing("a", 2)], &[P]);
    rig.pass(HOUR);
    assert!(rig.at(2).is_empty());
    let why = format!("{:?}", rig.view().waits);
    assert!(why.contains("restore it"), "{why}");
    assert!(rig.tell(Command::RollBack).is_err(), "it has moved nothing");
    rig.tell(Command::Abort).unwrap();
    assert_eq!(rig.state().word(), "stopped");
}

#[test]
pub(super) fn r17_first_turnup_moves_all_assets_at_once() {
    let mut rig = Rig::new(canary(), vec![thing("a", 1), thing("b", 1)]);
    rig.run();
    assert_eq!(rig.at(1), ["a", "b"]);
}

#[test]
fn r17_unedited_asset_keeps_its_pin_when_a_first_turnup_is_superseded() {
    let assets = vec![thing("a", 1), thing("b", 1)];
    let mut rig = Rig::new(RolloutPolicy::default(), assets);
    rig.lag = None;
    rig.run();
    for size in [2, 3] {
        // The owner of the new rollout dies before a pin moves.
        rig.put(vec![thing("b", size)]);
        while rig.deliver() || rig.durable() {}
        rig.crash();
    }
    rig.run();
    assert_eq!(rig.at(3), ["a", "b"]);
    rig.settle("a");
    rig.settle("b");
    rig.pass(Duration::from_secs(60));
    assert_eq!((rig.state().word(), rig.head()), ("completed", Some(3)));
    let away = |goes: &Pin| matches!(goes, Pin::NotYet);
    assert!(!rig.plane.moves.iter().any(|(_, goes)| away(goes)));
}

#[test]
pub(super) fn r17_incarnations_sealed_during_a_rollout_become_one_rollout() {
    let mut rig = Rig::begun(canary(), &["a", "b", "c"]);
    rig.put(vec![thing("a", 3)]);
    rig.put(vec![thing("b", 4)]);
    rig.run();
    assert_eq!((rig.rollouts(), rig.at(2)), (2, vec!["a"]));
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(2 * HOUR);
    assert_eq!((rig.rollouts(), rig.head()), (3, Some(4)));
    assert_eq!(
        rig.plane
            .rollouts
            .values()
            .filter(|r| r.state == State::Completed)
            .count(),
        3
    );
}

#[test]
pub(super) fn r17_unrelated_edit_does_not_supersede_a_failed_rollout() {
    let stop = RolloutPolicy {
        on_unhealthy: OnUnhealthy::Stop,
        ..canary()
    };
    let mut rig = Rig::begun(stop, &["a", "b"]);
    rig.health = Ok(Judgement::Unhealthy);
    rig.pass(HOUR);
    assert!(
        matches!(rig.state(), State::Stopped { .. }),
        "{:?}",
        rig.state()
    );
    rig.put(vec![thing("b", 3)]);
    rig.pass(HOUR);
    assert_eq!(rig.rollouts(), 2);
    rig.health = Ok(Judgement::Healthy);
    rig.lag = Some(Duration::from_secs(1));
    rig.put(vec![thing("a", 3)]);
    rig.pass(HOUR);
    assert_eq!((rig.rollouts(), rig.head()), (3, Some(4)));
    assert!(rig.plane.quarantine.is_empty());
}

#[test]
pub(super) fn r17_asset_with_quarantined_content_is_left_out_and_keeps_its_pin() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.lag = Some(Duration::from_secs(1));
    rig.health = Ok(Judgement::Unhealthy);
    rig.pass(HOUR);
    assert!(
        matches!(rig.state(), State::RolledBack { .. }),
        "{:?}",
        rig.state()
    );
    rig.health = Ok(Judgement::Healthy);
    rig.put(vec![thing("b", 3)]);
    rig.pass(HOUR);
    assert_eq!((rig.head(), rig.state()), (Some(3), &State::Completed));
    assert_eq!(rig.at(1), ["a"]);
    assert_eq!(rig.view().left_out.len(), 1);
    rig.put(vec![thing("a", 4)]);
    rig.pass(HOUR);
    assert_eq!((rig.head(), rig.plane.pins.len()), (Some(4), 0));
}

#[test]
fn r17_of_groups_that_an_asset_has_left_the_one_with_the_newest_head_governs_it() {
    let mut rig = Rig::settled(RolloutPolicy::default(), vec![thing("a", 1), thing("b", 1)]);
    rig.lag = None;
    // The head stays behind while this rollout is live.
    rig.put(vec![thing("b", 2)]);
    let other = "policy/q";
    rig.put(vec![of_group(Some(other), "a", 2).build().unwrap()]);
    rig.run();
    let ungoverned = || vec![of_group(None, "a", 3).build().unwrap()];
    let later = seal(Some(rig.kernel.group.latest()), ungoverned(), &[]);
    assert!(
        rig.kernel.governs(&later, &id("a")),
        "no other head is known"
    );
    let heads = [(id(other), GroupHead::At(rig.kernel.group.latest().clone()))].into();
    rig.step(Event::Heads(std::sync::Arc::new(heads)));
    assert!(!rig.kernel.governs(&later, &id("a")));
    rig.put(ungoverned());
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
    assert_eq!((rig.rollouts(), rig.head()), (2, Some(4)));
}

#[test]
fn r17_asset_that_left_before_a_takeover_is_not_rolled_out_when_the_head_moves() {
    for crashes in [false, true] {
        let other = "policy/q";
        let first = vec![
            thing("a", 1),
            of_group(Some(other), "b", 1).build().unwrap(),
        ];
        let mut rig = Rig::settled(canary(), first);
        rig.lag = None;
        rig.plane.heads =
            BTreeMap::from([(id(other), GroupHead::At(rig.plane.latest.clone()))]).into();
        rig.step(Event::Heads(rig.plane.heads.clone()));
        rig.put(vec![thing("a", 2), thing("b", 2)]);
        rig.run();
        assert_eq!(rig.at(2), ["a"]);
        // The other group governs it by its head, until this group's head moves to the incarnation before.
        rig.put(vec![of_group(None, "b", 3).build().unwrap()]);
        rig.run();
        if crashes {
            rig.crash();
        }
        rig.lag = Some(Duration::from_secs(1));
        rig.pass(HOUR);
        assert_eq!((rig.rollouts(), rig.head()), (2, Some(3)), "{crashes}");
        assert!(!rig.plane.moves.iter().any(|(asset, _)| *asset == id("b")));
    }
}

#[test]
fn r17_asset_without_a_pin_is_passed_on_when_the_head_of_its_new_group_moves() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    let put = |rig: &mut Rig, policy, size| {
        rig.put(vec![of_group(policy, "b", size).build().unwrap()]);
        rig.run();
    };
    put(&mut rig, Some("policy/q"), 3);
    let head = rig.plane.latest.clone();
    put(&mut rig, None, 4);
    rig.plane.unpin(&id("b"));
    rig.run();
    assert!(rig.kernel.has(&id("b")), "no other group has a head");
    let mut out = Effects::default();
    let heads = BTreeMap::from([(id("policy/q"), GroupHead::At(head))]);
    let moved = Event::Heads(heads.into());
    rig.kernel.step(rig.now, moved, &mut out);
    assert_eq!(out.released, [id("b")]);
}

#[test]
fn r17_asset_that_leaves_its_group_before_its_turn_is_released() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    assert!(["a", "b"].iter().all(|name| rig.kernel.has(&id(name))));
    let leaves = |name| vec![of_group(Some("policy/q"), name, 3).build().unwrap()];
    rig.put(leaves("b"));
    rig.run();
    assert!(!rig.kernel.has(&id("b")));
    rig.put(leaves("a"));
    rig.run();
    assert!(rig.kernel.has(&id("a")), "its pin has moved");
}

#[test]
fn r17_asset_that_returns_to_its_group_is_rolled_out() {
    let mut rig = Rig::begun(RolloutPolicy::default(), &["a", "b"]);
    assert_eq!(rig.at(2), ["a", "b"]);
    rig.put(vec![of_group(Some("policy/q"), "b", 2).build().unwrap()]);
    rig.plane.unpin(&id("b"));
    rig.run();
    assert_eq!(rig.at(2), ["a"]);
    rig.put(vec![thing("b", 2)]);
    rig.run();
    assert_eq!(rig.at(2), ["a", "b"]);
}

#[test]
fn r17_revert_during_a_canary_rolls_the_live_rollout_back_at_once() {
    let all = |size| ["a", "b", "c"].map(|name| thing(name, size)).to_vec();
    let words = [None, Some(Command::Pause), Some(Command::Abort)];
    for word in words {
        let mut rig = Rig::begun(canary(), &["a", "b", "c"]);
        rig.settle("a");
        if let Some(word) = word {
            rig.tell(word).unwrap();
        }
        let before = rig.plane.moves.len();
        rig.put(all(1));
        rig.run();
        let back = Pin::At(IncarnationNo(1), Cause::Rollback);
        assert_eq!(rig.plane.moves[before..], [(id("a"), back)]);
        rig.lag = Some(Duration::from_secs(1));
        rig.pass(HOUR);
        assert_eq!((rig.state().word(), rig.rollouts()), ("rolled back", 2));
        assert_eq!((rig.head(), rig.plane.pins.len()), (Some(3), 0));
        // The content has not failed: a later rollout may bring it again.
        rig.put(all(2));
        rig.pass(HOUR);
        assert_eq!((rig.state().word(), rig.head()), ("completed", Some(4)));
    }
}

#[test]
fn r17_revert_of_an_asset_that_has_not_moved_waits_for_the_next_rollout() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.put(vec![thing("b", 1)]);
    rig.run();
    assert_eq!((rig.state().word(), rig.at(2)), ("running", vec!["a"]));
}
