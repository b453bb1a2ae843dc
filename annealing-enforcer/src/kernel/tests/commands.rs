//! Commands of operators that do not fit are refused with a text that says what would fit; the others are carried out.

use std::time::Duration;

use control_plane_store::records::{Outcome, Scope};
use prodspec_model::Digest;

use super::rig::*;
use crate::{
    config::Config,
    kernel::{Command, Event, Record},
};

/// Gives a command that must be refused. Returns the reason.
fn refused(rig: &mut Rig, command: Command) -> String {
    rig.try_say(command).expect_err("the command does not fit")
}

#[test]
fn command_that_does_not_fit_is_refused_with_a_hint() {
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
    said(&mut rig, look("typo"), "no enforced asset is called `typo`");
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
fn pause_or_push_is_over_that_does_not_fit_is_refused_with_a_hint() {
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

/// A new owner after a push of `a`, through an advisory plugin, was cut off.
fn cut_off() -> Rig {
    let config = kind().guard(plugin_sdk::Guard::Advisory);
    let mut rig = Rig::with(Config::default(), config, vec![thing("a", 1)]);
    rig.until_push("a", |verdict| verdict).unwrap();
    rig.taken_over()
}

#[test]
fn r13_look_now_is_refused_while_an_unknown_push_may_run() {
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
fn r13_operator_ends_the_wait_for_an_unknown_push() {
    let mut rig = cut_off();
    rig.say(Command::PushIsOver {
        asset: id("a"),
        by: by(),
    });
    rig.in_sync("a");
    assert_eq!(rig.remembered("a").unwrap().open, None);
    let told = rig.records.iter().any(|record| match record {
        Record::Decision(_, decision) => {
            matches!(&decision.outcome, Outcome::Command { by, .. } if by.who == "me")
        }
        _ => false,
    });
    assert!(told, "the decision names the operator");
}

#[test]
fn r13_confirmed_end_of_a_push_is_known_to_the_next_owner() {
    let mut rig = cut_off();
    rig.say(Command::PushIsOver {
        asset: id("a"),
        by: by(),
    });
    assert!(rig.is_diffing("a"));
    // The owner dies before the diff has answered.
    let mut next = rig.taken_over();
    next.pass(Duration::from_secs(10));
    assert!(next.is_diffing("a"), "the operator's command is not lost");
}

/// A rig whose plugin has room for one push, which `a` takes, while `b` waits for that room.
fn full() -> Rig {
    let config = kind().pushes(1);
    let assets = vec![thing("a", 1), thing("b", 1)];
    let mut rig = Rig::with(Config::default(), config, assets);
    rig.until_push("a", |verdict| verdict).unwrap();
    rig.diffed("b", differs);
    assert!(!rig.check_is_asked("b"));
    rig
}

#[test]
fn look_now_unsettles_an_asset_until_a_diff_that_began_afterwards() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    let no = rig.kernel.latest().no();
    let settled = |rig: &Rig| {
        let one = rig.kernel.standing(rig.now, &id("a"));
        assert_eq!(one.is_settled(), rig.kernel.all_settled_at(no));
        rig.kernel.all_settled_at(no)
    };
    assert!(settled(&rig));
    rig.look_now("a");
    assert!(!settled(&rig));
    rig.kernel.check_status(rig.now);
    // A person spoils the asset again, and asks, while that diff is under way.
    rig.look_now("a");
    rig.in_sync("a");
    assert!(!settled(&rig), "that diff began before the second command");
    rig.in_sync("a");
    assert!(settled(&rig));
    rig.kernel.check_invariants(rig.now);
}

#[test]
fn look_now_diffs_an_asset_that_waits_for_push_capacity() {
    let mut rig = full();
    rig.look_now("b");
    assert!(rig.is_diffing("b"));
    rig.kernel.check_invariants(rig.now);
}

#[test]
fn look_now_is_refused_while_pushes_are_held_back() {
    let names: Vec<_> = (0..12).map(|n| format!("a{n:02}")).collect();
    let mut rig = Rig::new(names.iter().map(|name| thing(name, 1)).collect());
    let pushes: Vec<_> = names[..11]
        .iter()
        .map(|name| rig.until_push(name, |verdict| verdict).unwrap())
        .collect();
    for push in pushes {
        let answer = Err(plugin_sdk::plugin::Error::transient("read-only"));
        let run = push.target.run;
        rig.step(Event::PushDone { run, answer });
    }
    rig.diffed("a11", differs);
    assert!(!rig.check_is_asked("a11"), "the breaker for pushes is open");
    let look = Command::LookNow {
        asset: id("a11"),
        by: by(),
    };
    let why = refused(&mut rig, look);
    assert!(why.contains("held back"), "{why}");
}

#[test]
fn look_now_is_refused_during_a_shutdown() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.step(Event::Drain);
    let look = Command::LookNow {
        asset: id("a"),
        by: by(),
    };
    let why = refused(&mut rig, look);
    assert!(why.contains("shutting down"), "{why}");
}

#[test]
fn pauses_are_listed_and_explained() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.pause(Scope::Asset(id("a")), None);
    rig.pause(Scope::Partition, None);
    assert_eq!(rig.kernel.interventions(rig.now).pauses.len(), 2);
    let of = |rig: &Rig, name: &str| {
        let explained = rig.kernel.explain(rig.now, &id(name)).unwrap();
        explained.interventions.pauses.len()
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
fn look_now_is_refused_while_a_breaker_is_open() {
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
