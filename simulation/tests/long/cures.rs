//! Drift repairs and rollbacks end, whatever is edited meanwhile: judged over many seeds. Without the guards the judge
//! finds violations.

use std::time::Duration;

use annealing_enforcer::kernel::Bug as Enforcement;
use annealing_strategist::kernel::Bug;
use simulation::{
    Scenario,
    faults::{Fault, Rates},
    run, run_all,
};

/// Maximum number of seeds until a planted bug must have been found.
const PATIENCE: u64 = 40;

/// A scenario with many manual changes of production, and many edits of assets whose pushes are delayed.
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
        (Fault::EditMovesEdge, 200),
        (Fault::EditRemoves, 100),
        (Fault::EditAdds, 200),
        (Fault::EditTurnsDown, 100),
    ]);
    scenario.store_faults = [0; 7];
    scenario.enforcers = 1;
    scenario.edit_every = Duration::from_secs(20);
    scenario.ordered = 1000;
    scenario
}

/// A scenario with many rollbacks of assets whose neighbours are edited meanwhile; one of them begins at the end.
fn turning_back(seed: u64) -> Scenario {
    let mut scenario = by_hand(seed);
    scenario.rates = Rates::only(&[
        (Fault::EditRevises, 900),
        (Fault::EditBad, 300),
        (Fault::EditMends, 200),
    ]);
    // Rarely enough for a rollout to end before the next edit.
    scenario.edit_every = Duration::from_secs(60);
    scenario.stubborn = 1000;
    scenario
}

/// A scenario with manual changes and rollbacks, in which policy groups wait for each other.
fn mutual(seed: u64) -> Scenario {
    let mut scenario = by_hand(seed);
    scenario.mutual = true;
    scenario
}

/// The first seed with a violation when `plant` removes a guard, and the violated invariant.
fn first_violation(plant: impl Fn(&mut Scenario)) -> Option<(u64, &'static str)> {
    (0..PATIENCE).find_map(|seed| {
        let mut scenario = by_hand(seed);
        plant(&mut scenario);
        let found = run(seed, &scenario).violation?;
        Some((seed, found.invariant))
    })
}

#[test]
fn r6_manual_changes_are_repaired_during_edits() {
    let sum = run_all(2000, 20, by_hand, |_| false);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    assert!(sum.counts["judged cured"] > 100);
    assert!(sum.counts["judged cured under an edit"] > 10);
    assert!(sum.counts["judged back"] > 10);
    assert_eq!(sum.counts["people ended a rollback"], 0);
}

#[test]
fn r6_r22_hold_with_groups_that_wait_for_each_other() {
    let sum = run_all(2100, 60, mutual, |_| false);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    assert!(sum.counts["judged cured"] > 100);
    assert!(sum.counts["judged cured under an edit"] > 10);
    assert!(sum.counts["judged back"] > 10);
    // Only operators end some of these rollouts, and none of their rollbacks.
    assert!(sum.counts["people ended a rollout"] > 0);
    assert_eq!(sum.counts["people ended a rollback"], 0);
    let seen = first_violation(|scenario| {
        scenario.mutual = true;
        scenario.patient_order = true;
    });
    assert!(matches!(seen, Some((_, "R6"))), "{seen:?}");
    let seen = first_violation(|scenario| {
        scenario.mutual = true;
        scenario.stubborn = 1000;
        scenario.planted_in_rollouts = Some(Bug::NeverBack);
    });
    assert!(matches!(seen, Some((_, "R22"))), "{seen:?}");
}

#[test]
fn r16_a_drift_repair_judged_at_the_consumers_incarnation_is_caught() {
    // On some seeds the judge first finds a rollback that does not end, for the same reason.
    let seen = (0..PATIENCE).find(|seed| {
        let mut scenario = by_hand(*seed);
        scenario.planted = Some(Enforcement::JudgeAtConsumer);
        let found = run(*seed, &scenario).violation;
        found.is_some_and(|it| it.invariant == "R6")
    });
    assert!(seen.is_some());
}

#[test]
fn r22_a_rollback_judged_at_the_consumers_incarnation_is_caught() {
    let calm = run_all(2000, 20, turning_back, |_| false);
    assert!(calm.violations.is_empty(), "{:?}", calm.violations);
    assert_eq!(calm.counts["people ended a rollback"], 0);
    // On some seeds the judge first finds a rollout that does not end, for the same reason.
    let seen = (0..PATIENCE * 4).find(|seed| {
        let mut scenario = turning_back(*seed);
        scenario.planted = Some(Enforcement::JudgeAtConsumer);
        let found = run(*seed, &scenario).violation;
        found.is_some_and(|it| it.invariant == "R22" && it.what.contains("has not ended"))
    });
    assert!(seen.is_some());
}

#[test]
fn r6_a_missing_drift_repair_during_an_edit_is_caught() {
    let seen = first_violation(|scenario| scenario.planted = Some(Enforcement::NoCureUnderEdit));
    assert!(matches!(seen, Some((_, "R6"))), "{seen:?}");
}

#[test]
fn r16_a_drift_repair_that_waits_for_an_edit_is_caught() {
    let seen = first_violation(|scenario| scenario.patient_order = true);
    assert!(matches!(seen, Some((_, "R6"))), "{seen:?}");
}

#[test]
fn r22_a_rollback_that_completes_too_soon_is_caught() {
    let seen = first_violation(|scenario| scenario.planted_in_rollouts = Some(Bug::BackTooSoon));
    assert!(matches!(seen, Some((_, "R22"))), "{seen:?}");
}

#[test]
fn r22_a_rollback_that_never_ends_is_caught() {
    let seen = first_violation(|scenario| {
        scenario.stubborn = 1000;
        scenario.planted_in_rollouts = Some(Bug::NeverBack);
    });
    assert!(matches!(seen, Some((_, "R22"))), "{seen:?}");
}
