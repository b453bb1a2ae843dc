//! R8, R10, R11: evidence and intent that change between a check and its push, and pushes that begin too late. R14: a
//! follow-up that did not begin.

use std::time::Duration;

use control_plane_store::records::Scope;
use plugin_sdk::{Diff, Pin, Pushed};

use super::rig::{Rig, destroys, differs, exclusive, id, thing};
use crate::kernel::{Branch, Event};

#[test]
pub(super) fn r8_changed_evidence_voids_the_verdict() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    rig.diffed("b", differs);
    let seen = rig.observe("b", Diff::in_sync());
    rig.checked("b", |verdict| verdict);
    rig.durable();
    rig.pushed("b", Ok(Pushed::Done));
    let mut verdict = plugin_sdk::Verdict::proceed(rig.now.wall);
    verdict.relies_on = vec![seen.stamp];
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Ok(verdict),
    });
    rig.durable();
    assert!(rig.push("a").is_none(), "b was pushed after it was seen");
    assert_eq!(rig.kernel.branches()[&Branch::StaleEvidence], 1);
    assert!(rig.diff("a").is_some(), "it starts again from the diff");
}

#[test]
pub(super) fn r8_a_push_in_flight_holds_what_it_relies_on() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.diffed("a", differs);
    rig.diffed("b", differs);
    let check = rig.check("a").unwrap();
    let seen = rig.observe("b", Diff::in_sync());
    let mut verdict = plugin_sdk::Verdict::proceed(rig.now.wall);
    verdict.relies_on = vec![seen.stamp];
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Ok(verdict),
    });
    rig.durable();
    let push = rig.push("a").expect("a is pushed, relying on b");
    rig.checked("b", |verdict| verdict);
    rig.durable();
    assert!(rig.push("b").is_none(), "a's push in flight relies on b");
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    assert!(
        rig.until_push("b", |verdict| verdict).is_some(),
        "woken when the outcome is known"
    );
}

#[test]
pub(super) fn r8_a_moved_pin_voids_the_diff() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let old = rig.latest.clone();
    rig.publish(vec![thing("a", 2)], &[]);
    rig.diffed("a", differs);
    rig.diffed("a", differs);
    rig.step(Event::Pin {
        asset: id("a"),
        pin: Pin::At(old, plugin_sdk::Cause::Intent),
    });
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_none());
    assert!(rig.diff("a").is_some());
}

#[test]
fn r10_old_evidence_is_refused() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    let born = rig.now.wall - Duration::from_secs(60);
    rig.checked("a", |mut verdict| {
        verdict.as_of = born;
        verdict
    });
    rig.durable();
    assert!(
        rig.push("a").is_none(),
        "cached evidence counts with its own age"
    );
    rig.diffed("a", differs);
    let future = rig.now.wall + Duration::from_secs(1);
    rig.checked("a", |mut verdict| {
        verdict.as_of = future;
        verdict
    });
    rig.durable();
    assert!(
        rig.push("a").is_none(),
        "evidence from the future: the clock was set back"
    );
    assert_eq!(rig.kernel.branches()[&Branch::Aged], 2);
    assert!(rig.until_push("a", |verdict| verdict).is_some());
}

#[test]
fn r10_a_push_that_became_durable_too_late_is_withdrawn() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    rig.pass(Duration::from_secs(61));
    rig.durable();
    assert!(rig.push("a").is_none());
    assert_eq!(rig.kernel.branches()[&Branch::Withdrawn], 1);
    assert_eq!(rig.remembered("a").unwrap().open, None, "and closed");
}

#[test]
fn r10_push_is_withdrawn_when_its_evidence_ages_before_it_is_durable() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    let born = rig.now.wall - Duration::from_secs(50);
    rig.checked("a", |mut verdict| {
        verdict.as_of = born;
        verdict
    });
    rig.pass(Duration::from_secs(11));
    rig.durable();
    assert!(rig.push("a").is_none(), "61 s old");
}

#[test]
fn r11_moving_intent_does_not_starve_a_push() {
    let mut rig = Rig::new(vec![thing("a", 0), thing("b", 0)]);
    rig.in_sync("b");
    rig.diffed("a", differs);
    rig.publish(vec![thing("b", 1)], &[]);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(
        rig.push("a").is_some(),
        "a newer incarnation that changes others voids nothing"
    );

    let mut rig = Rig::new(vec![thing("a", 0)]);
    for size in 1..=3 {
        rig.diffed("a", differs);
        rig.publish(vec![thing("a", size)], &[]);
        rig.checked("a", |verdict| verdict);
        rig.durable();
        assert!(rig.push("a").is_none(), "void {size}");
    }
    rig.diffed("a", differs);
    rig.publish(vec![thing("a", 4)], &[]);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    let push = rig
        .push("a")
        .expect("after three voids the attempt finishes at its own incarnation");
    assert_eq!(push.target.incarnation.no().0, 4);
}

#[test]
fn r11_a_pause_always_voids() {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    rig.diffed("a", differs);
    rig.pause(Scope::Partition, None);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_none());
    rig.resume(Scope::Partition);
    assert!(rig.until_push("a", |verdict| verdict).is_some());
}

#[test]
fn asset_is_diffed_when_a_pause_ends_by_itself() {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    let minute = Duration::from_secs(60);
    rig.pause(Scope::Asset(id("a")), Some(rig.now.wall + minute));
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    assert_eq!(rig.until_diff("a"), minute);
    assert!(rig.until_push("a", |verdict| verdict).is_some());
    assert_eq!(rig.kernel.interventions(rig.now).pauses, []);
}

#[test]
fn r11_new_content_of_a_neighbour_voids_the_verdict() {
    let mut rig = Rig::new(vec![thing("a", 0), thing("b", 0)]);
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    rig.in_sync("b");
    let seen = rig.observe("b", Diff::in_sync());
    rig.publish(vec![thing("b", 1)], &[]);
    let mut verdict = plugin_sdk::Verdict::proceed(rig.now.wall);
    verdict.relies_on = vec![seen.stamp];
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Ok(verdict),
    });
    rig.durable();
    assert!(rig.push("a").is_none());
    assert_eq!(rig.kernel.branches()[&Branch::MovedIntent], 1);
}

#[test]
fn r10_push_that_does_not_begin_in_time_frees_holds_claims_and_approval() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.diffed("a", destroys);
    rig.diffed("b", differs);
    let check = rig.check("a").unwrap();
    rig.approve("a", check.change.digest);
    let seen = rig.observe("b", Diff::in_sync());
    let mut verdict = plugin_sdk::Verdict::proceed(rig.now.wall).claim(exclusive("one"));
    verdict.relies_on = vec![seen.stamp];
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Ok(verdict),
    });
    rig.durable();
    let push = rig.push("a").unwrap();
    assert!(push.begin_by <= rig.now.mono + Duration::from_secs(60));
    assert!(rig.words().approvals[0].used.is_some());
    rig.step(Event::PushNotStarted {
        run: push.target.run,
        continuation: false,
    });
    assert!(rig.words().approvals[0].used.is_none(), "given back");
    rig.checked("b", |verdict| verdict.claim(exclusive("one")));
    rig.durable();
    let other = rig.push("b");
    assert!(
        other.is_some(),
        "nothing relies on b, and the claim is free"
    );
    assert!(rig.is_diffing("a"), "evidence is gathered again");
}

#[test]
fn r14_follow_up_that_did_not_begin_is_called_again() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    let check_again_in = Duration::from_secs(2);
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::InProgress { check_again_in }),
    });
    rig.pass(Duration::from_secs(3));
    let follow_up = rig.push("a").unwrap();
    assert!(follow_up.continuation);
    rig.step(Event::PushNotStarted {
        run: follow_up.target.run,
        continuation: true,
    });
    assert!(rig.diff("a").is_none(), "the push is in flight");
    rig.pass(Duration::from_secs(2));
    assert!(rig.push("a").is_some_and(|push| push.continuation));
}
