//! R8, R16: how the asset at the other end of an edge is observed, and what voids the observation.

use plugin_sdk::{Cause, Diff, Pin, Verdict};

use super::rig::*;
use crate::kernel::{Branch, Event, PushCall};

/// A rig with `a` pinned at the first incarnation, and `b` edited since.
fn edited_since() -> Rig {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let first = rig.latest.clone();
    rig.in_sync("a");
    rig.in_sync("b");
    rig.step(Event::Pin {
        asset: id("a"),
        pin: Pin::At(first, Cause::Intent),
    });
    rig.in_sync("a");
    rig.publish(vec![thing("a", 2), thing("b", 2)], &[]);
    rig
}

#[test]
fn r16_neighbour_is_diffed_at_its_own_pin() {
    let mut rig = edited_since();
    rig.in_sync("b");
    rig.until_diff("a");
    rig.diffed("a", differs);
    assert_eq!(rig.check("a").unwrap().target.incarnation.no().0, 1);
    rig.pass(rig.config.observation_ttl * 2);
    rig.step(Event::Observe {
        ticket: 7,
        asset: id("b"),
    });
    let seen = rig.diff("b").unwrap();
    assert_eq!(seen.incarnation.no().0, 2, "the pin of b, not of a");
    assert_eq!(seen.asset.digest(), thing("b", 2).digest());
}

#[test]
fn r16_neighbour_pinned_to_an_older_incarnation_is_diffed_there() {
    let mut rig = edited_since();
    rig.in_sync("b");
    rig.step(Event::Observe {
        ticket: 7,
        asset: id("a"),
    });
    let seen = rig.diff("a").unwrap();
    assert_eq!(seen.incarnation.no().0, 1);
    assert_eq!(seen.asset.digest(), thing("a", 1).digest());
}

#[test]
fn r16_observation_names_the_cause_of_the_neighbours_push() {
    let mut rig = edited_since();
    let edit = rig.diff("b").unwrap();
    let seen = rig.observe("b", Diff::in_sync());
    assert_eq!(seen.cause, Some(Cause::Intent), "an edit to be pushed");
    let (run, answer) = (edit.run, Ok(Diff::in_sync()));
    rig.step(Event::DiffDone { run, answer });
    rig.pass(rig.config.observation_ttl * 2);
    let seen = rig.observe("b", differs(&thing("b", 2)));
    assert_eq!(seen.cause, Some(Cause::Drift), "it was in sync with this");
    rig.step(Event::Pin {
        asset: id("b"),
        pin: Pin::NotYet,
    });
    let seen = rig.observe("b", Diff::in_sync());
    assert_eq!(seen.cause, None, "no intent");
    assert!(seen.not_yet, "its rollout brings it");
    rig.publish(vec![thing("a", 2)], &["b"]);
    let seen = rig.observe("b", Diff::in_sync());
    assert_eq!(seen.cause, None, "an orphan");
    assert!(!seen.not_yet, "no rollout brings it");
}

/// Observes `b` during the check of `a`, then runs `between`. Returns the push of `a`, if it is admitted.
fn pushed_after(between: impl FnOnce(&mut Rig)) -> (Rig, Option<PushCall>) {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("a");
    rig.in_sync("b");
    rig.publish(vec![thing("a", 2), thing("b", 2)], &[]);
    rig.in_sync("b");
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    let seen = rig.observe("b", Diff::in_sync());
    between(&mut rig);
    let mut verdict = Verdict::proceed(rig.now.wall);
    verdict.relies_on = vec![seen.stamp];
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Ok(verdict),
    });
    rig.durable();
    let push = rig.push("a");
    (rig, push)
}

#[test]
fn r8_moved_pin_of_a_neighbour_voids_the_evidence() {
    let (_, push) = pushed_after(|_| ());
    assert!(push.is_some());
    let (rig, push) = pushed_after(|rig| {
        let back = seal(None, vec![thing("a", 1), thing("b", 1)], &[]);
        rig.step(Event::Pin {
            asset: id("b"),
            pin: Pin::At(back, Cause::Intent),
        });
    });
    assert!(push.is_none(), "the pin of b has moved");
    assert_eq!(rig.kernel.branches()[&Branch::StaleEvidence], 1);
}
