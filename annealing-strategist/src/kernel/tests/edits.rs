//! R17: a group whose policy says that its assets are updated by edits follows the newest incarnation.

use std::time::Duration;

use plugin_sdk::{Cause, GroupHead, Judgement, Pin};
use prodspec_model::rollout::{RolloutPolicy, Update};

use super::{
    pins::canary,
    rig::{P, Rig, of_group, thing},
};
use crate::kernel::Command;

const HOUR: Duration = Duration::from_secs(3600);

fn edits() -> RolloutPolicy {
    canary().update(Update::Edits)
}

/// A group whose assets have been turned up, and that follows the newest incarnation since.
fn following() -> Rig {
    let assets = ["a", "b", "c"].map(|name| thing(name, 1));
    let rig = Rig::settled(edits(), assets.into());
    assert!(follows(&rig), "{:?}", rig.plane.head);
    rig
}

fn follows(rig: &Rig) -> bool {
    matches!(rig.plane.head, Some(GroupHead::Latest))
}

#[test]
fn r17_group_updated_by_edits_follows_latest_once_it_was_turned_up() {
    let mut rig = following();
    rig.edit(vec![thing("a", 2), thing("d", 1)], &["b"]);
    rig.pass(HOUR);
    assert_eq!(rig.rollouts(), 1, "the first turnup");
    assert!(rig.plane.pins.is_empty() && rig.plane.rows.is_empty());
    assert_eq!((rig.plane.intent(&super::rig::id("a")).unwrap().1).0, 2);
    let view = rig.view();
    assert_eq!((view.update, view.update_waits), (Update::Edits, None));
    assert_eq!(view.head.map(|head| head.0), Some(2));
    assert!(rig.kernel.rests(rig.plane.latest.no()));
}

#[test]
fn r17_word_edits_takes_hold_when_the_group_rests() {
    let mut rig = Rig::begun(canary(), &["a", "b", "c"]);
    rig.swap(edits());
    assert!(!follows(&rig));
    let why = rig.view().update_waits.unwrap();
    assert_eq!(why, "waits for the end of rollout 2");
    assert_eq!(rig.pin("b"), Pin::Default, "nothing moves by the word");
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
    assert!(follows(&rig) && rig.plane.pins.is_empty());
}

#[test]
fn r17_word_edits_waits_while_content_is_quarantined() {
    let mut rig = Rig::begun(canary(), &["a", "b", "c"]);
    rig.swap(edits());
    rig.lag = Some(Duration::from_secs(1));
    rig.health = Ok(Judgement::Unhealthy);
    rig.pass(HOUR);
    assert_eq!(rig.state().word(), "rolled back");
    assert!(!follows(&rig), "the failed content would be pushed");
    let why = rig.view().update_waits.unwrap();
    assert_eq!(
        why,
        "waits until no content is quarantined; retry or fix it"
    );
    rig.health = Ok(Judgement::Healthy);
    rig.tell(Command::Retry).unwrap();
    rig.pass(HOUR);
    assert!(follows(&rig));
}

#[test]
fn r17_word_pins_takes_hold_at_the_incarnation_in_force() {
    let mut rig = following();
    rig.put(vec![thing("a", 2)]);
    rig.swap(canary());
    let head = rig.plane.latest.no();
    assert!(matches!(&rig.plane.head, Some(GroupHead::At(at)) if at.no() == head));
    assert_eq!(rig.view().update, Update::Pins);
    rig.lag = None;
    rig.put(["a", "b", "c"].map(|name| thing(name, 3)).into());
    rig.run();
    assert_eq!(rig.at(rig.plane.latest.no().0), ["a"], "the canary");
}

#[test]
fn r17_policy_that_is_gone_changes_no_way_to_update() {
    let mut rig = following();
    rig.edit(vec![thing("a", 2)], &[P]);
    rig.pass(HOUR);
    assert!(follows(&rig));
    let bare = ["a", "b", "c"].map(|name| of_group(None, name, 3).build().unwrap());
    rig.edit(bare.into(), &[]);
    rig.pass(HOUR);
    assert!(follows(&rig) && rig.plane.pins.is_empty());
    assert_eq!(rig.rollouts(), 1);
}

#[test]
fn r17_next_owner_follows_too() {
    let mut rig = following();
    rig.edit(vec![thing("a", 2)], &[]);
    rig.crash();
    rig.edit(vec![thing("a", 3)], &[]);
    rig.pass(HOUR);
    assert!(follows(&rig) && rig.plane.pins.is_empty());
    assert_eq!(rig.rollouts(), 1);
}

#[test]
fn r17_asset_with_a_pin_from_another_group_follows_after_it_came() {
    let mut rig = following();
    let (first, a) = (rig.plane.latest.no(), super::rig::id("a"));
    rig.put(vec![thing("a", 2)]);
    rig.plane
        .pins
        .insert(a.clone(), Pin::At(first, Cause::Intent));
    rig.plane.drift(&a);
    rig.run();
    rig.pass(HOUR);
    assert!(rig.plane.pins.is_empty(), "{:?}", rig.plane.pins);
}

#[test]
fn r5_group_with_a_head_of_a_newer_version_stands_still() {
    let assets = ["a", "b"].map(|name| thing(name, 1));
    let mut rig = Rig::settled(canary(), assets.into());
    rig.plane.head = Some(GroupHead::Unknown);
    rig.crash();
    rig.put(vec![thing("a", 2)]);
    rig.pass(HOUR);
    assert_eq!(rig.rollouts(), 1);
    assert!(
        rig.view()
            .awaits_person
            .unwrap()
            .contains("newer program version")
    );
}
