//! R18 and R19: selections follow the present policy, and include the assets that their targets wait for.

use std::time::Duration;

use plugin_sdk::{Cause, Pin, Wait};
use prodspec_model::{
    Asset, AssetRef, IncarnationNo,
    addons::{DependsOn, Edge, Need},
    rollout::{Amount, Canary, Emergency, RolloutPolicy, Wave},
};

use super::{
    pins::canary,
    rig::{P, Rig, config, id, of_group, thing},
};
use crate::{kernel::Command, record::State};

#[test]
pub(super) fn r18_the_policy_is_read_at_each_call() {
    let hold = RolloutPolicy {
        hold: Some("wait".into()),
        ..RolloutPolicy::default()
    };
    let mut rig = Rig::begun(hold, &["a", "b"]);
    assert!(rig.at(2).is_empty());
    rig.swap(RolloutPolicy {
        max_in_flight: Some(1),
        ..RolloutPolicy::default()
    });
    assert_eq!((rig.at(2), rig.rollouts()), (vec!["a"], 2));
    rig.swap(RolloutPolicy::default());
    assert_eq!(rig.at(2), ["a", "b"]);
}

#[test]
pub(super) fn r18_a_selection_by_an_older_policy_is_void() {
    let mut rig = Rig::settled(RolloutPolicy::default(), vec![thing("a", 1)]);
    rig.put(vec![thing("a", 2)]);
    while rig.deliver() {}
    assert_eq!(rig.calls.len(), 1);
    rig.put(vec![super::rig::policy_asset(&RolloutPolicy {
        hold: Some("no".into()),
        ..canary()
    })]);
    while rig.deliver() {}
    rig.run();
    assert!(rig.at(2).is_empty());
}

#[test]
pub(super) fn r18_selected_target_is_not_selected_again() {
    let one = RolloutPolicy {
        max_in_flight: Some(1),
        ..RolloutPolicy::default()
    };
    let mut rig = Rig::begun(one, &["a", "b", "c"]);
    assert_eq!(rig.at(2), ["a"]);
    rig.step(crate::kernel::Event::Tick);
    rig.settle("a");
    assert_eq!(rig.at(2), ["a", "b"]);
    rig.plane.drift(&id("a"));
    rig.run();
    rig.settle("a");
    rig.settle("b");
    assert_eq!(rig.at(2), ["a", "b", "c"]);
    // Each of the three targets moved once.
    let moves = rig
        .plane
        .moves
        .iter()
        .filter(|(_, goes)| *goes == Pin::At(IncarnationNo(2), Cause::Intent));
    assert_eq!(moves.count(), 3);
}

#[test]
pub(super) fn r18_missing_policy_holds_the_rollout_until_it_is_restored() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.lag = Some(Duration::from_secs(1));
    rig.edit(vec![], &[P]);
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.at(2), ["a"]);
    assert!(
        rig.view()
            .waits
            .iter()
            .any(|wait| wait.why.contains("no policy asset"))
    );
    rig.swap(canary());
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.state(), &State::Completed);
}

pub(super) fn consumer(name: &str, provider: &str, need: Need, size: u64) -> Asset {
    let edges = vec![Edge {
        provider: AssetRef::to(id(provider)),
        need,
    }];
    let asset = of_group(Some(P), name, size).addon(&DependsOn { edges });
    asset.unwrap().build().unwrap()
}

pub(super) fn qps() -> Need {
    Need::Capacity { unit: "qps".into() }
}

#[test]
pub(super) fn r19_both_ends_of_a_changing_capacity_move_together() {
    let assets = |z| vec![consumer("a", "z", qps(), z), thing("b", z), thing("z", z)];
    let mut rig = Rig::settled(canary(), assets(1));
    rig.lag = None;
    rig.put(assets(2));
    rig.run();
    assert_eq!(rig.at(2), ["a", "z"]);
}

fn one_at_a_time() -> RolloutPolicy {
    RolloutPolicy {
        max_in_flight: Some(1),
        ..canary()
    }
}

#[test]
fn r19_assets_tied_by_edges_go_back_together() {
    let assets = |size| vec![consumer("a", "z", qps(), size), thing("z", size)];
    let mut rig = Rig::settled(one_at_a_time(), assets(1));
    rig.lag = None;
    rig.put(assets(2));
    rig.run();
    assert_eq!(rig.at(2), ["a", "z"]);
    rig.tell(Command::RollBack).unwrap();
    assert_eq!(rig.at(1), ["a", "z"], "each would wait for the other");
}

#[test]
fn r19_provider_goes_back_with_consumers_of_its_version() {
    let assets = |size| vec![consumer("a", "z", Need::Version, size), thing("z", size)];
    let mut rig = Rig::settled(one_at_a_time(), assets(1));
    rig.lag = None;
    rig.put(assets(2));
    rig.run();
    rig.settle("z");
    rig.settle("a");
    rig.tell(Command::RollBack).unwrap();
    assert_eq!(rig.at(1), ["a", "z"]);
}

/// `a` uses `z`; `b` has no edge.
fn assets(a: u64, z: u64) -> Vec<Asset> {
    vec![consumer("a", "z", qps(), a), thing("b", a), thing("z", z)]
}

/// Those assets, after content 2 of `z` has failed.
fn failed() -> Rig {
    let mut rig = Rig::settled(RolloutPolicy::default(), assets(1, 1));
    rig.put(vec![thing("z", 2)]);
    rig.run();
    rig.plane.fail_push(&id("z"));
    rig.run();
    rig.pass(Duration::from_secs(60));
    rig
}

#[test]
fn r19_asset_that_waits_for_failed_content_is_left_out() {
    let mut rig = failed();
    assert_eq!(rig.state().word(), "rolled back");
    rig.put(assets(2, 2));
    rig.pass(Duration::from_secs(3600));
    assert_eq!((rig.state().word(), rig.head()), ("completed", Some(3)));
    assert_eq!(rig.at(1), ["a", "z"]);
    assert_eq!(rig.plane.content(&id("b")), Some(thing("b", 2).digest()));
    let history = &rig.plane.newest().unwrap().history;
    assert!(
        history
            .iter()
            .any(|entry| entry.what.starts_with("leaves out `a`: it waits for"))
    );
    rig.tell(Command::Retry).unwrap();
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.plane.content(&id("a")), Some(assets(2, 2)[0].digest()));
}

#[test]
fn r19_left_out_asset_that_leaves_the_group_is_not_moved_after_a_restart() {
    let mut rig = failed();
    rig.lag = None;
    rig.put(assets(2, 2));
    rig.run();
    assert_eq!((rig.at(3), rig.at(1)), (vec!["b"], vec!["a", "z"]));
    rig.put(vec![of_group(Some("policy/q"), "a", 3).build().unwrap()]);
    rig.run();
    let before = rig.plane.moves.len();
    rig.crash();
    rig.run();
    let moved = rig.plane.moves[before..].iter();
    let moved: Vec<_> = moved.map(|(id, _)| id.as_str()).collect();
    assert_eq!(moved, [""; 0]);
}

#[test]
fn r19_asset_that_checks_wait_for_moves_along() {
    let assets = |size| vec![thing("a", size), thing("b", size), thing("c", size)];
    let mut rig = Rig::settled(canary(), assets(1));
    rig.lag = None;
    rig.put(assets(2));
    rig.run();
    assert_eq!(rig.at(2), ["a"]);
    rig.plane.delay(&id("a"), &[&id("c"), &id("elsewhere")]);
    rig.run();
    assert_eq!(rig.at(2), ["a", "c"]);
    let waits = rig.view().waits;
    let told = |wait: &Wait| wait.why == "under way: a (waits for `elsewhere`), c";
    assert!(waits.iter().any(told), "{waits:?}");
}

fn drawn(rig: &Rig) -> Option<String> {
    rig.view().rollout.and_then(|rollout| rollout.drawn)
}

#[test]
fn r19_view_names_what_drew_others_along() {
    let assets = |size| {
        vec![
            consumer("a", "z", qps(), size),
            thing("c", size),
            thing("z", size),
        ]
    };
    let mut rig = Rig::settled(canary(), assets(1));
    assert_eq!(drawn(&rig), None);
    rig.lag = None;
    rig.put(assets(2));
    rig.run();
    assert_eq!(rig.at(2), ["a", "z"]);
    let edge = "1 wanted, 2 moved, tied by edges or checks of `a` and `z`";
    assert_eq!(drawn(&rig).as_deref(), Some(edge));
    // Checks find later that a target under way waits for another one.
    rig.plane.delay(&id("a"), &[&id("c")]);
    rig.run();
    assert_eq!(rig.at(2), ["a", "c", "z"]);
    let check = "1 wanted, 2 moved, tied by edges or checks of `a` and `c`";
    assert_eq!(drawn(&rig).as_deref(), Some(check));
    rig.crash();
    rig.run();
    assert_eq!(drawn(&rig).as_deref(), Some(check));
}

#[test]
fn r19_hold_also_stops_assets_that_checks_wait_for() {
    let assets = |size| vec![thing("a", size), thing("b", size), thing("c", size)];
    let mut rig = Rig::settled(canary(), assets(1));
    rig.lag = None;
    rig.put(assets(2));
    rig.run();
    let hold = |hold: Option<&str>| RolloutPolicy {
        hold: hold.map(Into::into),
        ..canary()
    };
    rig.swap(hold(Some("look first")));
    rig.plane.delay(&id("a"), &[&id("c")]);
    rig.run();
    assert_eq!(rig.at(2), ["a"]);
    rig.swap(hold(None));
    assert_eq!(rig.at(2), ["a", "c"]);
}

#[test]
fn r19_asset_left_running_is_shown_as_outside_the_rollout() {
    let mut rig = Rig::settled(RolloutPolicy::default(), vec![thing("a", 1)]);
    rig.lag = None;
    rig.put(vec![thing("a", 2), thing("b", 1)]);
    rig.run();
    rig.tell(Command::RollBack).unwrap();
    rig.run();
    rig.plane.delay(&id("a"), &[&id("b")]);
    rig.run();
    assert_eq!(rig.view().outside, [id("b")]);
    let waits = rig.view().waits;
    let told = "under way: a (waits for `b`, which is gone from intent, and left running)";
    assert!(waits.iter().any(|wait| wait.why == told), "{waits:?}");
}

#[test]
fn r19_asset_that_checks_wait_for_goes_back_along() {
    let assets = |size| vec![thing("a", size), thing("b", size), thing("c", size)];
    let policy = RolloutPolicy {
        max_in_flight: Some(1),
        ..RolloutPolicy::default()
    };
    let mut rig = Rig::settled(policy, assets(1));
    rig.lag = None;
    rig.put(assets(2));
    rig.run();
    rig.settle("a");
    rig.settle("b");
    rig.tell(Command::RollBack).unwrap();
    assert_eq!(rig.at(1), ["c"]);
    rig.plane.delay(&id("c"), &[&id("a")]);
    rig.run();
    assert_eq!(rig.at(1), ["a", "c"]);
}

#[test]
pub(super) fn r19_asset_with_unchanged_capacity_moves_in_its_own_turn() {
    let assets = |size| vec![consumer("a", "z", qps(), size), thing("z", 9)];
    let mut rig = Rig::settled(canary(), assets(1));
    rig.lag = None;
    let z = thing("z", 9)
        .edit()
        .addon(&prodspec_model::addons::Owner { owner: "us".into() })
        .unwrap()
        .build()
        .unwrap();
    rig.put(vec![assets(2)[0].clone(), z]);
    rig.run();
    assert_eq!(rig.at(2), ["a"]);
}

/// Returns the targets that move with the canary when `before` becomes `after`.
fn canary_takes(before: Vec<Asset>, after: Vec<Asset>) -> Vec<String> {
    let mut rig = Rig::settled(canary(), before);
    rig.lag = None;
    rig.put(after);
    rig.run();
    rig.at(2).into_iter().map(str::to_owned).collect()
}

#[test]
pub(super) fn r19_consumer_that_needs_the_room_of_another_takes_it_along() {
    let use_of = |name, size| consumer(name, "z", qps(), size);
    let swap = |z| {
        let before = vec![
            use_of("a", 40),
            use_of("b", 60),
            use_of("c", 5),
            thing("z", z),
        ];
        let after = vec![use_of("a", 60), use_of("b", 40), use_of("c", 5)];
        canary_takes(before, after)
    };
    assert_eq!(swap(105), ["a", "b"], "full");
    assert_eq!(swap(125), ["a"], "there is room for all rising consumers");
    let before = vec![use_of("a", 60), use_of("b", 40), thing("z", 100)];
    let after = vec![use_of("a", 40), use_of("b", 60)];
    assert_eq!(
        canary_takes(before, after),
        ["a"],
        "a consumer whose use falls waits for no other"
    );
}

#[test]
pub(super) fn r19_consumer_that_joins_a_provider_takes_it_along() {
    let of = |provider| consumer("a", provider, qps(), 50);
    let before = vec![of("y"), thing("y", 50), thing("z", 1)];
    let after = vec![of("z"), thing("y", 1), thing("z", 50)];
    assert_eq!(canary_takes(before, after), ["a", "y", "z"]);
    let before = vec![of("y"), thing("b", 1), thing("y", 50), thing("z", 50)];
    let after = vec![of("z"), thing("b", 2)];
    assert_eq!(canary_takes(before, after), ["a"], "there is room");
}

#[test]
pub(super) fn r19_provider_moves_along_with_the_consumer_of_its_version() {
    let version = |size| {
        vec![
            consumer("b", "c", Need::Version, size),
            thing("c", size),
            thing("a", size),
        ]
    };
    let mut rig = Rig::settled(
        RolloutPolicy {
            domains: vec![],
            ..canary()
        },
        version(1),
    );
    rig.lag = None;
    rig.put(vec![version(2)[0].clone(), version(2)[1].clone()]);
    rig.run();
    assert_eq!(rig.at(2), ["b", "c"]);
}

#[test]
pub(super) fn r19_closure_larger_than_a_step_moves_in_several_steps() {
    let config = config().max_moves_per_step(2);
    let names: Vec<String> = (0..5).map(|at| format!("a{at}")).collect();
    let assets = |size| {
        let chain = names
            .windows(2)
            .map(|pair| consumer(&pair[0], &pair[1], qps(), size));
        chain.chain([thing("a4", size)]).collect::<Vec<_>>()
    };
    let mut rig = Rig::with(config, canary(), assets(1));
    rig.pass(Duration::from_secs(3600));
    rig.lag = None;
    rig.put(assets(2));
    rig.run();
    assert_eq!(rig.at(2).len(), 5);
    assert_eq!(rig.counts().in_flight, 5);
    let all = drawn(&rig).unwrap();
    assert!(all.starts_with("1 wanted, 5 moved"), "{all}");
}

#[test]
pub(super) fn r18_stages_follow_each_other_when_they_are_baked_and_healthy() {
    let waves = vec![
        Wave {
            upto: Amount::Count(1),
            bake_secs: 60,
        },
        Wave {
            upto: Amount::Percent(50),
            bake_secs: 120,
        },
    ];
    let policy = RolloutPolicy {
        waves,
        bake_secs: 300,
        canary: Some(Canary {
            count: 1,
            bake_secs: 600,
        }),
        ..RolloutPolicy::default()
    };
    let mut rig = Rig::begun(policy, &["a", "b", "c", "d"]);
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(Duration::from_secs(590));
    assert_eq!(rig.at(2), ["a"]);
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.at(2), ["a", "b"]);
    rig.pass(Duration::from_secs(200));
    assert_eq!(rig.at(2).len(), 4);
    assert_eq!(rig.state(), &State::Running);
    rig.pass(Duration::from_secs(400));
    assert_eq!(rig.state(), &State::Completed);
}

fn urgent() -> RolloutPolicy {
    let word = Emergency {
        who: "me".into(),
        why: "it burns".into(),
    };
    RolloutPolicy {
        emergency: Some(word),
        ..canary()
    }
}

#[test]
pub(super) fn emergency_repins_targets_in_flight_and_moves_the_rest_at_once() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.swap(urgent());
    let urgent = Pin::At(IncarnationNo(2), Cause::Emergency);
    let moves: Vec<_> = rig
        .plane
        .moves
        .iter()
        .filter(|(_, goes)| *goes == urgent)
        .map(|(asset, _)| asset.as_str())
        .collect();
    assert_eq!(moves, ["a", "b"]);
    assert!(
        rig.plane
            .newest()
            .unwrap()
            .history
            .iter()
            .any(|entry| entry.what.contains("it burns"))
    );
    rig.settle("a");
    rig.settle("b");
    assert_eq!(rig.state(), &State::Completed);
}

#[test]
pub(super) fn withdrawn_emergency_has_no_further_effect() {
    let slow = RolloutPolicy {
        max_in_flight: Some(1),
        ..urgent()
    };
    let mut rig = Rig::begun(slow, &["a", "b"]);
    assert_eq!(rig.pin("a"), Pin::At(IncarnationNo(2), Cause::Emergency));
    rig.swap(canary());
    rig.lag = Some(Duration::from_secs(1));
    rig.plane.drift(&id("a"));
    rig.pass(Duration::from_secs(650));
    let last = (id("b"), Pin::At(IncarnationNo(2), Cause::Intent));
    assert!(rig.plane.moves.contains(&last));
}
