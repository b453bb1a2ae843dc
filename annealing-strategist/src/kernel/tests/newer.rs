//! R18: assets that come, or are turned down, while a rollout of pins is live.

use std::time::Duration;

use plugin_sdk::{Judgement, Pin};
use prodspec_model::{
    Asset, AssetRef,
    addons::{DependsOn, Edge, Need, Turndown},
    rollout::RolloutPolicy,
};

use super::{
    pins::canary,
    rig::{P, Rig, id, of_group, thing},
};
use crate::{kernel::Command, record::Rollout};

const HOUR: Duration = Duration::from_secs(3600);

fn turned_down(name: &str) -> Asset {
    let turndown = Turndown {
        reason: "not needed".into(),
        approved_by: "me".into(),
    };
    let asset = of_group(Some(P), name, 1).addon(&turndown).unwrap();
    asset.build().unwrap()
}

/// A consumer of a version of `provider`.
fn consumer(name: &str, provider: &str) -> Asset {
    let edges = vec![Edge {
        provider: AssetRef::to(id(provider)),
        need: Need::Version,
    }];
    let asset = of_group(Some(P), name, 1).addon(&DependsOn { edges });
    asset.unwrap().build().unwrap()
}

/// The canary `a` of rollout 2, whose push has ended. `b` and `c` wait.
fn baking() -> Rig {
    let mut rig = Rig::begun(canary(), &["a", "b", "c"]);
    rig.settle("a");
    rig
}

fn goes_on(rig: &mut Rig) {
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(HOUR);
}

/// All has ended, and the head is at the newest incarnation.
fn is_over(rig: &Rig) {
    assert_eq!(rig.state().word(), "completed");
    assert_eq!(rig.head(), Some(rig.plane.latest.no().0));
    assert!(rig.plane.pins.is_empty() && rig.plane.rows.is_empty());
}

#[test]
fn r18_asset_that_comes_takes_its_turn_in_the_live_rollout() {
    for crashes in [false, true] {
        let mut rig = baking();
        rig.put(vec![thing("d", 9)]);
        rig.run();
        assert_eq!(rig.pin("d"), Pin::Default, "its turn has not come");
        assert_eq!(rig.counts().waiting, 3);
        if crashes {
            rig.crash();
        }
        rig.pass(Duration::from_secs(700));
        assert_eq!((rig.at(2), rig.at(3)), (vec!["a", "b", "c"], vec!["d"]));
        if crashes {
            rig.crash();
        }
        assert_eq!(rig.counts().in_flight, 3);
        goes_on(&mut rig);
        assert_eq!(rig.rollouts(), 2);
        assert_eq!(rig.plane.content(&id("d")), Some(thing("d", 9).digest()));
        is_over(&rig);
    }
}

#[test]
fn r18_rollout_waits_for_an_asset_that_came_and_bakes_it() {
    let policy = canary().bake(Duration::from_secs(600));
    let mut rig = Rig::begun(policy, &["a", "b"]);
    rig.settle("a");
    rig.put(vec![thing("d", 9)]);
    rig.run();
    rig.pass(Duration::from_secs(700));
    rig.settle("b");
    rig.pass(Duration::from_secs(700));
    assert_eq!(rig.state().word(), "running", "`d` is not there yet");
    rig.settle("d");
    rig.pass(Duration::from_secs(500));
    assert_eq!(rig.state().word(), "running", "`d` has not baked");
    rig.pass(Duration::from_secs(200));
    assert_eq!(rig.state().word(), "completed");
    goes_on(&mut rig);
    is_over(&rig);
}

#[test]
fn r18_asset_that_is_turned_down_takes_its_turn_in_the_live_rollout() {
    for name in ["b", "d"] {
        let mut rig = Rig::settled(canary(), ["a", "b", "c", "d"].map(|n| thing(n, 1)).into());
        rig.lag = None;
        rig.put(["a", "b", "c"].map(|n| thing(n, 2)).into());
        rig.run();
        rig.settle("a");
        rig.put(vec![turned_down(name)]);
        rig.run();
        assert_eq!(rig.pin(name), Pin::Default);
        rig.pass(Duration::from_secs(700));
        assert_eq!(rig.at(3), [name]);
        goes_on(&mut rig);
        assert_eq!(rig.rollouts(), 2);
        is_over(&rig);
    }
}

#[test]
fn r18_until_its_turn_an_asset_that_came_gets_the_newest_content() {
    let mut rig = baking();
    rig.put(vec![thing("d", 8)]);
    rig.run();
    rig.put(vec![thing("d", 9)]);
    rig.put(vec![turned_down("b")]);
    rig.put(vec![thing("b", 2)]);
    rig.run();
    rig.pass(Duration::from_secs(700));
    assert_eq!(rig.plane.content(&id("d")), Some(thing("d", 9).digest()));
    assert_eq!(rig.at(2), ["a", "b", "c"], "`b` stays after all");
    rig.edit(vec![], &["d"]);
    goes_on(&mut rig);
    is_over(&rig);
}

#[test]
fn r18_asset_that_came_and_left_is_no_target() {
    let mut rig = baking();
    rig.put(vec![thing("d", 9)]);
    rig.run();
    assert_eq!(rig.counts().waiting, 3);
    rig.edit(vec![], &["d"]);
    rig.run();
    assert_eq!(rig.counts().waiting, 2);
    goes_on(&mut rig);
    assert_eq!(rig.rollouts(), 2);
    is_over(&rig);
}

#[test]
fn r18_asset_that_needs_newer_content_is_left_to_the_next_rollout() {
    let mut rig = baking();
    rig.put(vec![thing("b", 3), consumer("d", "b"), consumer("e", "c")]);
    rig.run();
    let left = "`d` are left to the next rollout: they need its contents, or come too late";
    let history = rig.plane.newest().unwrap().history.clone();
    assert!(history.iter().any(|it| it.what == left), "{history:?}");
    rig.pass(Duration::from_secs(700));
    assert_eq!((rig.at(2), rig.at(3)), (vec!["a", "b", "c"], vec!["e"]));
    goes_on(&mut rig);
    assert_eq!(rig.rollouts(), 3);
    is_over(&rig);
}

#[test]
fn r18_asset_that_comes_after_the_last_gate_has_opened_is_left_to_the_next_rollout() {
    let mut rig = Rig::begun(RolloutPolicy::default(), &["a", "b"]);
    rig.put(vec![thing("d", 9)]);
    rig.run();
    assert_eq!(rig.at(3), ["d"], "`a` and `b` are under way");
    rig.put(vec![thing("e", 9)]);
    rig.settle("a");
    rig.settle("b");
    rig.pass(Duration::from_secs(700));
    rig.put(vec![thing("f", 9)]);
    rig.run();
    assert_eq!(rig.at(4), ["e"]);
    assert_eq!(rig.pin("f"), Pin::Default);
    rig.settle("d");
    rig.settle("e");
    assert_eq!((rig.rollouts(), rig.at(5)), (3, vec!["f"]));
    goes_on(&mut rig);
    is_over(&rig);
}

#[test]
fn r22_asset_that_came_goes_back_with_the_others() {
    for crashes in [false, true] {
        let mut rig = baking();
        rig.put(vec![thing("d", 9), turned_down("c")]);
        rig.pass(Duration::from_secs(700));
        assert_eq!((rig.at(2), rig.at(3)), (vec!["a", "b"], vec!["c", "d"]));
        rig.put(vec![thing("d", 10)]);
        rig.run();
        if crashes {
            rig.crash();
        }
        rig.health = Ok(Judgement::Unhealthy);
        rig.lag = Some(Duration::from_secs(1));
        rig.pass(HOUR);
        assert_eq!(rig.state().word(), "rolled back");
        assert_eq!(rig.plane.content(&id("c")), Some(thing("c", 1).digest()));
        assert_eq!(rig.plane.content(&id("a")), Some(thing("a", 1).digest()));
        rig.health = Ok(Judgement::Healthy);
        // First the newest rollout, that of the next content of `d`, then the one that failed before.
        for _ in 0..2 {
            rig.tell(Command::Retry).unwrap();
            rig.pass(HOUR);
        }
        assert_eq!(rig.plane.content(&id("d")), Some(thing("d", 10).digest()));
        is_over(&rig);
    }
}

#[test]
fn r17_asset_that_came_does_not_hide_that_a_rollout_is_reverted_or_mended() {
    for size in [1, 3] {
        let mut rig = baking();
        rig.put(vec![thing("d", 9), turned_down("c")]);
        rig.pass(Duration::from_secs(700));
        if size == 3 {
            rig.tell(Command::Abort).unwrap();
        }
        let mut all: Vec<Asset> = ["a", "b"].map(|name| thing(name, size)).into();
        all.extend((size == 1).then(|| thing("d", 10)));
        rig.put(all);
        rig.run();
        assert_eq!(rig.rollouts(), 3, "{:?}", rig.state());
        let turned = |it: &Rollout| it.history.iter().any(|it| it.what.contains("reverts"));
        assert_eq!(rig.plane.rollouts.values().any(turned), size == 1);
        goes_on(&mut rig);
        goes_on(&mut rig);
        is_over(&rig);
    }
}

#[test]
fn r18_asset_that_came_is_late_only_in_the_rollout_that_it_joined() {
    let mut rig = baking();
    rig.put(vec![thing("d", 9)]);
    rig.pass(Duration::from_secs(700));
    rig.put(["a", "b", "c"].map(|name| thing(name, 3)).into());
    rig.run();
    let late = |rig: &Rig| rig.view().targets.iter().filter(|it| it.late).count();
    assert_eq!(late(&rig), 1);
    rig.crash();
    assert_eq!(late(&rig), 1);
    rig.tell(Command::HandOver).unwrap();
    assert_eq!(late(&rig), 0);
    rig.crash();
    assert_eq!(late(&rig), 0);
}
