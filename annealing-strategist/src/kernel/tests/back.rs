//! R22: all targets that moved go back.

use std::time::Duration;

use plugin_sdk::{Cause, Pin, Progress};
use prodspec_model::{
    IncarnationNo,
    rollout::{OnUnhealthy, RolloutPolicy},
};

use super::{
    plane::Part,
    quarantine,
    rig::{P, Rig, Thing, id, of_group, policy_asset, thing},
};
use crate::{kernel::Command, record::State};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn one_by_one() -> RolloutPolicy {
    RolloutPolicy {
        max_in_flight: Some(1),
        ..RolloutPolicy::default()
    }
}

/// `a` has settled, `b` is in flight, `c` waits.
fn half_way() -> Rig {
    let mut rig = Rig::begun(one_by_one(), &["a", "b", "c"]);
    rig.pass(Duration::from_secs(10));
    rig.settle("a");
    rig.pass(Duration::from_secs(10));
    assert_eq!(rig.at(2), ["a", "b"]);
    rig
}

#[test]
pub(super) fn r22_every_moved_target_goes_back_settled_or_not_last_first() {
    let mut rig = half_way();
    rig.settle("b");
    rig.pass(Duration::from_secs(10));
    assert_eq!(rig.at(2), ["a", "b", "c"]);
    let before = rig.plane.moves.len();
    rig.tell(Command::RollBack).unwrap();
    rig.swap(RolloutPolicy::default());
    let back = Pin::At(IncarnationNo(1), Cause::Rollback);
    assert_eq!(
        rig.plane.moves[before..],
        [(id("c"), back), (id("b"), back), (id("a"), back)]
    );
    assert_eq!(rig.state().word(), "rolling back");
    for name in ["a", "b", "c"] {
        rig.settle(name);
    }
    assert_eq!(rig.state().word(), "rolled back");
    assert!(rig.plane.pins.is_empty() && rig.plane.rows.is_empty());
    assert_eq!(rig.head(), Some(1));
}

/// The stored time of the rollout is older than the records of its targets: moves write no record of the rollout.
#[test]
fn r22_rollback_order_survives_a_restart() {
    let mut rig = half_way();
    rig.swap(RolloutPolicy {
        bake_secs: 600,
        ..one_by_one()
    });
    rig.crash();
    rig.run();
    rig.settle("b");
    rig.settle("c");
    let before = rig.plane.moves.len();
    rig.tell(Command::RollBack).unwrap();
    let back = Pin::At(IncarnationNo(1), Cause::Rollback);
    assert_eq!(rig.plane.moves[before], (id("c"), back));
}

#[test]
pub(super) fn r22_rollback_respects_limits() {
    let mut rig = half_way();
    rig.tell(Command::RollBack).unwrap();
    assert_eq!(rig.at(1), ["b"]);
    rig.settle("b");
    assert_eq!(rig.at(1), ["a", "b"]);
}

#[test]
pub(super) fn r22_new_asset_is_left_alone_and_never_removed() {
    let mut rig = Rig::settled(RolloutPolicy::default(), vec![thing("a", 1)]);
    rig.lag = None;
    rig.put(vec![thing("a", 2), thing("new", 1)]);
    rig.run();
    assert_eq!(rig.at(2), ["a", "new"]);
    rig.plane.fail_push(&id("new"));
    rig.run();
    assert_eq!((rig.pin("new"), rig.at(1)), (Pin::NotYet, vec!["a"]));
    rig.settle("a");
    assert_eq!(rig.state().word(), "rolled back");
    assert_eq!(rig.plane.content(&id("new")), None);
}

#[test]
pub(super) fn r22_rolled_back_first_turnup_leaves_assets_alone() {
    let mut rig = Rig::new(RolloutPolicy::default(), vec![thing("a", 1)]);
    rig.lag = None;
    rig.run();
    rig.tell(Command::RollBack).unwrap();
    assert_eq!((rig.state().word(), rig.head()), ("rolled back", None));
    assert_eq!(rig.plane.content(&id("a")), None);
}

#[test]
fn r22_inherited_assets_go_back_last_first() {
    let stops = RolloutPolicy {
        on_unhealthy: OnUnhealthy::Stop,
        domains: vec!["us".into(), "eu".into()],
        bake_secs: 60,
        ..one_by_one()
    };
    let mut rig = Rig::begun(stops, &["eu/a", "us/b"]);
    rig.settle("us/b");
    rig.pass(HOUR);
    rig.settle("eu/a");
    rig.tell(Command::Abort).unwrap();
    assert_eq!(rig.at(2), ["eu/a", "us/b"]);
    // The rollout with the fix fails before it moves any target.
    let held = RolloutPolicy {
        hold: Some("wait".into()),
        ..one_by_one()
    };
    rig.put(vec![
        thing("eu/a", 3),
        thing("us/b", 3),
        policy_asset(&held),
    ]);
    rig.run();
    assert_eq!((rig.state().word(), rig.rollouts()), ("running", 3));
    rig.tell(Command::RollBack).unwrap();
    assert_eq!(rig.at(1), ["eu/a"]);
}

#[test]
fn r22_rollback_never_returns_to_failed_content() {
    let mut rig = Rig::new(RolloutPolicy::default(), vec![thing("a", 1)]);
    rig.lag = None;
    rig.run();
    rig.tell(Command::RollBack).unwrap();
    // The content stays quarantined until it is fixed.
    for size in [2, 1, 3] {
        rig.run();
        rig.put(vec![thing("a", size), thing("b", size)]);
    }
    rig.run();
    assert_eq!(
        (rig.pin("a"), rig.at(4)),
        (Pin::At(IncarnationNo(4), Cause::Intent), vec!["a", "b"])
    );
    // The next rollout begins before the kernel is told that the pin moved, and then the process dies.
    rig.plane.fail_push(&id("a"));
    while rig.deliver() || rig.answer() {}
    rig.put(vec![thing("a", 4)]);
    while rig.deliver() || rig.answer() {}
    while rig.durable() {}
    assert_eq!(rig.at(5), ["a", "b"]);
    rig.crash();
    rig.plane.fail_push(&id("a"));
    rig.run();
    assert_eq!(rig.plane.content(&id("a")), None);
}

#[test]
pub(super) fn r22_failed_fix_forward_goes_back_to_the_state_before_both_rollouts() {
    let stop = RolloutPolicy {
        on_unhealthy: OnUnhealthy::Stop,
        ..one_by_one()
    };
    let mut rig = Rig::begun(stop, &["a", "b", "c"]);
    rig.settle("a");
    rig.plane.fail_push(&id("b"));
    rig.run();
    assert_eq!((rig.state().word(), rig.at(2)), ("stopped", vec!["a", "b"]));
    rig.put(vec![thing("a", 3), thing("b", 3)]);
    rig.run();
    assert_eq!((rig.rollouts(), rig.at(3)), (3, vec!["a"]));
    // `b` is still where the first rollout left it.
    assert_eq!((rig.at(2), rig.at(1)), (vec!["b"], vec!["c"]));
    rig.tell(Command::RollBack).unwrap();
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
    assert_eq!(rig.state().word(), "rolled back");
    for name in ["a", "b", "c"] {
        assert_eq!(
            rig.plane.content(&id(name)),
            Some(thing(name, 1).digest()),
            "{name}"
        );
    }
    assert!(rig.plane.rows.is_empty());
}

#[test]
pub(super) fn r22_revert_during_a_rollback_begins_no_rollout() {
    let mut rig = half_way();
    rig.tell(Command::RollBack).unwrap();
    rig.put(vec![thing("a", 1), thing("b", 1), thing("c", 1)]);
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
    assert_eq!(
        (rig.rollouts(), rig.state().word(), rig.head()),
        (2, "rolled back", Some(3))
    );
    assert!(rig.plane.pins.is_empty());
}

#[test]
fn r22_asset_that_cannot_get_back_does_not_block_its_fix() {
    let mut rig = half_way();
    rig.tell(Command::RollBack).unwrap();
    rig.swap(RolloutPolicy::default());
    assert_eq!(rig.at(1), ["a", "b"]);
    rig.settle("a");
    rig.put(vec![thing("a", 3), thing("c", 3)]);
    rig.run();
    assert_eq!((rig.rollouts(), rig.state().word()), (2, "rolling back"));
    rig.put(vec![thing("b", 3)]);
    rig.run();
    assert_eq!((rig.rollouts(), rig.at(5)), (3, vec!["a", "b", "c"]));
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
    assert_eq!((rig.state(), rig.head()), (&State::Completed, Some(5)));
}

#[test]
fn r22_retry_does_not_wait_for_an_asset_that_cannot_get_back() {
    let mut rig = half_way();
    rig.tell(Command::RollBack).unwrap();
    // `b` does not get back, so that `a` is not sent back.
    assert_eq!((rig.state().word(), rig.at(1)), ("rolling back", vec!["b"]));
    rig.tell(Command::Retry).unwrap();
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
    assert_eq!((rig.rollouts(), rig.state()), (3, &State::Completed));
    assert_eq!(rig.plane.content(&id("b")), Some(thing("b", 2).digest()));
    assert!(rig.plane.rows.is_empty() && rig.plane.pins.is_empty());
}

#[test]
fn r22_asset_on_its_way_back_keeps_the_cause_rollback() {
    let mut rig = quarantine::rolled_back();
    rig.lag = None;
    rig.put(vec![thing("a", 3)]);
    rig.run();
    rig.plane.fail_push(&id("a"));
    rig.run();
    // The newer rollout leaves `a` out: `a` continues on its way back.
    rig.put(vec![thing("a", 2), thing("b", 4)]);
    rig.run();
    rig.tell(Command::RollBack).unwrap();
    rig.settle("b");
    assert_eq!(rig.state().word(), "rolled back");
    assert_eq!(rig.at(1), ["a", "b"]);
    rig.crash();
    rig.run();
    assert_eq!(rig.at(1), ["a"], "without a pin it would go for `Intent`");
}

#[test]
fn r22_asset_that_left_its_group_before_a_newer_rollout_does_not_go_back() {
    for crash in [false, true] {
        let mut rig = half_way();
        rig.tell(Command::RollBack).unwrap();
        rig.settle("b");
        rig.pass(Duration::from_secs(10));
        rig.put(["a", "b", "c"].map(|name| thing(name, 3)).to_vec());
        rig.run();
        assert_eq!((rig.at(3), rig.state()), (vec!["a"], &State::Running));
        rig.put(vec![of_group(Some("policy/q"), "b", 4).build().unwrap()]);
        if crash {
            rig.crash();
        }
        rig.run();
        let before = rig.plane.moves.len();
        rig.tell(Command::RollBack).unwrap();
        rig.run();
        let moved = rig.plane.moves[before..].iter();
        let moved: Vec<_> = moved.map(|(id, _)| id.as_str()).collect();
        assert_eq!(moved, ["a"]);
        assert!(!rig.plane.rows.contains_key(&id("b")));
    }
}

#[test]
fn r22_asset_that_cannot_get_back_stops_counting_after_the_patience() {
    let mut rig = half_way();
    rig.tell(Command::RollBack).unwrap();
    rig.pass(9 * MINUTE);
    assert_eq!((rig.at(1), rig.at(2)), (vec!["b"], vec!["a"]));
    rig.pass(2 * MINUTE);
    assert_eq!(rig.at(1), ["a", "b"]);
    rig.crash();
    rig.settle("a");
    rig.settle("b");
    assert_eq!(rig.state().word(), "rolled back");
}

#[test]
fn r22_policy_sets_the_patience() {
    let mut rig = half_way();
    rig.tell(Command::RollBack).unwrap();
    rig.swap(RolloutPolicy {
        patience_secs: Some(3600),
        ..one_by_one()
    });
    rig.pass(30 * MINUTE);
    assert_eq!(rig.at(1), ["b"]);
    rig.pass(31 * MINUTE);
    assert_eq!(rig.at(1), ["a", "b"]);
}

#[test]
fn r22_missing_or_unreadable_policy_does_not_block_the_rollback() {
    let broken = || {
        let asset = prodspec_model::Asset::builder(id(P)).payload(&Thing { size: 1 });
        asset.unwrap().build().unwrap()
    };
    for gone in [true, false] {
        let mut rig = half_way();
        match gone {
            true => rig.edit(vec![], &[P]),
            false => rig.put(vec![broken()]),
        };
        rig.run();
        rig.tell(Command::RollBack).unwrap();
        rig.pass(MINUTE);
        assert_eq!(rig.at(1), ["a", "b"], "all at once, as without a policy");
        rig.settle("a");
        rig.settle("b");
        rig.pass(MINUTE);
        assert_eq!(rig.state().word(), "rolled back");
        assert!(rig.plane.pins.is_empty(), "{:?}", rig.plane.pins);
    }
}

#[test]
fn r22_first_turnup_continues_without_an_asset_whose_push_is_unhealthy() {
    for crashes in [false, true] {
        let assets = vec![thing("a", 1), thing("b", 1), thing("c", 1)];
        let mut rig = Rig::new(RolloutPolicy::default(), assets);
        rig.lag = None;
        rig.run();
        rig.settle("b");
        rig.plane.fail_push(&id("a"));
        rig.run();
        if crashes {
            rig.crash();
            rig.run();
        }
        assert_eq!((rig.state().word(), rig.at(1)), ("running", vec!["b", "c"]));
        assert_eq!(rig.pin("a"), Pin::NotYet);
        rig.settle("c");
        rig.pass(MINUTE);
        assert_eq!((rig.state().word(), rig.head()), ("completed", Some(1)));
        assert_eq!(rig.view().left_out, [id("a")]);
        assert_eq!(rig.pin("a"), Pin::NotYet);
        rig.lag = Some(Duration::from_secs(1));
        rig.put(vec![thing("a", 2)]);
        rig.pass(HOUR);
        assert_eq!(rig.head(), Some(2));
        assert!(rig.plane.quarantine.is_empty() && rig.plane.pins.is_empty());
    }
}

#[test]
fn r22_interrupted_release_of_an_unhealthy_asset_is_finished_after_a_restart() {
    for part in [Part::Records, Part::SomeMoves] {
        let assets = vec![thing("a", 1), thing("b", 1)];
        let mut rig = Rig::new(RolloutPolicy::default(), assets);
        rig.lag = None;
        rig.run();
        rig.plane.fail_push(&id("a"));
        rig.deliver();
        rig.crash_in_step(part);
        rig.run();
        assert_eq!((rig.pin("a"), rig.at(1)), (Pin::NotYet, vec!["b"]));
    }
}

#[test]
fn r22_news_from_before_an_asset_moved_forth_and_back_does_not_end_the_rollback() {
    let mut rig = Rig::begun(RolloutPolicy::default(), &["a"]);
    rig.tell(Command::RollBack).unwrap();
    assert_eq!(rig.at(1), ["a"]);
    // The store is slow: the next rollout begins and is rolled back before enforcement takes in any of its moves.
    let unheard = |rig: &mut Rig, size| {
        rig.put(vec![thing("a", size)]);
        while rig.deliver() || rig.answer() {}
    };
    unheard(&mut rig, 3);
    unheard(&mut rig, 1);
    let back = Pin::At(IncarnationNo(1), Cause::Rollback);
    let moves: Vec<_> = rig.steps.iter().flat_map(|step| &step.moves).collect();
    assert_eq!(moves.last(), Some(&&(id("a"), back)), "{moves:?}");
    assert_eq!(moves.len(), 2, "forth and back");
    // The next report of enforcement is about the pin from before both moves.
    rig.plane.settle(&id("a"));
    while rig.deliver() {}
    let progress = rig.view().targets[0].progress;
    assert!(
        matches!(progress, Progress::InFlight { .. }),
        "{progress:?}"
    );
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
    assert!(rig.plane.pins.is_empty() && rig.plane.rows.is_empty());
}
