//! What puts production right ends, whatever is edited meanwhile: judged over many seeds, and seen to be missed without
//! the guards.

use std::time::Duration;

use annealing_enforcer::kernel::Bug as Enforcement;
use annealing_strategist::kernel::Bug;
use simulation::{
    Scenario,
    faults::{Fault, Rates},
    run, run_all,
};

/// Seeds until a planted bug must have been seen.
const PATIENCE: u64 = 40;

/// People change production by hand and edit what is held up, on end.
fn by_hand(seed: u64) -> Scenario {
    let mut scenario = Scenario::choose(seed);
    scenario.rates = Rates::only(&[
        (Fault::DriftContent, 900),
        (Fault::DriftCapacity, 300),
        (Fault::DriftDeletion, 200),
        (Fault::CheckSaysNo, 900),
        (Fault::EditRevises, 900),
        (Fault::EditResizes, 100),
        (Fault::EditBad, 300),
        (Fault::EditMends, 200),
    ]);
    scenario.store_faults = [0; 6];
    scenario.enforcers = 1;
    scenario.edit_every = Duration::from_secs(20);
    scenario.ordered = 1000;
    scenario
}

/// The first seed on which anything is seen when `plant` leaves a guard out, and what.
fn seen(plant: impl Fn(&mut Scenario)) -> Option<(u64, &'static str)> {
    (0..PATIENCE).find_map(|seed| {
        let mut scenario = by_hand(seed);
        plant(&mut scenario);
        let found = run(seed, &scenario).violation?;
        Some((seed, found.invariant))
    })
}

#[test]
fn r6_what_is_changed_by_hand_is_put_right_whatever_is_edited() {
    let sum = run_all(2000, 20, by_hand, |_| false);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    assert!(sum.counts["judged cured"] > 100);
    assert!(sum.counts["judged cured under an edit"] > 10);
    assert!(sum.counts["judged back"] > 10);
}

#[test]
fn r6_drift_that_is_left_alone_under_an_edit_is_caught() {
    let seen = seen(|scenario| scenario.planted = Some(Enforcement::NoCureUnderEdit));
    assert!(matches!(seen, Some((_, "R6"))), "{seen:?}");
}

#[test]
fn r16_a_cure_that_waits_for_an_edit_is_caught() {
    let seen = seen(|scenario| scenario.patient_order = true);
    assert!(matches!(seen, Some((_, "R6"))), "{seen:?}");
}

#[test]
fn r22_a_rollback_that_is_over_too_soon_is_caught() {
    let seen = seen(|scenario| scenario.planted_in_rollouts = Some(Bug::BackTooSoon));
    assert!(matches!(seen, Some((_, "R22"))), "{seen:?}");
}

#[test]
fn r22_a_rollback_that_never_ends_is_caught() {
    let seen = seen(|scenario| {
        scenario.stubborn = 1000;
        scenario.planted_in_rollouts = Some(Bug::NeverBack);
    });
    assert!(matches!(seen, Some((_, "R22"))), "{seen:?}");
}
