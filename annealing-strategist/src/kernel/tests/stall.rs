//! R21: a rollout without progress is flagged, and stopped or rolled back if its policy says so.

use std::time::Duration;

use prodspec_model::rollout::{OnStall, RolloutPolicy};

use super::{
    pins::canary,
    plane::Part,
    rig::{Rig, id, policy_asset},
};
use crate::kernel::Command;

const MINUTE: Duration = Duration::from_secs(60);

fn flags(rig: &Rig) -> usize {
    let history = &rig.plane.newest().unwrap().history;
    let flag = |what: &str| what.starts_with("nothing has moved or settled");
    history.iter().filter(|entry| flag(&entry.what)).count()
}

#[test]
fn r21_a_stage_without_progress_is_flagged_once_and_ends_as_the_policy_says() {
    for (on_stall, word) in [
        (OnStall::Flag, "running"),
        (OnStall::Stop, "stopped"),
        (OnStall::RollBack, "rolling back"),
    ] {
        let policy = RolloutPolicy {
            on_stall,
            ..canary()
        };
        let mut rig = Rig::begun(policy, &["a", "b"]);
        rig.pass(29 * MINUTE);
        assert_eq!((flags(&rig), rig.state().word()), (0, "running"));
        rig.pass(2 * MINUTE);
        assert_eq!((flags(&rig), rig.state().word()), (1, word));
        let kept_away = on_stall == OnStall::RollBack;
        assert_eq!(!rig.plane.quarantine.is_empty(), kept_away);
        rig.pass(120 * MINUTE);
        // A target that does not get back is flagged as another stall.
        assert_eq!(flags(&rig), 1 + usize::from(kept_away));
    }
}

#[test]
fn r21_progress_deadline_continues_after_restarts() {
    let policy = RolloutPolicy {
        progress_secs: Some(1200),
        ..canary()
    };
    let mut rig = Rig::begun(policy, &["a", "b"]);
    for _ in 0..3 {
        rig.pass(5 * MINUTE);
        rig.crash();
        rig.run();
    }
    assert_eq!(flags(&rig), 0);
    rig.pass(9 * MINUTE);
    assert_eq!(flags(&rig), 1);
    rig.crash();
    rig.pass(120 * MINUTE);
    assert_eq!(flags(&rig), 1, "flagged already");
    rig.settle("a");
    rig.pass(15 * MINUTE);
    assert_eq!((rig.at(2), flags(&rig)), (vec!["a", "b"], 1));
    rig.pass(25 * MINUTE);
    assert_eq!(flags(&rig), 2, "another stage");
}

#[test]
fn r21_progress_before_a_restart_restarts_the_deadline() {
    let one = RolloutPolicy {
        max_in_flight: Some(1),
        ..RolloutPolicy::default()
    };
    let mut rig = Rig::begun(one, &["a", "b"]);
    rig.pass(31 * MINUTE);
    assert_eq!(flags(&rig), 1);
    rig.settle("a");
    assert_eq!(rig.at(2), ["a", "b"]);
    let stored = rig.plane.newest().unwrap().idle;
    assert!(stored.is_some_and(|idle| idle.flagged), "older than `b`");
    rig.crash();
    rig.pass(29 * MINUTE);
    assert_eq!(flags(&rig), 1);
    rig.pass(2 * MINUTE);
    assert_eq!(flags(&rig), 2);
}

#[test]
fn r21_a_crash_at_any_step_of_a_stall_does_not_lose_its_consequence() {
    for (on_stall, word) in [
        (OnStall::Stop, "stopped"),
        (OnStall::RollBack, "rolled back"),
    ] {
        for part in [Part::Nothing, Part::Records, Part::SomeMoves, Part::All] {
            for at in 1..4 {
                let policy = RolloutPolicy {
                    on_stall,
                    ..canary()
                };
                let mut rig = Rig::begun(policy, &["a", "b"]);
                rig.pass(29 * MINUTE);
                (rig.made, rig.crash_at) = (0, Some((at, part)));
                rig.pass(10 * MINUTE);
                rig.lag = Some(Duration::from_secs(1));
                rig.plane.restless.push(id("a"));
                rig.pass(MINUTE);
                assert_eq!(rig.state().word(), word, "a crash at step {at}, {part:?}");
            }
        }
    }
}

#[test]
fn r21_a_selection_that_always_fails_is_flagged_once() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.fails = Some("it is broken".to_owned());
    rig.settle("a");
    rig.pass(29 * MINUTE);
    assert_eq!((rig.at(2), flags(&rig)), (vec!["a"], 0));
    let why = "the selection failed: it is broken";
    assert!(rig.view().waits.iter().any(|wait| wait.why == why));
    rig.pass(2 * MINUTE);
    assert_eq!(flags(&rig), 1);
    rig.pass(60 * MINUTE);
    assert_eq!(flags(&rig), 1);
    rig.fails = None;
    rig.pass(MINUTE);
    assert_eq!(rig.at(2), ["a", "b"]);
}

#[test]
fn r21_rollout_that_waits_for_a_time_or_an_operator_is_not_flagged() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.tell(Command::Pause).unwrap();
    rig.pass(120 * MINUTE);
    assert_eq!(flags(&rig), 0, "paused");
    rig.tell(Command::Resume).unwrap();
    let held = RolloutPolicy {
        hold: Some("wait".into()),
        ..canary()
    };
    rig.put(vec![policy_asset(&held)]);
    rig.run();
    rig.pass(120 * MINUTE);
    assert_eq!(flags(&rig), 0, "held");
    let long = RolloutPolicy {
        canary: canary().canary.map(|mut canary| {
            canary.bake_secs = 7200;
            canary
        }),
        ..RolloutPolicy::default()
    };
    rig.swap(long);
    rig.settle("a");
    rig.pass(119 * MINUTE);
    assert_eq!((rig.at(2).len(), flags(&rig)), (1, 0), "bakes");
}

#[test]
fn r63_held_target_is_shown_with_the_reason() {
    let mut rig = Rig::begun(RolloutPolicy::default(), &["a", "b"]);
    rig.plane.hold(&id("a"), "paused by me: seen");
    rig.run();
    let view = rig.view();
    assert_eq!(
        view.held,
        [(id("a"), "paused by me: seen".to_owned())].into()
    );
    let said = |wait: &plugin_sdk::Wait| wait.why.contains("a (waits for paused by me: seen)");
    assert!(view.waits.iter().any(said), "{:?}", view.waits);
    let why = view.awaits_person.unwrap();
    assert_eq!(why, "a: paused by me: seen");
    rig.plane.hold(&id("b"), "approve change 7");
    rig.run();
    let why = rig.view().awaits_person.unwrap();
    assert!(why.ends_with("and 1 more targets"), "{why}");
    rig.settle("a");
    rig.settle("b");
    let view = rig.view();
    assert!(view.held.is_empty() && view.awaits_person.is_none());
}
