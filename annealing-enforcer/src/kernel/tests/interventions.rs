//! R12: one push for one approval or override.

use std::time::Duration;

use control_plane_store::records::{Decisions, Outcome};
use plugin_sdk::{Pushed, Recheck, Verdict};
use prodspec_model::Digest;

use super::rig::*;
use crate::{
    config::Config,
    kernel::{AssetStatus, Command, Event, Record, Waiting},
};

#[test]
fn r12_destructive_needs_an_approval() {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    rig.diffed("a", destroys);
    let digest = rig
        .check("a")
        .map(|check| {
            (
                rig.step(Event::CheckDone {
                    run: check.target.run,
                    answer: Ok(plugin_sdk::Verdict::proceed(rig.now.wall)),
                }),
                check.change.digest,
            )
        })
        .unwrap()
        .1;
    rig.durable();
    assert!(rig.push("a").is_none());
    let explained = rig.kernel.explain(rig.now, &id("a")).unwrap();
    assert_eq!(explained.status, AssetStatus::Waiting);
    assert!(
        matches!(explained.waiting, Some(Waiting::Operator(why)) if why.contains(&digest.to_string()))
    );
    rig.approve("a", digest);
    rig.diffed("a", destroys);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_some());
}

/// A rig with an approved destructive change of `a`, and the digest of that change.
fn approved() -> (Rig, Digest) {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    rig.diffed("a", destroys);
    let check = rig.check("a").unwrap();
    let change = check.change.digest;
    rig.approve("a", change);
    let answer = Ok(Verdict::proceed(rig.now.wall));
    let run = check.target.run;
    rig.step(Event::CheckDone { run, answer });
    (rig, change)
}

#[test]
fn r12_an_approval_is_for_one_push() {
    let (mut rig, _) = approved();
    rig.durable();
    rig.pushed("a", Ok(Pushed::Done));
    // The asset does not converge: each diff finds the same change again.
    for _ in 0..100 {
        rig.diffed("a", destroys);
        if rig.check_is_asked("a") {
            rig.checked("a", |verdict| verdict);
        }
        rig.durable();
        assert!(rig.push("a").is_none(), "one approval, one push");
        rig.pass(Duration::from_secs(301));
    }
}

#[test]
fn r12_approval_is_spent_when_the_push_opens() {
    let (rig, _) = approved();
    let at = |wanted: fn(&Record) -> bool| rig.records.iter().position(wanted).unwrap();
    let spent = at(|record| matches!(record, Record::Approval(word) if word.used.is_some()));
    let open = at(|record| match record {
        Record::Asset(_, Some(record)) => record.open.is_some(),
        _ => false,
    });
    assert!(spent < open, "both are records of one step");
    // The owner dies before the push has answered.
    let mut next = rig.taken_over();
    next.diffed("a", destroys);
    next.checked("a", |verdict| verdict);
    next.durable();
    assert!(next.push("a").is_none(), "the earlier owner has used it up");
}

#[test]
fn r12_approval_is_restored_when_the_push_does_not_begin() {
    let (mut rig, _) = approved();
    rig.pass(Duration::from_secs(61));
    rig.durable();
    assert!(rig.push("a").is_none(), "its evidence is too old");
    for mut rig in [rig.taken_over(), rig] {
        let push = rig.until_diff("a");
        assert!(push <= Duration::from_secs(300));
        rig.diffed("a", destroys);
        rig.checked("a", |verdict| verdict);
        rig.durable();
        assert!(rig.push("a").is_some());
    }
}

#[test]
fn r12_an_approval_expires() {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    rig.diffed("a", destroys);
    let check = rig.check("a").unwrap();
    rig.approve("a", check.change.digest);
    let later = rig.now.wall + Duration::from_secs(25 * 3_600);
    let answer = Ok(Verdict::delay(rig.now.wall, delay(Recheck::At(later))));
    let run = check.target.run;
    rig.step(Event::CheckDone { run, answer });
    assert_eq!(rig.kernel.interventions(rig.now).approvals.len(), 1);
    while !rig.check_is_asked("a") {
        rig.until_diff("a");
        rig.diffed("a", destroys);
    }
    assert_eq!(rig.kernel.interventions(rig.now).approvals, []);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_none(), "it expired after a day");
    let next = rig.taken_over();
    assert_eq!(next.kernel.interventions(next.now).approvals, []);
}

/// Changes that do not converge after their approval was given twice: the second word stands for the first.
#[test]
fn r12_repeated_approval_is_for_one_push_over_a_takeover() {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    rig.diffed("a", destroys);
    let check = rig.check("a").unwrap();
    let change = check.change.digest;
    rig.approve("a", change);
    rig.pass(Duration::from_secs(1));
    rig.approve("a", change);
    let replaced = |rig: &Rig| {
        let words = rig.words().approvals;
        words.iter().filter(|word| word.replaced.is_some()).count()
    };
    assert_eq!(replaced(&rig), 1, "marked, not deleted");
    let (run, answer) = (check.target.run, Ok(Verdict::proceed(rig.now.wall)));
    rig.step(Event::CheckDone { run, answer });
    rig.durable();
    rig.pushed("a", Ok(Pushed::Done));
    for mut next in [rig.taken_over(), rig] {
        assert_eq!(next.kernel.interventions(next.now).approvals, []);
        next.until_diff("a");
        next.diffed("a", destroys);
        if next.check_is_asked("a") {
            next.checked("a", |verdict| verdict);
        }
        next.durable();
        assert!(next.push("a").is_none(), "two words, one push");
    }
}

#[test]
fn r12_approval_that_expired_under_a_fast_clock_is_replaced_too() {
    let month = Duration::from_secs(30 * 86_400);
    for taken_over in [false, true] {
        let (mut rig, change) = given();
        rig.now.wall += month;
        if taken_over {
            rig = rig.taken_over();
            rig.until_diff("a");
            rig.diffed("a", destroys);
        }
        rig.approve("a", change);
        rig.now.wall -= month;
        let words = rig.words().approvals.into_iter();
        let in_force = words.filter(|word| word.holds(rig.now.wall)).count();
        assert_eq!(in_force, 1, "{taken_over}");
    }
}

/// A rig in which a change of `a` waits for its checks and was approved.
fn given() -> (Rig, Digest) {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    rig.diffed("a", destroys);
    let change = rig.check("a").unwrap().change.digest;
    rig.approve("a", change);
    (rig, change)
}

#[test]
fn r12_returned_approval_does_not_replace_a_newer_one() {
    let (mut rig, change) = approved();
    // The push is admitted and has not begun.
    rig.pass(Duration::from_secs(1));
    let newer = rig.now.wall + Duration::from_secs(3_600);
    rig.say(Command::Approve {
        asset: id("a"),
        change,
        until: Some(newer),
        by: by(),
    });
    rig.pass(Duration::from_secs(60));
    rig.durable();
    assert!(rig.push("a").is_none(), "its evidence is too old");
    for next in [rig.taken_over(), rig] {
        let words = next.kernel.interventions(next.now).approvals;
        let ends: Vec<_> = words.iter().map(|word| word.until).collect();
        assert_eq!(ends, [newer]);
    }
}

#[test]
fn r12_repeated_override_is_for_one_push_over_a_takeover() {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    let hold = |verdict: Verdict| {
        Verdict::delay(verdict.as_of, delay(Recheck::After(Duration::from_secs(5))))
    };
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    rig.lift("a", check.change.digest, "test").unwrap();
    rig.pass(Duration::from_secs(1));
    rig.lift("a", check.change.digest, "test").unwrap();
    let answer = Ok(hold(Verdict::proceed(rig.now.wall)));
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer,
    });
    rig.durable();
    rig.pushed("a", Ok(Pushed::Done));
    let next = rig.taken_over();
    assert_eq!(next.kernel.interventions(next.now).overrides, []);
}

#[test]
fn r12_an_override_expires() {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    rig.lift("a", check.change.digest, "test").unwrap();
    assert_eq!(rig.kernel.interventions(rig.now).overrides.len(), 1);
    rig.now.wall += Duration::from_secs(24 * 3_600);
    assert_eq!(rig.kernel.interventions(rig.now).overrides, []);
    let next = rig.taken_over();
    assert_eq!(next.kernel.interventions(next.now).overrides, []);
}

/// A record keeps only the first commands of a decision: the approval has to be among them.
#[test]
fn r12_decision_names_the_approval_first() {
    let checks = vec!["x".into(), "y".into(), "z".into()];
    let config = Config {
        checks,
        ..Config::default()
    };
    let mut rig = Rig::with(config, kind(), vec![thing("a", 0)]);
    rig.diffed("a", destroys);
    let check = rig.check("a").unwrap();
    let change = check.change.digest;
    rig.approve("a", change);
    let mut verdict = Verdict::proceed(rig.now.wall);
    for name in ["x", "y", "z"] {
        rig.lift("a", change, name).unwrap();
        let named = delay(Recheck::After(Duration::from_secs(5)));
        verdict.delays.push(named.check(name));
    }
    let (run, answer) = (check.target.run, Ok(verdict));
    rig.step(Event::CheckDone { run, answer });
    let mut kept = Decisions::default();
    for record in &rig.records {
        if let Record::Decision(_, decision) = record {
            kept.push(decision.clone());
        }
    }
    let admitted = kept.read().find(|it| it.outcome == Outcome::Admitted);
    assert_eq!(admitted.unwrap().allowed_by[0].word, "approval");
}

#[test]
fn r12_push_names_its_approval_and_the_operator() {
    let (rig, change) = approved();
    let words = rig.words();
    let [approval] = words.approvals.as_slice() else {
        panic!("{words:?}");
    };
    assert_eq!((approval.change, approval.by.who.as_str()), (change, "me"));
    assert!(approval.used.is_some(), "marked, not deleted");
    let admitted = rig.records.iter().find_map(|record| match record {
        Record::Decision(_, decision) if decision.outcome == Outcome::Admitted => Some(decision),
        _ => None,
    });
    let allowed = &admitted.unwrap().allowed_by;
    assert_eq!(allowed.len(), 1);
    assert_eq!(
        (allowed[0].word.as_str(), &allowed[0].by),
        ("approval", &by())
    );
}

#[test]
fn r12_an_override_is_for_one_push_too() {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    let hold = |verdict: Verdict| {
        Verdict::delay(verdict.as_of, delay(Recheck::After(Duration::from_secs(5))))
    };
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    rig.lift("a", check.change.digest, "test").unwrap();
    let answer = Ok(hold(Verdict::proceed(rig.now.wall)));
    let run = check.target.run;
    rig.step(Event::CheckDone { run, answer });
    rig.durable();
    rig.pushed("a", Ok(Pushed::Done));
    rig.differs_again("a");
    rig.checked("a", hold);
    rig.durable();
    assert!(rig.push("a").is_none(), "used up");
    assert_eq!(rig.kernel.interventions(rig.now).overrides, []);
}
