//! Two hundred seeds without a violation, in which every counter was above zero and seeds repeat exactly.

use simulation::{Scenario, run, run_all};

#[test]
fn l1_l2_and_the_other_invariants_hold_over_two_hundred_seeds() {
    let sum = run_all(0, 200, Scenario::choose, |seed| seed % 20 == 0);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    assert_eq!(sum.never(), Vec::<&str>::new(), "never seen");
    assert_eq!(sum.over_budget(), Vec::<&str>::new(), "above the budget");
    assert_eq!(sum.not_replayed, Vec::<u64>::new());
    assert!(sum.fewest_assets >= 20);
    for invariant in ["S1", "S2", "S3", "S4", "S5", "S7", "L1", "L2"] {
        let judged = sum.counts[&format!("judged {invariant}")];
        assert!(judged >= sum.seeds, "{invariant}: {judged}");
    }
}

#[test]
fn a_seed_repeats_exactly_and_another_one_differs() {
    let trace = |seed| run(seed, &Scenario::choose(seed)).trace;
    assert_eq!(trace(3), trace(3));
    assert_ne!(trace(3), trace(4));
}

/// Incarnations that are sealed twice under one number, and runs whose starts were not acknowledged.
#[test]
fn r38_runs_after_commits_without_acknowledgement_are_judged_by_what_the_store_has() {
    for seed in [905_410, 906_122, 905_809, 731_904_821] {
        let report = run(seed, &Scenario::choose(seed));
        assert!(report.violation.is_none(), "{seed}: {:?}", report.violation);
    }
}
