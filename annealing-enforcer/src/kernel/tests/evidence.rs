//! R8, R10, R11, R13, R14: evidence that must not admit a push, and pushes that are withdrawn.

use std::time::Duration;

use plugin_sdk::{Cause, Diff, Guard, Pin, Pushed, Stamp, Verdict, plugin};
use prodspec_model::{
    Asset, AssetRef,
    addons::{DependsOn, Edge, Need},
};

use super::rig::*;
use crate::{
    config::Config,
    kernel::{Branch, Event, Target},
};

/// The asset `c` as a consumer of `p`.
fn consumer(size: u32) -> Asset {
    let edges = vec![Edge {
        provider: AssetRef::to(id("p")),
        need: Need::Order,
    }];
    let asset = thing("c", size).edit().addon(&DependsOn { edges });
    asset.unwrap().build().unwrap()
}

/// Pushes `name`, from its diff to the end of the push.
fn is_pushed(rig: &mut Rig, name: &str) {
    let push = rig.until_push(name, |verdict| verdict).unwrap();
    let (run, answer) = (push.target.run, Ok(Pushed::Done));
    rig.step(Event::PushDone { run, answer });
}

/// Checks `name` with evidence about `p`; meanwhile `c` becomes a consumer of `p`, if `comes`. Returns whether `name`
/// is pushed.
fn is_pushed_beside_a_consumer(name: &str, comes: bool) -> bool {
    let mut rig = Rig::new(vec![thing("a", 1), thing("c", 1), thing("p", 1)]);
    for name in ["a", "c", "p"] {
        rig.in_sync(name);
    }
    rig.publish(vec![thing(name, 2), consumer(2)], &[]);
    rig.diffed(name, differs);
    let check = rig.check(name).unwrap();
    let relies_on: Vec<Stamp> = match name {
        "p" => vec![],
        _ => vec![rig.observe("p", Diff::in_sync()).stamp],
    };
    if comes {
        // This push ends before the other check answers, so it holds nothing then.
        is_pushed(&mut rig, "c");
    }
    let mut verdict = Verdict::proceed(rig.now.wall);
    verdict.relies_on = relies_on;
    let (run, answer) = (check.target.run, Ok(verdict));
    rig.step(Event::CheckDone { run, answer });
    rig.durable();
    let stale = rig.kernel.branches().contains_key(&Branch::StaleEvidence);
    assert_eq!(stale, comes);
    rig.push(name).is_some()
}

#[test]
fn r8_a_new_consumer_voids_the_evidence_of_its_provider() {
    assert!(is_pushed_beside_a_consumer("p", false));
    assert!(!is_pushed_beside_a_consumer("p", true));
}

#[test]
fn r8_a_new_consumer_voids_evidence_that_relies_on_its_provider() {
    assert!(is_pushed_beside_a_consumer("a", false));
    assert!(!is_pushed_beside_a_consumer("a", true));
}

#[test]
fn r8_new_consumer_whose_edge_has_come_and_gone_before_voids_the_evidence_of_its_provider() {
    let mut rig = Rig::new(vec![thing("c", 1), thing("p", 1)]);
    for name in ["c", "p"] {
        rig.in_sync(name);
    }
    rig.publish(vec![thing("p", 2)], &[]);
    rig.diffed("p", differs);
    let check = rig.check("p").unwrap();
    // The check knows of no consumer. Meanwhile the edge comes, goes before a push brings it, and comes again.
    rig.publish(vec![consumer(2)], &[]);
    rig.publish(vec![thing("c", 3)], &[]);
    rig.publish(vec![consumer(4)], &[]);
    // The first diff is of the intent before.
    rig.diffed("c", differs);
    is_pushed(&mut rig, "c");
    let (run, answer) = (check.target.run, Ok(Verdict::proceed(rig.now.wall)));
    rig.step(Event::CheckDone { run, answer });
    rig.durable();
    assert!(rig.push("p").is_none());
    assert!(rig.kernel.branches().contains_key(&Branch::StaleEvidence));
}

/// A check observes `b`, under `ticket`.
fn look(rig: &mut Rig, ticket: u64) {
    let asset = id("b");
    rig.step(Event::Observe { ticket, asset });
}

/// A check observes `b`; returns the diff that the kernel calls for it.
fn looked(rig: &mut Rig, ticket: u64) -> Target {
    look(rig, ticket);
    rig.diff("b").expect("a diff of its own")
}

fn answer(rig: &mut Rig, target: &Target) {
    let (run, answer) = (target.run, Ok(Diff::in_sync()));
    rig.step(Event::DiffDone { run, answer });
}

/// A rig with only `b`, in sync, and room for `diffs` concurrent diffs.
fn settled(diffs: u32) -> Rig {
    let kind = kind().diffs(diffs);
    let mut rig = Rig::with(Config::default(), kind, vec![thing("b", 1)]);
    rig.in_sync("b");
    rig
}

/// Edits `b`, and answers the diff of its own attempt.
fn edit(rig: &mut Rig) {
    rig.publish(vec![thing("b", 2)], &[]);
    rig.in_sync("b");
}

#[test]
fn r10_observation_from_before_an_edit_is_not_shared() {
    let mut rig = settled(9);
    let before = looked(&mut rig, 1);
    edit(&mut rig);
    answer(&mut rig, &before);
    let after = looked(&mut rig, 2);
    assert_eq!(after.asset.digest(), thing("b", 2).digest());
}

#[test]
fn r10_diff_under_way_from_before_an_edit_is_not_joined() {
    let mut rig = settled(9);
    looked(&mut rig, 1);
    edit(&mut rig);
    let after = looked(&mut rig, 2);
    assert_eq!(after.asset.digest(), thing("b", 2).digest());
    look(&mut rig, 3);
    assert!(
        rig.diff("b").is_none(),
        "a diff of the same content is joined"
    );
}

#[test]
fn r10_queued_diff_from_before_an_edit_is_not_joined() {
    let mut rig = settled(1);
    rig.look_now("b");
    look(&mut rig, 1);
    rig.publish(vec![thing("b", 2)], &[]);
    look(&mut rig, 2);
    let mut seen = Vec::new();
    while let Some(target) = rig.diff("b") {
        seen.push(target.asset.digest());
        answer(&mut rig, &target);
    }
    assert!(rig.replies.contains_key(&1) && rig.replies.contains_key(&2));
    let edited = seen.iter().filter(|it| **it == thing("b", 2).digest());
    assert_eq!(edited.count(), 2, "its own diff, and one for the check");
}

#[test]
fn r10_observation_is_shared_with_its_own_age_and_only_while_fresh() {
    let mut rig = settled(9);
    let born = rig.now.wall;
    let target = looked(&mut rig, 1);
    rig.pass(Duration::from_secs(2));
    answer(&mut rig, &target);
    rig.pass(Duration::from_secs(2));
    look(&mut rig, 2);
    assert!(rig.diff("b").is_none(), "fresh enough to be shared");
    for ticket in [1, 2] {
        let found = rig.replies[&ticket].as_ref().unwrap();
        assert_eq!(found.as_of, born, "the time when the diff began");
    }
    rig.pass(rig.config.observation_ttl);
    looked(&mut rig, 3);
}

#[test]
fn r8_observation_from_before_a_push_is_not_shared_after_it() {
    let mut rig = settled(9);
    let before = looked(&mut rig, 1);
    rig.look_now("b");
    is_pushed(&mut rig, "b");
    rig.in_sync("b");
    let joined = looked(&mut rig, 2);
    assert_ne!(
        joined.run, before.run,
        "the diff from before the push is not joined"
    );
    rig.step(Event::DiffDone {
        run: joined.run,
        answer: Err(plugin::Error::transient("no")),
    });
    answer(&mut rig, &before);
    looked(&mut rig, 3);
}

/// A rig with `a` after three runs that newer intent has voided: the next one finishes at its own incarnation.
fn finishes_own(publish: impl Fn(&mut Rig, u32)) -> Rig {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    for size in 1..=3 {
        publish(&mut rig, size);
    }
    rig
}

#[test]
fn r11_in_sync_at_an_older_incarnation_does_not_settle_a_newer_one() {
    let overtaken = |rig: &mut Rig, size| {
        rig.publish(vec![thing("a", size)], &[]);
        rig.in_sync("a");
    };
    let mut rig = finishes_own(overtaken);
    rig.publish(vec![thing("a", 4)], &[]);
    rig.in_sync("a");
    assert!(!rig.kernel.all_settled_at(rig.latest.no()));
    assert_eq!(rig.kernel.unsettled(), 1);
    let next = rig.diff("a").expect("diffed again");
    assert_eq!(next.incarnation.no(), rig.latest.no());
}

/// A rig with a check of `a` under way, for a push at its own incarnation.
fn checked_at_own() -> Rig {
    let mut rig = finishes_own(|rig, size| {
        rig.diffed("a", differs);
        rig.publish(vec![thing("a", size)], &[]);
        rig.checked("a", |verdict| verdict);
    });
    rig.diffed("a", differs);
    rig
}

#[test]
fn r11_admitted_push_does_not_begin_when_its_asset_left_intent() {
    let mut rig = checked_at_own();
    rig.checked("a", |verdict| verdict);
    rig.publish(Vec::new(), &["a"]);
    rig.durable();
    assert!(
        rig.push("a").is_none(),
        "the asset is in no incarnation in use"
    );
    assert_eq!(rig.kernel.branches()[&Branch::Withdrawn], 1);
}

#[test]
fn r11_push_is_not_admitted_when_its_asset_left_intent() {
    let mut rig = checked_at_own();
    rig.publish(Vec::new(), &["a"]);
    rig.checked("a", |verdict| verdict);
    assert!(!rig.kernel.branches().contains_key(&Branch::Admitted));
}

#[test]
fn r11_asset_that_left_intent_and_came_back_is_diffed_again_before_a_push() {
    for admitted in [false, true] {
        let mut rig = checked_at_own();
        if admitted {
            rig.checked("a", |verdict| verdict);
        }
        rig.publish(Vec::new(), &["a"]);
        rig.publish(vec![thing("a", 9)], &[]);
        if !admitted {
            rig.checked("a", |verdict| verdict);
        }
        rig.durable();
        assert!(rig.push("a").is_none(), "its intent had ended: {admitted}");
        let next = rig.diff("a").expect("diffed again");
        assert_eq!(next.incarnation.no(), rig.latest.no());
    }
}

#[test]
fn r8_an_admitted_push_does_not_begin_when_its_pin_has_moved() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let first = rig.latest.clone();
    rig.publish(vec![thing("a", 2)], &[]);
    rig.diffed("a", differs);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    rig.step(Event::Pin {
        asset: id("a"),
        pin: Pin::At(first, Cause::Intent),
    });
    rig.durable();
    assert!(rig.push("a").is_none());
    assert_eq!(rig.kernel.branches()[&Branch::Withdrawn], 1);
}

#[test]
fn r13_failed_push_is_closed_in_its_record() {
    let failures = [
        plugin::Error::transient("down"),
        plugin::Error::permanent("never"),
        plugin::Error::Unhealthy {
            message: "ill".into(),
        },
    ];
    for error in failures {
        let mut rig = Rig::new(vec![thing("a", 1)]);
        rig.diffed("a", differs);
        rig.checked("a", |verdict| verdict);
        rig.durable();
        assert!(rig.remembered("a").unwrap().open.is_some());
        rig.pushed("a", Err(error));
        assert_eq!(rig.remembered("a").unwrap().open, None);
        let next = rig.taken_over();
        let slot = next.kernel.table.find("a").unwrap();
        assert!(!next.kernel.table.slot(slot).in_flight());
    }
}

/// A rig with an admitted advisory push of `a`, whose deadline is 40 s and whose record became durable after `later`.
fn durable_after(later: Duration) -> Rig {
    let kind = kind()
        .guard(Guard::Advisory)
        .push_deadline(Duration::from_secs(40));
    let mut rig = Rig::with(Config::default(), kind, vec![thing("a", 1)]);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    rig.pass(later);
    rig.durable();
    rig
}

#[test]
fn r13_a_push_begins_only_with_half_of_its_deadline_left() {
    // An advisory provider may take the whole deadline, however late the call begins.
    let mut rig = durable_after(Duration::from_secs(19));
    assert!(rig.push("a").is_some());
    let mut rig = durable_after(Duration::from_secs(20));
    assert!(rig.push("a").is_none());
    assert_eq!(rig.kernel.branches()[&Branch::Withdrawn], 1);
}

/// Answers `target` with a difference.
fn answer_differs(rig: &mut Rig, target: &Target) {
    let (run, answer) = (target.run, Ok(differs(&target.asset)));
    rig.step(Event::DiffDone { run, answer });
}

fn pin(rig: &mut Rig, to: &prodspec_model::Incarnation) {
    let (asset, pin) = (id("a"), Pin::At(to.clone(), Cause::Intent));
    rig.step(Event::Pin { asset, pin });
}

/// A finding was void: `a` is diffed again at `at`, and no check is asked with the finding.
fn diffed_anew(rig: &mut Rig, at: &prodspec_model::Incarnation) -> Target {
    assert!(!rig.check_is_asked("a"), "the finding is void");
    let next = rig.diff("a").expect("diffed again");
    assert_eq!(next.incarnation.no(), at.no());
    next
}

/// The run under way is one that newer intent does not void any more. The pin still does.
#[test]
fn r11_diff_from_before_a_pin_move_is_not_acted_upon() {
    let mut rig = finishes_own(|rig, size| {
        rig.diffed("a", differs);
        rig.publish(vec![thing("a", size)], &[]);
        rig.checked("a", |verdict| verdict);
    });
    let first = rig.sealed.first_key_value().unwrap().1.clone();
    let newest = rig.latest.clone();
    let mut target = rig.diff("a").unwrap();
    pin(&mut rig, &first);
    answer_differs(&mut rig, &target);
    target = diffed_anew(&mut rig, &first);
    // After two moves, the pin has the place in the table that it had when the diff began.
    let second = rig.sealed.values().nth(1).unwrap().clone();
    pin(&mut rig, &newest);
    pin(&mut rig, &second);
    answer_differs(&mut rig, &target);
    target = diffed_anew(&mut rig, &second);
    answer_differs(&mut rig, &target);
    assert!(
        rig.check_is_asked("a"),
        "the diff at the present pin counts"
    );
}

/// A rig with a diff of `a` under way, and a newer incarnation with the same content of `a`.
fn same_content() -> (Rig, Target) {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let target = rig.diff("a").unwrap();
    rig.publish(vec![thing("b", 1)], &[]);
    rig.in_sync("b");
    (rig, target)
}

#[test]
fn r8_diff_from_before_a_pin_move_to_the_same_content_is_repeated() {
    let (mut rig, target) = same_content();
    let newest = rig.latest.clone();
    pin(&mut rig, &newest);
    answer_differs(&mut rig, &target);
    diffed_anew(&mut rig, &newest);
}

#[test]
fn r8_check_from_before_a_pin_move_to_the_same_content_admits_nothing() {
    let (mut rig, target) = same_content();
    answer_differs(&mut rig, &target);
    let newest = rig.latest.clone();
    pin(&mut rig, &newest);
    rig.checked("a", |verdict| verdict);
    assert!(!rig.kernel.branches().contains_key(&Branch::Admitted));
    diffed_anew(&mut rig, &newest);
}

/// Newer intent alone would not end the push any more.
#[test]
fn r14_push_from_before_a_pin_move_is_not_continued_at_a_later_pin() {
    let mut rig = finishes_own(|rig, size| {
        if size == 1 {
            rig.publish(vec![thing("b", 1)], &[]);
        }
        rig.diffed("a", differs);
        rig.publish(vec![thing("a", size)], &[]);
        rig.checked("a", |verdict| verdict);
    });
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    let check_again_in = Duration::from_secs(3);
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::InProgress { check_again_in }),
    });
    // The first two have the same content of `a`, which is not that of the push.
    let older: Vec<_> = rig.sealed.values().take(2).cloned().collect();
    for to in &older {
        pin(&mut rig, to);
    }
    rig.pass(check_again_in + Duration::from_secs(1));
    assert!(rig.push("a").is_none(), "its pin has moved");
    assert_eq!(rig.kernel.branches()[&Branch::ContinuationEnded], 1);
}
