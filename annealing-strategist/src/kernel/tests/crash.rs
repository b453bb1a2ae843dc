//! A crash at any step, or within one: the next owner reaches the same result.

use std::time::Duration;

use plugin_sdk::{Judgement, Pin};
use prodspec_model::{
    Asset, AssetRef, Digest,
    addons::{DependsOn, Edge, Need, PhysicalCluster},
    rollout::{OnUnhealthy, RolloutPolicy},
};

use super::{
    pins::canary,
    plane::Part,
    rig::{P, Rig, id, of_group, thing},
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

/// Returns a consumer of the capacity of `p`.
fn consumer(name: &str, size: u64, cluster: &str) -> Asset {
    let unit = "qps".into();
    let edges = vec![Edge {
        provider: AssetRef::to(id("p")),
        need: Need::Capacity { unit },
    }];
    let cluster = cluster.to_owned();
    let asset = of_group(Some(P), name, size).addon(&DependsOn { edges });
    let asset = asset.unwrap().addon(&PhysicalCluster { cluster });
    asset.unwrap().build().unwrap()
}

/// `q` failed with a smaller use of `p`, and stays out. A rollout moved `b`, stopped, and a newer one took `b` over. The
/// incarnation at which `b` is pinned is not loaded after the restart.
#[test]
fn r22_asset_that_was_taken_over_goes_back_after_a_restart() {
    let policy = RolloutPolicy {
        max_in_flight: Some(1),
        on_unhealthy: OnUnhealthy::Stop,
        ..RolloutPolicy::default()
    };
    let first = consumer("b", 4, "x");
    let mut rig = Rig::settled(
        policy,
        vec![
            thing("a", 1),
            thing("p", 10),
            first.clone(),
            consumer("q", 6, "x"),
        ],
    );
    rig.lag = None;
    rig.put(vec![consumer("q", 5, "x")]);
    rig.run();
    rig.plane.fail_push(&id("q"));
    rig.run();
    rig.tell(Command::RollBack).unwrap();
    rig.settle("q");
    assert_eq!(rig.state().word(), "rolled back");
    rig.put(vec![thing("a", 2), consumer("b", 4, "y")]);
    rig.run();
    rig.settle("a");
    rig.plane.fail_push(&id("b"));
    rig.run();
    assert_eq!((rig.state().word(), rig.at(3)), ("stopped", vec!["a", "b"]));
    rig.put(vec![thing("a", 3), consumer("b", 4, "z")]);
    rig.run();
    assert_eq!((rig.at(4), rig.at(3)), (vec!["a"], vec!["b"]));
    rig.crash();
    rig.run();
    assert_eq!(rig.view().left_out, [id("q")]);
    rig.tell(Command::RollBack).unwrap();
    for name in ["b", "a", "b"] {
        rig.settle(name);
    }
    assert_eq!(rig.state().word(), "rolled back");
    assert_eq!(rig.plane.content(&id("b")), Some(first.digest()));
    assert_eq!(rig.pin("b"), Pin::Default);
}
