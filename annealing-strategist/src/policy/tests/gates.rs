//! R21: the verdicts that open a gate, and the last bake.

use std::{sync::Arc, time::Duration};

use plugin_sdk::{Finding, Health, Judgement, Progress, SelectRequest, Selection, Until};

use super::{at, four, minutes, selected, set, until, updated};
use crate::policy::{Gate, gate, standard};

#[test]
fn r21_a_gate_takes_no_verdict_older_than_the_bake() {
    let mut request = four();
    for place in 0..4 {
        set(&mut request, place, updated(place as u64));
        request.targets.set_order(place, place as u64 + 1);
    }
    let gate = |request: &SelectRequest| gate(request, 0..4, minutes(10));
    request.now = at(20);
    let since = at(13);
    for health in [None, Some(Health::healthy(at(12)))] {
        request.health = health;
        let Gate::Shut(wait) = gate(&request) else {
            panic!("open")
        };
        assert_eq!(wait.until, Until::Healthy { since });
    }
    request.health = Some(Health::healthy(since));
    assert_eq!(gate(&request), Gate::Open);
    request.now = at(12);
    assert!(matches!(gate(&request), Gate::Shut(wait) if wait.until == Until::Time(since)));
    request.promoted = Some(3);
    assert!(
        matches!(gate(&request), Gate::Shut(_)),
        "the last one settled after that"
    );
    request.promoted = Some(4);
    assert_eq!(gate(&request), Gate::Open);
    set(&mut request, 0, Progress::Drifted { since: at(4) });
    assert!(matches!(gate(&request), Gate::Shut(wait) if wait.until == Until::Settled));
}

#[test]
fn r21_unknown_and_unhealthy_hold_the_gate() {
    let mut request = four();
    set(&mut request, 0, updated(0));
    for judgement in [Judgement::Unknown, Judgement::Unhealthy] {
        let finding = Finding::new(judgement, "it says so");
        request.health = Some(Health::found(at(9), finding));
        assert!(matches!(gate(&request, [0], Duration::ZERO), Gate::Shut(_)));
    }
}

#[test]
fn rollout_end_waits_for_the_last_bake() {
    let mut request = four();
    Arc::make_mut(&mut request.policy).bake_secs = 600;
    for place in 0..4 {
        set(&mut request, place, updated(0));
    }
    let bakes = selected(&standard(), &request);
    assert_eq!(
        (until(&bakes), bakes.stage.as_deref()),
        (vec![Until::Time(at(10))], Some("bake"))
    );
    request.now = at(10);
    request.health = Some(Health::healthy(at(10)));
    assert_eq!(selected(&standard(), &request), Selection::default());
}

#[test]
fn r18_late_target_starts_beside_the_rest_and_only_the_end_waits_for_it() {
    let mut request = four();
    let policy = Arc::make_mut(&mut request.policy);
    *policy = policy.clone().canary(1, minutes(10)).bake(minutes(5));
    request.targets.edit()[3].late = true;
    assert_eq!(selected(&standard(), &request).now, [0], "no canary");
    set(&mut request, 0, updated(0));
    assert_eq!(
        selected(&standard(), &request).now,
        [0; 0],
        "not before the canary has baked"
    );
    request.now = at(10);
    request.health = Some(Health::healthy(at(10)));
    assert_eq!(selected(&standard(), &request).now, [1, 2, 3]);
    for place in [1, 2] {
        set(&mut request, place, updated(10));
    }
    set(&mut request, 3, Progress::InFlight { since: at(10) });
    let end = selected(&standard(), &request);
    assert_eq!(until(&end), [Until::Settled]);
}

#[test]
fn r18_late_targets_are_the_first_if_there_is_no_other() {
    let mut request = four();
    let policy = Arc::make_mut(&mut request.policy);
    *policy = policy.clone().canary(1, minutes(10));
    for target in request.targets.edit() {
        target.late = true;
    }
    assert_eq!(selected(&standard(), &request).now, [0]);
}
