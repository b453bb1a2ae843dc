//! R13 to R15: the life of a push, and its records.

use std::time::Duration;

use plugin_sdk::{Diff, Guard, Pushed, plugin};
use prodspec_model::addons::Turndown;

use super::rig::{Rig, differs, exclusive, id, kind, thing};
use crate::{
    config::Config,
    kernel::{Branch, Event, Notice, Record, state::numbers::AttemptNo},
};

/// The ends of pushes that operators were notified of.
fn ends(rig: &mut Rig) -> Vec<(&'static str, Duration)> {
    let notices = std::mem::take(&mut rig.notices).into_iter();
    let ends = notices.filter_map(|notice| match notice {
        Notice::PushEnded { outcome, took, .. } => Some((outcome, took)),
        _ => None,
    });
    ends.collect()
}

#[test]
fn push_has_one_end_with_its_duration_whatever_the_number_of_follow_ups() {
    let second = Duration::from_secs(1);
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    rig.pass(second * 3);
    let in_progress = Pushed::InProgress {
        check_again_in: second * 5,
    };
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(in_progress),
    });
    assert_eq!(ends(&mut rig), [], "it is in progress");
    rig.pass(second * 5);
    rig.pushed("a", Ok(Pushed::Done));
    assert_eq!(ends(&mut rig), [("done", second * 8)]);
    let push = rig.until_push("b", |verdict| verdict).unwrap();
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Err(plugin::Error::permanent("no")),
    });
    assert_eq!(ends(&mut rig), [("permanent", Duration::ZERO)]);
}

#[test]
fn push_past_its_deadline_ends_with_an_unknown_outcome() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.until_push("a", |verdict| verdict).unwrap();
    rig.pass(Duration::from_secs(601));
    let ended = ends(&mut rig);
    let [("unknown", took)] = ended[..] else {
        panic!("{ended:?}")
    };
    assert_eq!(took, Duration::from_secs(600));
}

#[test]
pub(super) fn r13_a_push_is_durable_before_it_starts() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    assert!(rig.push("a").is_none(), "not durable yet");
    let open = rig
        .remembered("a")
        .and_then(|record| record.open)
        .expect("written ahead");
    assert_eq!(open.incarnation.0, 1);
    rig.durable();
    rig.pushed("a", Ok(Pushed::Done));
    assert_eq!(
        rig.remembered("a").unwrap().open,
        None,
        "closed with its outcome"
    );
}

#[test]
pub(super) fn r13_new_owner_diffs_an_open_push_before_anything_else() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.until_push("a", |verdict| verdict.claim(exclusive("one")))
        .unwrap();
    let mut next = rig.taken_over();
    next.diffed("b", differs);
    next.checked("b", |verdict| verdict.claim(exclusive("one")));
    next.durable();
    assert!(
        next.push("b").is_none(),
        "a's push may still be under way, with its claim"
    );
    next.diffed("a", differs);
    assert_eq!(next.kernel.branches()[&Branch::Resolved], 1);
    assert_eq!(next.remembered("a").unwrap().open, None);
    assert!(
        next.until_push("b", |verdict| verdict.claim(exclusive("one")))
            .is_some()
    );
}

#[test]
fn r13_open_push_of_an_advisory_provider_is_waited_for_until_its_deadline() {
    let advisory = kind().guard(Guard::Advisory);
    let mut rig = Rig::with(Config::default(), advisory, vec![thing("a", 1)]);
    rig.until_push("a", |verdict| verdict).unwrap();
    let mut next = rig.taken_over();
    next.pass(Duration::from_secs(590));
    assert!(
        next.diff("a").is_none(),
        "the old owner's push may still be under way"
    );
    next.pass(Duration::from_secs(11));
    assert!(next.diff("a").is_some());
}

/// Takes over from an owner whose wall clock went `wrong` by some time. Returns whether the next diff comes before the
/// deadline of the open push, and whether it comes after.
fn left_with_a_clock(wrong: jiff::SignedDuration) -> (bool, bool) {
    let mut rig = advisory();
    rig.until_push("a", |verdict| verdict).unwrap();
    rig.now.wall += wrong;
    let mut next = rig.taken_over();
    next.pass(Duration::from_secs(590));
    let early = next.diff("a").is_some();
    next.pass(Duration::from_secs(11));
    (early, next.diff("a").is_some())
}

#[test]
fn r13_wrong_wall_clock_does_not_change_the_wait_for_an_open_push() {
    let hour = jiff::SignedDuration::from_hours(1);
    for wrong in [hour, -hour] {
        assert_eq!(left_with_a_clock(wrong), (false, true), "{wrong:?}");
    }
}

fn advisory() -> Rig {
    let advisory = kind().guard(Guard::Advisory);
    Rig::with(Config::default(), advisory, vec![thing("a", 1)])
}

fn in_progress() -> Result<Pushed, plugin::Error> {
    Ok(Pushed::InProgress {
        check_again_in: Duration::from_secs(60),
    })
}

#[test]
fn r13_new_owner_knows_the_deadline_of_a_follow_up() {
    let mut rig = advisory();
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    rig.pushed("a", in_progress());
    rig.pass(Duration::from_secs(61));
    assert!(rig.push("a").is_none(), "its deadline is not durable yet");
    rig.durable();
    assert!(rig.push("a").is_some_and(|push| push.continuation));
    let mut next = rig.taken_over();
    next.pass(Duration::from_secs(598));
    assert!(next.diff("a").is_none(), "the follow-up may be under way");
    next.pass(Duration::from_secs(3));
    assert!(next.diff("a").is_some());
}

#[test]
fn r13_follow_up_durable_too_late_is_recorded_again() {
    let mut rig = advisory();
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    rig.pushed("a", in_progress());
    rig.pass(Duration::from_secs(661));
    rig.durable();
    assert!(rig.push("a").is_none(), "the recorded deadline has passed");
    rig.durable();
    assert!(rig.push("a").is_some_and(|push| push.continuation));
}

#[test]
fn r14_moved_pin_ends_a_follow_up_that_is_not_durable_yet() {
    let mut rig = advisory();
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    rig.pushed("a", in_progress());
    rig.pass(Duration::from_secs(61));
    rig.publish(vec![thing("a", 2)], &[]);
    rig.durable();
    assert!(rig.push("a").is_none());
    assert_eq!(rig.kernel.branches()[&Branch::ContinuationEnded], 1);
    rig.pass(Duration::from_secs(1));
    assert!(rig.diff("a").is_some(), "no call is under way");
}

#[test]
fn r13_push_ends_at_its_recorded_deadline() {
    let mut rig = advisory();
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    let written = rig.remembered("a").and_then(|record| record.open).unwrap();
    rig.pass(Duration::from_secs(40));
    rig.durable();
    assert!(rig.push("a").is_some());
    let left = written.until - Duration::from_secs(40);
    rig.pass(left + Duration::from_secs(1));
    assert_eq!(rig.kernel.branches()[&Branch::PushDeadline], 1);
}

#[test]
fn r13_after_an_unknown_outcome_the_diff_comes_first() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    rig.pushed("a", Err(plugin::Error::unknown("connection lost")));
    assert!(rig.push("a").is_none());
    assert!(rig.remembered("a").unwrap().open.is_some(), "still open");
    rig.diffed("a", |_| Diff::InProgress {
        check_again_in: Duration::from_secs(1),
    });
    assert!(
        rig.remembered("a").unwrap().open.is_some(),
        "production still works on it"
    );
    rig.pass(Duration::from_secs(2));
    rig.in_sync("a");
    assert_eq!(rig.remembered("a").unwrap().open, None);
    assert!(rig.kernel.all_settled_at(rig.latest.no()));
}

#[test]
fn r14_in_progress_keeps_its_claims() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let push = rig
        .until_push("a", |verdict| verdict.claim(exclusive("one")))
        .unwrap();
    let wait = Pushed::InProgress {
        check_again_in: Duration::from_secs(3),
    };
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(wait.clone()),
    });
    rig.diffed("b", differs);
    rig.checked("b", |verdict| verdict.claim(exclusive("one")));
    rig.durable();
    assert!(
        rig.push("b").is_none(),
        "a keeps its claim while in progress"
    );
    rig.pass(Duration::from_secs(4));
    assert!(rig.check("a").is_none(), "checks are not called again");
    let again = rig.push("a").expect("the push is continued");
    assert!(again.continuation && again.target.run.n > push.target.run.n);
    rig.step(Event::PushDone {
        run: again.target.run,
        answer: Ok(Pushed::Done),
    });
    rig.in_sync("a");
    assert!(
        rig.until_push("b", |verdict| verdict.claim(exclusive("one")))
            .is_some()
    );
}

#[test]
fn r14_moved_intent_ends_a_continuation() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    let wait = Pushed::InProgress {
        check_again_in: Duration::from_secs(3),
    };
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(wait),
    });
    rig.publish(vec![thing("a", 2)], &[]);
    rig.pass(Duration::from_secs(4));
    assert!(rig.push("a").is_none());
    assert_eq!(rig.kernel.branches()[&Branch::ContinuationEnded], 1);
    let diff = rig.diff("a").expect("diff before anything else");
    assert_eq!(diff.incarnation.no().0, 2);
}

#[test]
pub(super) fn r15_absent_means_orphaned() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("a");
    rig.in_sync("b");
    rig.publish(Vec::new(), &["a"]);
    assert!(!rig.is_diffing("a"));
    for _ in 0..100 {
        rig.until_diff("b");
        rig.in_sync("b");
    }
    assert!(
        rig.diff("a").is_none() && rig.push("a").is_none(),
        "left alone"
    );
    assert_eq!(rig.kernel.status(rig.now).orphans, [id("a")]);
    assert!(
        rig.records.iter().any(
            |record| matches!(record, Record::Orphan(asset, Some(_)) if asset.as_str() == "a")
        )
    );
    rig.publish(vec![thing("a", 2)], &[]);
    assert_eq!(rig.kernel.status(rig.now).orphans, []);
    assert!(rig.diff("a").is_some(), "enforced again once it is back");
    rig.publish(Vec::new(), &["a"]);
    rig.acknowledge("a");
    assert_eq!(rig.kernel.status(rig.now).orphans, []);
    assert!(rig.kernel.explain(rig.now, &id("a")).is_none());
}

#[test]
fn r15_removal_needs_addon_trait_and_approval() {
    let turned = |asset: prodspec_model::Asset| {
        asset
            .edit()
            .addon(&Turndown {
                reason: "moved".into(),
                approved_by: "me".into(),
            })
            .unwrap()
            .build()
            .unwrap()
    };
    let mut rig = Rig::new(vec![turned(thing("a", 1))]);
    rig.diffed("a", differs);
    assert!(rig.check("a").is_none(), "no plugin turns the type down");
    assert_eq!(rig.kernel.branches()[&Branch::NoTurndown], 1);

    let mut rig = Rig::with(
        Config::default(),
        kind().turndown(true),
        vec![turned(thing("a", 1))],
    );
    rig.diffed("a", differs);
    let digest = rig.check("a").map(|check| {
        rig.step(Event::CheckDone {
            run: check.target.run,
            answer: Ok(plugin_sdk::Verdict::proceed(rig.now.wall)),
        });
        check.change.digest
    });
    rig.durable();
    assert!(rig.push("a").is_none(), "not approved");
    rig.approve("a", digest.unwrap());
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    assert!(push.turndown);
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    rig.in_sync("a");
    rig.publish(Vec::new(), &["a"]);
    assert_eq!(
        rig.kernel.status(rig.now).orphans,
        [],
        "turned down before it left: not an orphan"
    );
}

/// A rig with a push of `a` that is not durable yet, and the index of its attempt.
fn about_to_push() -> (Rig, AttemptNo) {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    let slot = rig.kernel.table.find("a").unwrap();
    let at = rig.kernel.table.slot(slot).attempt;
    (rig, at)
}

#[test]
fn broken_invariant_is_detected_before_a_push_begins() {
    type Breaks = fn(&mut Rig, AttemptNo);
    let breaks: [(&str, Breaks); 5] = [
        ("S1: the verdicts are too old", |rig, at| {
            rig.kernel.attempts.at_mut(at).unwrap().good_until = rig.now.mono;
        }),
        ("S1: a diff from before another push", |rig, at| {
            let slot = rig.kernel.attempts.at(at).unwrap().slot;
            rig.kernel.table.slot_mut(slot).seq += 2;
        }),
        (
            "S3: turndown and the asset's turndown addon disagree",
            |rig, at| {
                rig.kernel.attempts.at_mut(at).unwrap().turndown = true;
            },
        ),
        ("S5: not counted as in flight", |rig, at| {
            let slot = rig.kernel.attempts.at(at).unwrap().slot;
            rig.kernel.table.slot_mut(slot).seq += 1;
        }),
        ("S5: the lease is not held", |rig, _| {
            rig.step(Event::Renewed(rig.now.mono));
        }),
    ];
    for (said, breaks) in breaks {
        let (mut rig, at) = about_to_push();
        assert_eq!(rig.kernel.would_break(rig.now, at, false), None);
        breaks(&mut rig, at);
        let found = rig.kernel.would_break(rig.now, at, false);
        assert_eq!(found.unwrap(), format!("{said}, in a push of `a`"));
    }
}

#[test]
#[should_panic(expected = "S1: a diff from before another push, in a push of `a`")]
fn broken_invariant_stops_the_kernel_before_the_push() {
    let (mut rig, at) = about_to_push();
    let slot = rig.kernel.attempts.at(at).unwrap().slot;
    rig.kernel.table.slot_mut(slot).seq += 2;
    rig.durable();
}
