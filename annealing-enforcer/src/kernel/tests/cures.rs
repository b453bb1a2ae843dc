//! R6: drift is repaired to the content that settled last while a change of intent is delayed.

use std::time::Duration;

use control_plane_store::records::Outcome;
use plugin_sdk::{Cause, Diff, Pin, Pushed, Recheck, plugin};

use super::{
    pins::{at, rolled_out},
    rig::*,
};
use crate::{
    config::Config,
    kernel::{Branch, Event, Record},
};

/// A little more than a drift period.
const PERIOD: Duration = Duration::from_secs(301);

/// A rig with `a` in sync at size 1 and edited to size 2; the push of the edit waits until Monday.
fn held_edit() -> Rig {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.publish(vec![thing("a", 2)], &[]);
    rig.diffed("a", differs);
    wait_for_monday(&mut rig);
    rig
}

/// Answers the check of a change of intent with a delay until Monday.
fn wait_for_monday(rig: &mut Rig) {
    wait_for_monday_as(rig, Cause::Intent);
}

fn wait_for_monday_as(rig: &mut Rig, cause: Cause) {
    let check = rig.check("a").expect("a check is called");
    assert_eq!(check.cause, cause);
    let monday = rig.now.wall + Duration::from_secs(86_400);
    let mut verdict = plugin_sdk::Verdict::proceed(rig.now.wall);
    verdict.delays = vec![delay(Recheck::At(monday))];
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Ok(verdict),
    });
}

/// Answers diffs of `a` as if production had `size`, until no diff is called.
fn production_has(rig: &mut Rig, size: u32) {
    while let Some(target) = rig.diff("a") {
        let same = target.asset.digest() == thing("a", size).digest();
        let answer = Ok(match same {
            true => Diff::in_sync(),
            false => differs(&target.asset),
        });
        rig.step(Event::DiffDone {
            run: target.run,
            answer,
        });
    }
}

#[test]
fn r6_drift_under_a_held_edit_is_repaired_to_the_content_settled_last() {
    let mut rig = held_edit();
    rig.pass(PERIOD);
    production_has(&mut rig, 7);
    let check = rig.check("a").expect("drift is checked");
    assert_eq!(check.cause, Cause::Drift);
    assert_eq!(check.target.asset.digest(), thing("a", 1).digest());
    let proceed = plugin_sdk::Verdict::proceed(rig.now.wall);
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Ok(proceed),
    });
    rig.durable();
    let push = rig.push("a").expect("drift is repaired");
    assert_eq!(push.cause, Cause::Drift);
    assert_eq!(push.target.asset.digest(), thing("a", 1).digest());
    let run = push.target.run;
    rig.step(Event::PushDone {
        run,
        answer: Ok(Pushed::Done),
    });
    let decided = rig.records.iter().rev().find_map(|record| match record {
        Record::Decision(_, decision) if decision.outcome == Outcome::Pushed => {
            Some((decision.cause, decision.incarnation.0))
        }
        _ => None,
    });
    assert_eq!(decided, Some((Cause::Drift, 1)));
    production_has(&mut rig, 1);
    wait_for_monday(&mut rig);
    production_has(&mut rig, 1);
    assert_eq!(rig.kernel.branches()[&Branch::CuresUnderEdit], 1);
    assert_eq!(rig.kernel.unsettled(), 1, "the edit is still to be pushed");
}

#[test]
fn r6_a_wait_of_an_edit_for_a_time_does_not_hold_the_same_change_as_a_repair() {
    let mut rig = held_edit();
    production_has(&mut rig, 7);
    // The edit is taken back, so that intent is the content settled last.
    rig.publish(vec![thing("a", 1)], &[]);
    production_has(&mut rig, 7);
    wait_for_monday(&mut rig);
    rig.pass(PERIOD);
    production_has(&mut rig, 7);
    let check = rig.check("a").expect("the repair is checked");
    assert_eq!(check.cause, Cause::Drift);
    assert_eq!(check.target.asset.digest(), thing("a", 1).digest());
}

#[test]
fn r6_production_that_has_the_edit_already_is_not_reverted() {
    let mut rig = held_edit();
    rig.pass(PERIOD);
    production_has(&mut rig, 2);
    assert!(!rig.check_is_asked("a"));
    assert_eq!(rig.kernel.unsettled(), 0);
}

#[test]
fn r6_asset_with_a_held_edit_is_diffed_for_drift_once_a_period() {
    let mut rig = held_edit();
    let mut looks = 0;
    for _ in 0..10 {
        rig.pass(PERIOD);
        while let Some(target) = rig.diff("a") {
            looks += u32::from(target.asset.digest() == thing("a", 1).digest());
            let same = target.asset.digest() == thing("a", 1).digest();
            let answer = Ok(match same {
                true => Diff::in_sync(),
                false => differs(&target.asset),
            });
            let run = target.run;
            rig.step(Event::DiffDone { run, answer });
        }
    }
    assert!((9..=10).contains(&looks), "{looks}");
    assert!(!rig.kernel.branches().contains_key(&Branch::CuresUnderEdit));
}

#[test]
fn r6_drift_is_not_repaired_to_old_content_after_a_push_of_the_edit() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.publish(vec![thing("a", 2)], &[]);
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Err(plugin::Error::transient("down")),
    });
    for _ in 0..5 {
        rig.pass(PERIOD);
        production_has(&mut rig, 7);
        if rig.check_is_asked("a") {
            wait_for_monday(&mut rig);
        }
    }
    assert!(!rig.kernel.branches().contains_key(&Branch::CuresUnderEdit));
    assert_eq!(rig.remembered("a").unwrap().settled, None);
}

#[test]
fn r6_drift_is_repaired_after_a_takeover_too() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.until_push("a", |verdict| verdict).unwrap();
    let slot = rig.kernel.table.find("a").unwrap();
    let run = plugin_sdk::Run {
        slot: slot.bare(),
        n: rig.kernel.table.slot(slot).n,
        incarnation: rig.latest.no(),
    };
    rig.step(Event::PushDone {
        run,
        answer: Ok(Pushed::Done),
    });
    rig.in_sync("a");
    rig.publish(vec![thing("a", 2)], &[]);
    rig.diffed("a", differs);
    wait_for_monday(&mut rig);
    let mut next = rig.taken_over();
    production_has(&mut next, 7);
    wait_for_monday(&mut next);
    production_has(&mut next, 7);
    let check = next.check("a").expect("drift is checked");
    assert_eq!(check.cause, Cause::Drift);
    assert_eq!(check.target.asset.digest(), thing("a", 1).digest());
}

/// Hands `rig` over to two owners in turn. Each of them must treat the difference of `a` as drift.
fn is_drift_for_the_next_owners(rig: &Rig) {
    let mut next = rig.taken_over();
    for _ in 0..2 {
        assert_eq!(next.kernel.unsettled(), 1, "it is diffed first");
        next.diffed("a", differs);
        assert_eq!(next.check("a").unwrap().cause, Cause::Drift);
        next = next.taken_over();
    }
}

#[test]
fn r6_drift_found_after_a_move_to_the_same_content_is_drift_for_the_next_owner() {
    let mut rig = rolled_out();
    let pin = at(&rig.latest);
    let asset = id("a");
    rig.step(Event::Pin { asset, pin });
    rig.diffed("a", differs);
    assert_eq!(rig.check("a").unwrap().cause, Cause::Drift);
    is_drift_for_the_next_owners(&rig);
}

#[test]
fn r6_drift_after_a_move_to_the_same_content_is_drift_for_the_next_owner() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    assert_eq!(rig.remembered("a"), None, "it has no record of its own");
    let pin = at(&rig.latest);
    let asset = id("a");
    rig.step(Event::Pin { asset, pin });
    is_drift_for_the_next_owners(&rig);
}

#[test]
fn r6_drift_is_repaired_while_an_edit_waits_for_an_approval() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.publish(vec![thing("a", 2)], &[]);
    rig.diffed("a", destroys);
    rig.checked("a", |verdict| verdict);
    rig.pass(PERIOD);
    rig.diffed("a", destroys);
    rig.checked("a", |verdict| verdict);
    let target = rig.diff("a").expect("a diff for drift");
    assert_eq!(target.asset.digest(), thing("a", 1).digest());
}

#[test]
fn r6_drift_is_repaired_while_a_moved_pin_waits() {
    drifts_while_a_pin_waits(Cause::Intent);
}

#[test]
fn r6_drift_is_repaired_while_an_emergency_waits() {
    drifts_while_a_pin_waits(Cause::Emergency);
}

/// Pins `a` to its incarnation, then to an edit for `cause`, which a check delays; then `a` drifts.
fn drifts_while_a_pin_waits(cause: Cause) {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    let first = rig.latest.clone();
    rig.step(Event::Pin {
        asset: id("a"),
        pin: Pin::At(first, Cause::Intent),
    });
    rig.in_sync("a");
    rig.publish(vec![thing("a", 2)], &[]);
    rig.step(Event::Pin {
        asset: id("a"),
        pin: Pin::At(rig.latest.clone(), cause),
    });
    rig.diffed("a", differs);
    wait_for_monday_as(&mut rig, cause);
    rig.pass(PERIOD);
    production_has(&mut rig, 7);
    let check = rig.check("a").expect("drift is checked");
    assert_eq!(check.cause, Cause::Drift);
    assert_eq!(check.target.asset.digest(), thing("a", 1).digest());
}

#[test]
fn r6_drift_is_repaired_while_no_plugin_can_push_the_edit() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.publish(vec![super::status::turned_down("a")], &[]);
    rig.diffed("a", destroys);
    rig.pass(PERIOD);
    rig.diffed("a", destroys);
    let target = rig.diff("a").expect("a diff for drift");
    assert_eq!(target.asset.digest(), thing("a", 1).digest());
}

#[test]
fn r6_drift_is_repaired_after_an_edit_during_a_failed_repair() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.pass(PERIOD);
    let push = rig.until_push("a", |verdict| verdict).expect("a repair");
    assert_eq!(push.cause, Cause::Drift);
    rig.publish(vec![thing("a", 2)], &[]);
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Err(plugin::Error::transient("down")),
    });
    production_has(&mut rig, 7);
    wait_for_monday(&mut rig);
    rig.pass(PERIOD);
    production_has(&mut rig, 7);
    let check = rig.check("a").expect("drift is checked");
    assert_eq!(check.cause, Cause::Drift);
    assert_eq!(check.target.asset.digest(), thing("a", 1).digest());
}

#[test]
fn r6_drift_is_repaired_after_an_admitted_push_of_the_edit_never_began() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.publish(vec![thing("a", 2)], &[]);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    // Its record becomes durable so late that its evidence is too old.
    rig.pass(Duration::from_secs(61));
    rig.durable();
    assert!(rig.push("a").is_none());
    production_has(&mut rig, 7);
    wait_for_monday(&mut rig);
    rig.pass(PERIOD);
    production_has(&mut rig, 7);
    let check = rig.check("a").expect("drift is checked");
    assert_eq!(check.cause, Cause::Drift);
    assert_eq!(check.target.asset.digest(), thing("a", 1).digest());
}

#[test]
fn r15_asset_back_in_intent_is_not_reverted_to_its_content_before_it_left() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    rig.in_sync("a");
    rig.in_sync("b");
    rig.publish(Vec::new(), &["a"]);
    rig.publish(vec![thing("a", 2)], &[]);
    rig.diffed("a", differs);
    wait_for_monday(&mut rig);
    let mut next = rig.taken_over();
    production_has(&mut next, 7);
    wait_for_monday(&mut next);
    production_has(&mut next, 7);
    assert!(!next.check_is_asked("a") || next.check("a").unwrap().cause == Cause::Intent);
}

#[test]
fn r6_queued_diff_for_drift_is_dropped_when_the_pin_moves() {
    let kind = kind().diffs(1);
    let assets = vec![thing("a", 1), thing("b", 1)];
    let mut rig = Rig::with(Config::default(), kind, assets);
    rig.in_sync("a");
    rig.in_sync("b");
    rig.publish(vec![thing("a", 2)], &[]);
    let edited = rig.latest.clone();
    rig.diffed("a", differs);
    wait_for_monday(&mut rig);
    rig.pass(PERIOD - Duration::from_secs(2));
    while !rig.is_diffing("a") {
        rig.pass(Duration::from_secs(1));
        if rig.is_diffing("b") {
            rig.in_sync("b");
        }
    }
    // One diff runs at a time, and it is that of `b`: the diff for drift from size 1 waits.
    rig.publish(vec![thing("b", 2)], &[]);
    rig.diffed("a", differs);
    assert!(rig.is_diffing("b") && !rig.is_diffing("a"));
    let (asset, pin) = (id("a"), Pin::At(edited, Cause::Rollback));
    rig.step(Event::Pin { asset, pin });
    rig.in_sync("b");
    let target = rig.diff("a").expect("`a` is diffed");
    assert_eq!(target.asset.digest(), thing("a", 2).digest());
}
