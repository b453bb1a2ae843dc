//! What people say: R12, one push for one approval; and words about nothing are refused, with what would fit.

use std::time::Duration;

use plane_store::records::{Outcome, Scope};
use plugin_sdk::{Pushed, Recheck, Verdict};
use prodspec_model::Digest;

use super::rig::*;
use crate::{
    config::{Config, TypeConfig},
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
        matches!(explained.waiting, Some(Waiting::Person(why)) if why.contains(&digest.to_string()))
    );
    rig.approve("a", digest);
    rig.diffed("a", destroys);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_some());
}

/// `a` is about to lose something, approved; the digest of the change.
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
    // It does not converge: the very same change again, and again.
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
fn r12_an_approval_is_spent_in_the_step_that_opens_the_push() {
    let (rig, _) = approved();
    let at = |wanted: fn(&Record) -> bool| rig.records.iter().position(wanted).unwrap();
    let spent = at(|record| matches!(record, Record::Approval(word) if word.used.is_some()));
    let open = at(|record| match record {
        Record::Asset(_, Some(record)) => record.open.is_some(),
        _ => false,
    });
    assert!(spent < open, "nothing can become durable between the two");
    // The owner dies before the push has answered.
    let mut next = rig.taken_over();
    next.diffed("a", destroys);
    next.checked("a", |verdict| verdict);
    next.durable();
    assert!(next.push("a").is_none(), "used up by the owner before");
}

#[test]
fn r12_a_push_that_never_began_gives_its_approval_back() {
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
    assert_eq!(rig.kernel.words(rig.now).approvals.len(), 1);
    while !rig.check_is_asked("a") {
        rig.until_diff("a");
        rig.diffed("a", destroys);
    }
    assert_eq!(rig.kernel.words(rig.now).approvals, []);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_none(), "it expired after a day");
    let next = rig.taken_over();
    assert_eq!(next.kernel.words(next.now).approvals, []);
}

#[test]
fn r12_the_approver_is_kept_and_named_by_the_push() {
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
    rig.diffed("a", differs);
    rig.checked("a", hold);
    rig.durable();
    assert!(rig.push("a").is_none(), "used up");
    assert_eq!(rig.kernel.words(rig.now).overrides, []);
}

/// Why a word is refused.
fn refused(rig: &mut Rig, command: Command) -> String {
    rig.try_say(command).expect_err("it is about nothing")
}

#[test]
fn a_word_about_nothing_is_refused_with_what_would_fit() {
    let config = Config {
        checks: vec!["calendar".into(), "solver".into()],
        ..Config::default()
    };
    let mut rig = Rig::with(config, kind(), vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("b");
    rig.diffed("a", differs);
    let present = rig.check("a").unwrap().change.digest;
    let other = Digest([7; 32]);
    let look = |name: &str| Command::LookNow {
        asset: id(name),
        by: by(),
    };
    let approve = |name: &str, change| Command::Approve {
        asset: id(name),
        change,
        until: None,
        by: by(),
    };
    let resume = |scope| Command::Resume { scope, by: by() };
    let lift = |check: &str| Command::Override {
        asset: id("a"),
        change: present,
        check: check.into(),
        until: None,
        by: by(),
    };
    let acknowledge = |name: &str| Command::Acknowledge {
        asset: id(name),
        by: by(),
    };
    let said = |rig: &mut Rig, command, fits: &str| {
        let why = refused(rig, command);
        assert!(why.contains(fits), "{why}");
    };
    said(
        &mut rig,
        look("nobody"),
        "no enforced asset is called `nobody`",
    );
    said(&mut rig, resume(Scope::Partition), "no pause is in force");
    rig.pause(Scope::Asset(id("b")), None);
    said(
        &mut rig,
        resume(Scope::Partition),
        "the paused scopes are asset/b",
    );
    said(&mut rig, acknowledge("b"), "not an orphan");
    said(&mut rig, approve("a", other), &present.to_string());
    said(&mut rig, approve("a", present), "needs no approval");
    said(&mut rig, approve("b", other), "in sync");
    said(
        &mut rig,
        lift("calender"),
        "the checks are calendar, solver",
    );
    assert!(rig.lift("a", present, "calendar").is_ok());
}

#[test]
fn a_pause_or_an_end_of_nothing_is_refused_with_what_would_fit() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let said = |rig: &mut Rig, command, fits: &str| {
        let why = refused(rig, command);
        assert!(why.contains(fits), "{why}");
    };
    let over = Command::PushIsOver {
        asset: id("a"),
        by: by(),
    };
    said(&mut rig, over, "`a` has no push of unknown outcome");
    let past = Command::Pause {
        scope: Scope::Partition,
        until: Some(rig.now.wall - Duration::from_secs(1)),
        by: by(),
    };
    said(&mut rig, past, "is in the past");
    let unknown = "no.v1.Such".parse().unwrap();
    let pause = Command::Pause {
        scope: Scope::Type(unknown),
        until: None,
        by: by(),
    };
    said(&mut rig, pause, "the enforced types are test.v1.Thing");
}

/// A push of `a` by an advisory provider is cut off.
fn cut_off() -> Rig {
    let config = TypeConfig {
        guard: plugin_sdk::Guard::Advisory,
        ..kind()
    };
    let mut rig = Rig::with(Config::default(), config, vec![thing("a", 1)]);
    rig.until_push("a", |verdict| verdict).unwrap();
    rig.taken_over()
}

#[test]
fn r13_a_look_says_why_a_push_of_unknown_outcome_is_still_waited_for() {
    let mut rig = cut_off();
    let why = refused(
        &mut rig,
        Command::LookNow {
            asset: id("a"),
            by: by(),
        },
    );
    assert!(why.contains("may still run, at the latest until"), "{why}");
    assert!(rig.diff("a").is_none());
}

#[test]
fn r13_a_person_ends_the_wait_for_a_push_of_unknown_outcome() {
    let mut rig = cut_off();
    rig.say(Command::PushIsOver {
        asset: id("a"),
        by: by(),
    });
    rig.in_sync("a");
    assert_eq!(rig.remembered("a").unwrap().open, None);
    let told = rig.records.iter().any(|record| match record {
        Record::Decision(_, decision) => {
            matches!(&decision.outcome, Outcome::Told { by, .. } if by.who == "me")
        }
        _ => false,
    });
    assert!(told, "who said it is remembered");
}

#[test]
fn what_people_said_is_listed_and_explained() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.pause(Scope::Asset(id("a")), None);
    rig.pause(Scope::Partition, None);
    assert_eq!(rig.kernel.words(rig.now).pauses.len(), 2);
    let of = |rig: &Rig, name: &str| {
        let explained = rig.kernel.explain(rig.now, &id(name)).unwrap();
        explained.words.pauses.len()
    };
    assert_eq!((of(&rig, "a"), of(&rig, "b")), (2, 1));
    rig.resume(Scope::Partition);
    let next = rig.taken_over();
    assert_eq!((of(&next, "a"), of(&next, "b")), (1, 0));
    let ended = rig.words().pauses;
    let ended = ended.iter().find(|it| it.scope == Scope::Partition);
    assert_eq!(ended.unwrap().resumed.as_ref().unwrap().by, by());
}

#[test]
fn a_look_while_calls_are_held_back_says_so() {
    let names: Vec<_> = (0..20).map(|n| format!("a{n}")).collect();
    let mut rig = Rig::new(names.iter().map(|name| thing(name, 1)).collect());
    for name in &names {
        let run = rig.diff(name).unwrap().run;
        let answer = Err(plugin_sdk::plugin::Error::transient("down"));
        rig.step(Event::DiffDone { run, answer });
    }
    let look = Command::LookNow {
        asset: id("a0"),
        by: by(),
    };
    let why = refused(&mut rig, look);
    assert!(why.contains("held back"), "{why}");
    rig.pass(Duration::from_secs(6));
    let probe = rig.calls.len();
    assert_eq!(probe, 1);
}
