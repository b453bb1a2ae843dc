//! R19: a selection is closed over edges in both directions.

use std::time::Duration;

use prodspec_model::{Asset, addons::Need, rollout::RolloutPolicy};

use super::{
    pins::canary,
    rig::{Rig, id, thing},
    select::{consumer, qps},
};

/// The canary takes the first asset by id: here the provider.
#[test]
fn r19_provider_that_changes_takes_its_consumer_along() {
    let assets = |size| {
        vec![
            thing("a", size),
            thing("b", size),
            consumer("z", "a", qps(), size),
        ]
    };
    let mut rig = Rig::settled(canary(), assets(1));
    rig.lag = None;
    rig.put(assets(2));
    rig.run();
    assert_eq!(rig.at(2), ["a", "z"]);
}

/// `a` needs a version of `z`; `b` has no edge.
fn assets(size: u64) -> Vec<Asset> {
    vec![
        consumer("a", "z", Need::Version, size),
        thing("b", size),
        thing("z", size),
    ]
}

/// Rolls out content 2 of `name`, which fails, and then content 2 of all.
fn after_failure_of(name: &str) -> Rig {
    let mut rig = Rig::settled(RolloutPolicy::default(), assets(1));
    let fails = assets(2).into_iter().filter(|it| it.id_str() == name);
    rig.put(fails.collect());
    rig.run();
    rig.plane.fail_push(&id(name));
    rig.run();
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.state().word(), "rolled back");
    rig.put(assets(2));
    rig.pass(Duration::from_secs(3600));
    assert_eq!(rig.state().word(), "completed");
    rig
}

#[test]
fn r19_consumer_of_a_version_that_failed_is_left_out() {
    let rig = after_failure_of("z");
    assert_eq!(rig.at(1), ["a", "z"], "`a` would wait for `z`");
}

#[test]
fn r19_provider_of_a_version_does_not_wait_for_a_consumer_that_failed() {
    let rig = after_failure_of("a");
    assert_eq!(rig.at(1), ["a"]);
}
