//! R7: a delay holds the push until its time, or until an operator overrides the check.

use std::time::Duration;

use plugin_sdk::{Delay, Recheck};

use super::rig::{Rig, delay, differs, id, thing};
use crate::kernel::{Branch, Event, Notice, Waiting};

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
fn delay_is_told_once_and_again_with_another_reason() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let told = |rig: &Rig| {
        let delays = rig.notices.iter().filter_map(|notice| match notice {
            Notice::Delayed { why, .. } => Some(why.as_str()),
            _ => None,
        });
        delays.map(str::to_owned).collect::<Vec<_>>()
    };
    for reason in ["not now", "not now", "not now", "not yet"] {
        rig.until_diff("a");
        rig.diffed("a", differs);
        rig.checked("a", |mut verdict| {
            let wait = Recheck::After(Duration::from_secs(5));
            verdict.delays = vec![Delay::new(reason, wait).check("test")];
            verdict
        });
    }
    assert_eq!(told(&rig), ["test: not now", "test: not yet"]);
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
