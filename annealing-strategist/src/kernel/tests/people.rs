//! Commands of operators: each one works where it fits, and is refused with a sentence where it does not.

use std::time::Duration;

use jiff::SignedDuration;
use plugin_sdk::{Cause, Pin, Until};
use prodspec_model::{
    IncarnationNo,
    rollout::{Emergency, RolloutPolicy},
};

use super::{
    pins::canary,
    rig::{P, Rig, by, id, thing},
};
use crate::kernel::Command;

const ALL: [Command; 7] = [
    Command::Pause,
    Command::Resume,
    Command::Promote,
    Command::Abort,
    Command::Retry,
    Command::RollBack,
    Command::HandOver,
];

const HOUR: Duration = Duration::from_secs(3600);

/// At most one target in flight, and no bake.
fn one_by_one() -> RolloutPolicy {
    RolloutPolicy {
        max_in_flight: Some(1),
        ..RolloutPolicy::default()
    }
}

/// Returns the commands that are refused.
fn refused(rig: impl Fn() -> Rig) -> Vec<Command> {
    let refused = |command: &Command| {
        let mut rig = rig();
        let answer = rig.tell(*command);
        if let Err(refused) = &answer {
            let why = refused.to_string();
            assert!(why.contains(P) && why.split(' ').count() > 3, "{why}");
        }
        answer.is_err()
    };
    ALL.into_iter().filter(refused).collect()
}

fn running() -> Rig {
    Rig::begun(canary(), &["a", "b"])
}

fn after(command: Command) -> Rig {
    let mut rig = running();
    rig.tell(command).unwrap();
    rig
}

#[test]
fn commands_that_do_not_fit_are_refused_with_a_sentence() {
    use Command::{Abort, HandOver, Pause, Promote, Resume, Retry, RollBack};
    assert_eq!(refused(|| Rig::settled(canary(), vec![thing("a", 1)])), ALL);
    assert_eq!(refused(running), [Resume, Promote, Retry, HandOver]);
    let settled = || {
        let mut rig = running();
        rig.settle("a");
        rig
    };
    assert_eq!(refused(settled), [Resume, Retry, HandOver]);
    assert_eq!(refused(|| after(Pause)), [Pause, Promote, Retry, HandOver]);
    let held = || {
        let hold = Some("wait".into());
        let policy = RolloutPolicy { hold, ..canary() };
        Rig::begun(policy, &["a", "b"])
    };
    assert_eq!(refused(held), [Resume, Promote, Retry, RollBack, HandOver]);
    let why = held().tell(RollBack).unwrap_err().to_string();
    assert!(
        why.contains("moved no target") && why.contains("abort"),
        "{why}"
    );
    assert_eq!(
        refused(|| after(Abort)),
        [Pause, Resume, Promote, Abort, HandOver]
    );
    assert_eq!(
        refused(|| after(RollBack)),
        [Resume, Promote, Abort, RollBack, HandOver]
    );
}

#[test]
fn pause_holds_waiting_targets_and_not_pushes_under_way() {
    let mut rig = Rig::begun(one_by_one(), &["a", "b"]);
    rig.tell(Command::Pause).unwrap();
    rig.settle("a");
    rig.pass(Duration::from_secs(3600));
    assert_eq!((rig.at(2), rig.counts().updated), (vec!["a"], 1));
    rig.crash();
    rig.run();
    assert_eq!(rig.state().word(), "paused");
    rig.tell(Command::Resume).unwrap();
    assert_eq!(rig.at(2), ["a", "b"]);
}

#[test]
fn r22_way_back_can_be_paused_and_stays_paused_over_a_takeover() {
    let mut rig = Rig::begun(one_by_one(), &["a", "b", "c"]);
    for name in ["a", "b"] {
        rig.settle(name);
    }
    rig.tell(Command::RollBack).unwrap();
    rig.tell(Command::Pause).unwrap();
    assert_eq!(rig.at(1), ["c"], "it was sent back before");
    rig.settle("c");
    rig.pass(Duration::from_secs(3600));
    let paused = "paused on the way back";
    assert_eq!((rig.at(1), rig.state().word()), (vec!["c"], paused));
    assert!(rig.view().is_on_hold() && rig.view().awaits_person.is_some());
    rig.crash();
    rig.run();
    assert_eq!((rig.at(1), rig.state().word()), (vec!["c"], paused));
    rig.tell(Command::Resume).unwrap();
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.state().word(), "rolled back");
}

#[test]
fn abort_leaves_pins_in_place_and_retry_continues() {
    let mut rig = running();
    rig.tell(Command::Abort).unwrap();
    rig.settle("a");
    rig.pass(Duration::from_secs(3600));
    assert_eq!((rig.at(2), rig.state().word()), (vec!["a"], "stopped"));
    assert!(rig.state().why().unwrap().contains(&by().why));
    assert!(rig.plane.quarantine.is_empty());
    rig.tell(Command::Retry).unwrap();
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.state().word(), "completed");
}

#[test]
fn rollout_aborted_before_any_move_is_superseded_by_newer_content_only() {
    let hold = RolloutPolicy {
        hold: Some("wait".into()),
        ..canary()
    };
    let mut rig = Rig::begun(hold, &["a"]);
    rig.tell(Command::Abort).unwrap();
    rig.put(vec![thing("b", 1)]);
    rig.swap(canary());
    assert_eq!(rig.rollouts(), 2);
    rig.put(vec![thing("a", 3)]);
    rig.run();
    assert_eq!(rig.rollouts(), 3);
}

#[test]
fn r18_rollout_is_handed_over_to_newer_content_with_what_has_moved() {
    for paused in [false, true] {
        let mut rig = Rig::begun(canary(), &["a", "b", "c"]);
        rig.settle("a");
        rig.put(["a", "c"].map(|name| thing(name, 3)).into());
        rig.run();
        if paused {
            rig.tell(Command::Pause).unwrap();
        }
        rig.tell(Command::HandOver).unwrap();
        rig.crash();
        rig.run();
        assert_eq!((rig.rollouts(), rig.at(3)), (3, vec!["a"]));
        rig.settle("a");
        rig.pass(Duration::from_secs(500));
        assert_eq!(rig.at(3), ["a"], "its bake begins anew");
        rig.pass(Duration::from_secs(200));
        assert_eq!(rig.at(3), ["a", "b", "c"]);
        rig.tell(Command::RollBack).unwrap();
        rig.lag = Some(Duration::from_secs(1));
        rig.pass(HOUR);
        let first = ["a", "b", "c"].map(|name| thing(name, 1).digest());
        let now = ["a", "b", "c"].map(|name| rig.plane.content(&id(name)));
        assert_eq!(now, first.map(Some), "where they were before the first");
    }
}

#[test]
fn every_command_is_in_the_history_with_operator_and_reason() {
    let rig = after(Command::RollBack);
    let history = &rig.plane.newest().unwrap().history;
    assert!(history.iter().any(|entry| entry.by == Some(by())));
    assert_eq!(rig.plane.newest().unwrap().policy, id(P));
}

#[test]
pub(super) fn stopped_line_lets_no_target_move_before_its_time() {
    let mut rig = Rig::begun(one_by_one(), &["a", "b"]);
    rig.line(Some(2 * HOUR), &[]);
    rig.settle("a");
    rig.pass(HOUR);
    assert_eq!((rig.at(2), rig.counts().updated), (vec!["a"], 1));
    rig.crash();
    rig.pass(HOUR - Duration::from_secs(1));
    assert_eq!(rig.at(2), ["a"]);
    let view = rig.view();
    let wait = &view.waits[0];
    let until = rig.plane.line.as_ref().unwrap().until;
    assert_eq!(wait.until, Until::Time(until));
    assert!(wait.why.contains(&by().why), "{wait:?}");
    assert_eq!((view.is_on_hold(), view.awaits_person), (false, None));
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.at(2), ["a", "b"], "at that very second");
}

#[test]
fn stopped_line_goes_on_by_command_and_lets_a_rollback_through() {
    let mut rig = Rig::begun(one_by_one(), &["a", "b", "c"]);
    rig.line(Some(HOUR), &[]);
    rig.settle("a");
    assert_eq!(rig.at(2), ["a"]);
    rig.line(None, &[]);
    rig.run();
    assert_eq!(rig.at(2), ["a", "b"]);
    rig.line(Some(2 * HOUR), &[]);
    rig.tell(Command::RollBack).unwrap();
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
    assert_eq!(rig.state().word(), "rolled back");
}

#[test]
fn stopped_line_lets_named_groups_go_on() {
    let mut rig = Rig::begun(one_by_one(), &["a", "b"]);
    rig.line(Some(HOUR), &["policy/other", P]);
    rig.settle("a");
    assert_eq!(rig.at(2), ["a", "b"]);
}

#[test]
fn selection_under_way_moves_nothing_once_the_line_is_stopped() {
    let mut rig = Rig::settled(one_by_one(), vec![thing("a", 1)]);
    rig.put(vec![thing("a", 2)]);
    while rig.calls.is_empty() {
        assert!(rig.deliver() || rig.durable());
    }
    rig.line(Some(HOUR), &[]);
    rig.pass(HOUR / 2);
    assert_eq!((rig.rollouts(), rig.at(2)), (2, vec![]));
    rig.pass(HOUR);
    assert_eq!(rig.state().word(), "completed");
}

#[test]
fn stop_ends_after_its_time_whatever_the_wall_clock_says() {
    for jump in [-2, 2] {
        let mut rig = Rig::begun(one_by_one(), &["a", "b"]);
        rig.now.wall += SignedDuration::from_hours(jump);
        rig.line(Some(HOUR), &[]);
        rig.settle("a");
        rig.pass(HOUR - Duration::from_secs(1));
        assert_eq!(rig.at(2), ["a"], "{jump}");
        rig.pass(Duration::from_secs(1));
        assert_eq!(rig.at(2), ["a", "b"], "{jump}");
    }
}

#[test]
fn emergency_under_a_stopped_line_hurries_targets_under_way_only() {
    let mut rig = Rig::begun(one_by_one(), &["a", "b"]);
    rig.line(Some(HOUR), &[]);
    rig.swap(RolloutPolicy {
        emergency: Some(Emergency {
            who: "ann".into(),
            why: "CVE".into(),
        }),
        ..RolloutPolicy::default()
    });
    rig.run();
    assert_eq!(rig.at(2), ["a"]);
    assert_eq!(rig.pin("a"), Pin::At(IncarnationNo(2), Cause::Emergency));
}
