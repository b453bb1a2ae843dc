//! R7 to R12: the conditions that admit a push.

use std::time::Duration;

use control_plane_store::records::Scope;
use plugin_sdk::{Claim, Diff, Pin, Pushed, Recheck};

use super::rig::{Rig, delay, destroys, differs, exclusive, id, thing};
use crate::kernel::{Branch, Event, Waiting};

#[test]
fn r7_any_delay_holds_the_push() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    rig.checked("a", |mut verdict| {
        verdict.delays = vec![delay(Recheck::After(Duration::from_secs(5)))];
        verdict
    });
    rig.durable();
    assert!(rig.push("a").is_none());
    let explained = rig.kernel.explain(rig.now, &id("a")).unwrap();
    assert!(matches!(explained.waiting, Some(Waiting::Checks(delays)) if delays.len() == 1));
    rig.pass(Duration::from_secs(6));
    assert!(
        rig.until_push("a", |verdict| verdict).is_some(),
        "the delay is over"
    );
}

#[test]
pub(super) fn r7_a_failed_check_is_a_delay() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Err("on fire".into()),
    });
    rig.durable();
    assert!(rig.push("a").is_none());
    rig.pass(Duration::from_secs(11));
    rig.diffed("a", differs);
    let late = rig.check("a").unwrap();
    rig.pass(Duration::from_secs(31));
    assert_eq!(rig.kernel.branches()[&Branch::CheckDeadline], 1);
    let answer = Ok(plugin_sdk::Verdict::proceed(rig.now.wall));
    rig.step(Event::CheckDone {
        run: late.target.run,
        answer,
    });
    rig.durable();
    assert!(
        rig.push("a").is_none(),
        "a verdict after its deadline is no verdict"
    );
}

#[test]
fn r7_delay_until_a_time_skips_checks_but_not_drift_diffs() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    let monday = rig.now.wall + Duration::from_secs(3600);
    rig.checked("a", |mut verdict| {
        verdict.delays = vec![delay(Recheck::At(monday))];
        verdict
    });
    let mut looks = 0;
    while rig.now.wall < monday {
        assert!(
            rig.until_diff("a") <= Duration::from_secs(300),
            "diffed every drift period all the same"
        );
        rig.diffed("a", differs);
        looks += 1;
        assert_eq!(
            rig.check("a").is_some(),
            rig.now.wall >= monday,
            "no check before the time that the delay names"
        );
    }
    assert_eq!(looks, 12);
}

#[test]
fn r7_an_override_lifts_one_check_for_one_change() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    let change = rig
        .check("a")
        .map(|check| (check.target.run, check.change.digest))
        .unwrap();
    rig.lift("a", change.1, "test").unwrap();
    let mut verdict = plugin_sdk::Verdict::proceed(rig.now.wall);
    verdict.delays = vec![delay(Recheck::After(Duration::from_secs(5)))];
    let mut other = verdict.clone();
    other.delays[0].check = "other".into();
    rig.step(Event::CheckDone {
        run: change.0,
        answer: Ok(verdict.join(other)),
    });
    rig.durable();
    assert!(rig.push("a").is_none(), "the other check still delays");
    rig.pass(Duration::from_secs(6));
    let pushed = rig.until_push("a", |mut verdict| {
        verdict.delays = vec![delay(Recheck::After(Duration::from_secs(5)))];
        verdict
    });
    assert!(pushed.is_some());
}

#[test]
fn r7_failed_check_stack_cannot_be_overridden() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    let refused = rig.lift("a", check.change.digest, "checks").unwrap_err();
    assert!(refused.contains("cannot be overridden"), "{refused}");
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Err("on fire".into()),
    });
    rig.durable();
    assert!(
        rig.push("a").is_none(),
        "the verdicts of the other checks are unknown"
    );
}

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
pub(super) fn r9_claims_are_taken_all_or_nothing() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let push = rig
        .until_push("a", |verdict| verdict.claim(exclusive("one")))
        .unwrap();
    rig.diffed("b", differs);
    rig.checked("b", |verdict| {
        verdict.claim(exclusive("other")).claim(exclusive("one"))
    });
    rig.durable();
    assert!(rig.push("b").is_none());
    assert_eq!(rig.kernel.branches()[&Branch::ClaimTaken], 1);
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    let woken = rig.until_push("b", |verdict| {
        verdict.claim(exclusive("other")).claim(exclusive("one"))
    });
    assert!(woken.is_some(), "woken when the claim is free");
}

#[test]
fn r9_blast_radius_is_held_until_the_asset_settles() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let one = || Claim::AtMost("domain".into(), 1);
    let push = rig.until_push("a", |verdict| verdict.claim(one())).unwrap();
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    rig.diffed("b", differs);
    rig.checked("b", |verdict| verdict.claim(one()));
    rig.durable();
    assert!(rig.push("b").is_none(), "a is pushed, but not yet settled");
    rig.in_sync("a");
    assert!(
        rig.until_push("b", |verdict| verdict.claim(one()))
            .is_some()
    );
}

#[test]
fn r9_used_up_rate_wakes_only_as_many_as_it_admits() {
    let names: Vec<_> = (0..10).map(|n| format!("a{n}")).collect();
    let mut rig = Rig::new(names.iter().map(|name| thing(name, 1)).collect());
    let rate = || {
        let every = Duration::from_secs(60);
        Claim::Rate("all".into(), plugin_sdk::Quota { burst: 2, every })
    };
    let mut waiting = names.clone();
    let look = |rig: &mut Rig, waiting: &mut Vec<String>| {
        let (mut checks, mut pushes) = (0, 0);
        for name in &names {
            if rig.is_diffing(name) && !waiting.contains(name) {
                rig.in_sync(name);
            } else if rig.is_diffing(name) {
                rig.diffed(name, differs);
            }
            if rig.check_is_asked(name) {
                checks += 1;
                rig.checked(name, |verdict| verdict.claim(rate()));
                rig.durable();
            }
            if let Some(push) = rig.push(name) {
                pushes += 1;
                let run = push.target.run;
                rig.step(Event::PushDone {
                    run,
                    answer: Ok(Pushed::Done),
                });
                rig.in_sync(name);
                waiting.retain(|other| other != name);
            }
        }
        (checks, pushes)
    };
    assert_eq!(look(&mut rig, &mut waiting), (10, 2));
    let (mut checks, mut pushes) = (0, 0);
    for _ in 0..480 {
        rig.pass(Duration::from_secs(1));
        let (more_checks, more_pushes) = look(&mut rig, &mut waiting);
        checks += more_checks;
        pushes += more_pushes;
    }
    assert_eq!((checks, pushes), (8, 8), "one a minute, and no other woke");
}

#[test]
fn r9_waiter_for_a_rate_moves_up_when_others_leave() {
    let names: Vec<_> = (0..10).map(|n| format!("a{n}")).collect();
    let mut rig = Rig::new(names.iter().map(|name| thing(name, 1)).collect());
    let rate = || {
        let every = Duration::from_secs(3_600);
        Claim::Rate("all".into(), plugin_sdk::Quota { burst: 1, every })
    };
    for name in &names {
        rig.until_push(name, |verdict| verdict.claim(rate()));
    }
    let gone: Vec<_> = names[1..9].iter().map(String::as_str).collect();
    rig.publish(Vec::new(), &gone);
    let (mut waited, mut pushed) = (Duration::ZERO, false);
    while !pushed && waited < Duration::from_secs(9_000) {
        waited += rig.until_diff("a9");
        rig.diffed("a9", differs);
        if rig.check_is_asked("a9") {
            rig.checked("a9", |verdict| verdict.claim(rate()));
            rig.durable();
            pushed = rig.push("a9").is_some();
        }
    }
    assert!(waited <= Duration::from_secs(3_600), "{waited:?}");
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
fn r9_withdrawn_push_holds_no_claim() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let one = || Claim::AtMost("domain".into(), 1);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict.claim(one()));
    rig.pause(Scope::Asset(id("a")), None);
    rig.durable();
    assert!(rig.push("a").is_none(), "paused before it started");
    let push = rig.until_push("b", |verdict| verdict.claim(one()));
    assert!(push.is_some(), "no push of a is unsettled");
}

#[test]
fn r9_withdrawn_push_keeps_the_claims_of_an_earlier_push() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let one = || Claim::AtMost("domain".into(), 1);
    rig.in_sync("b");
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict.claim(one()));
    rig.durable();
    rig.pushed("a", Ok(Pushed::Done));
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict.claim(one()));
    rig.pass(Duration::from_secs(61));
    rig.durable();
    assert!(rig.push("a").is_none(), "too late");
    assert_eq!(rig.remembered("a").unwrap().claims, [one()]);
    rig.look_now("b");
    let push = rig.until_push("b", |verdict| verdict.claim(one()));
    assert!(push.is_none(), "a is pushed and not yet settled");
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
