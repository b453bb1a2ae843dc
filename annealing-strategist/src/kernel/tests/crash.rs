//! A crash at any step, or within one: the next owner reaches the same result.

use std::time::Duration;

use plugin_sdk::Judgement;
use prodspec_model::{Digest, rollout::RolloutPolicy};

use super::{
    pins::canary,
    plane::Part,
    rig::{Rig, id, thing},
};
use crate::kernel::Command;

const HOUR: Duration = Duration::from_secs(3600);
const NAMES: [&str; 4] = ["a", "b", "c", "new"];
const PARTS: [Part; 5] = [
    Part::Nothing,
    Part::Records,
    Part::Head,
    Part::SomeMoves,
    Part::All,
];

#[derive(Debug, PartialEq)]
struct End {
    head: Option<u32>,
    contents: Vec<Option<Digest>>,
    pins: usize,
    rows: usize,
    quarantine: usize,
    state: &'static str,
}

/// Plays a rollout that fails, one of an asset that did not fail, and one that fixes the failure.
fn story(policy: &RolloutPolicy, crash: Option<(usize, Part)>) -> (End, usize) {
    let mut rig = Rig::settled(
        policy.clone(),
        NAMES[..3].iter().map(|name| thing(name, 1)).collect(),
    );
    rig.made = 0;
    rig.crash_at = crash;
    rig.put(NAMES.iter().map(|name| thing(name, 2)).collect());
    rig.pass(2 * HOUR);
    rig.health = Ok(Judgement::Unhealthy);
    rig.put(vec![thing("a", 3), thing("b", 3)]);
    rig.pass(2 * HOUR);
    assert_eq!(rig.state().word(), "rolled back");
    rig.health = Ok(Judgement::Healthy);
    rig.put(vec![thing("c", 4)]);
    rig.pass(2 * HOUR);
    rig.put(vec![thing("a", 5), thing("c", 5)]);
    rig.pass(2 * HOUR);
    let end = End {
        head: rig.head(),
        contents: NAMES
            .iter()
            .map(|name| rig.plane.content(&id(name)))
            .collect(),
        pins: rig.plane.pins.len(),
        rows: rig.plane.rows.len(),
        quarantine: rig.plane.quarantine.len(),
        state: rig.state().word(),
    };
    (end, rig.made)
}

#[test]
pub(super) fn crash_at_or_within_any_step_does_not_change_the_result() {
    let waves = RolloutPolicy {
        max_in_flight: Some(2),
        ..canary()
    };
    // All at once, content 3 of `b` has failed and stays out. As a canary only `a` has failed: its fix releases `b`.
    for (policy, pins) in [(RolloutPolicy::default(), 1), (waves, 0)] {
        let (end, steps) = story(&policy, None);
        assert_eq!(
            (end.head, end.state, end.pins, end.rows),
            (Some(5), "completed", pins, 0)
        );
        for at in 1..=steps {
            for part in PARTS {
                let (other, _) = story(&policy, Some((at, part)));
                assert_eq!(other, end, "a crash at step {at}, {part:?}");
            }
        }
    }
}

#[test]
pub(super) fn target_whose_move_was_interrupted_waits_again() {
    let mut rig = Rig::settled(RolloutPolicy::default(), vec![thing("a", 1), thing("b", 1)]);
    rig.lag = None;
    rig.put(vec![thing("a", 2), thing("b", 2)]);
    while rig.deliver() {}
    rig.answer();
    rig.durable();
    rig.crash_in_step(Part::SomeMoves);
    assert_eq!((rig.counts().in_flight, rig.counts().waiting), (1, 1));
    rig.run();
    assert_eq!(rig.at(2), ["a", "b"]);
}

#[test]
pub(super) fn report_lost_in_a_crash_is_taken_in_again() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.plane.settle(&id("a"));
    rig.deliver();
    rig.crash();
    rig.run();
    assert_eq!(rig.counts().updated, 1);
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.plane.fail_push(&id("a"));
    rig.crash();
    rig.run();
    assert_eq!(rig.state().word(), "rolling back");
}

#[test]
pub(super) fn r22_rollback_continues_after_a_crash_at_any_step() {
    for part in PARTS {
        for at in 1..5 {
            let slow = RolloutPolicy {
                max_in_flight: Some(1),
                ..RolloutPolicy::default()
            };
            let mut rig = Rig::begun(slow, &["a", "b", "c"]);
            rig.settle("a");
            rig.plane.fail_push(&id("b"));
            rig.made = 0;
            rig.crash_at = Some((at, part));
            rig.run();
            if rig.state().word() == "running" {
                // Enforcement has lost the failed push, so an operator gives the command.
                rig.tell(Command::RollBack).unwrap();
            }
            rig.lag = Some(Duration::from_secs(1));
            rig.pass(HOUR);
            assert_eq!(rig.state().word(), "rolled back", "{part:?} at {at}");
            assert!(rig.plane.pins.is_empty(), "{:?}", rig.plane.pins);
        }
    }
}
