//! Workflows, judged over many seeds by the provider's ledger and the stored rows. For each guard of their kernel, a test
//! removes it and the judge must find the violation.

use annealing_workflow::kernel::Bug;
use simulation::{Scenario, faults::Fault, run, run_all, workflows::choose_storm};

/// Maximum number of seeds until a planted bug must have been found.
const PATIENCE: u64 = 150;

/// Many executions, with frequent faults of workflows beside the usual faults of the seed.
fn stormy(seed: u64) -> Scenario {
    let mut scenario = Scenario::choose(seed);
    choose_storm(&mut scenario.rates);
    scenario.executions = 12;
    scenario
}

/// Asserts that there is no violation, and that the judge has checked each of `rules` at least once per seed.
fn assert_holds(rules: &[&str], first: u64) {
    let sum = run_all(first, 10, stormy, |_| false);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    for rule in rules {
        let judged = sum.counts[&format!("judged {rule}")];
        assert!(judged >= sum.seeds, "{rule} was judged {judged} times");
    }
}

/// Asserts that the rule is violated first when a guard is removed.
fn assert_caught(bug: Bug, rule: &str) {
    let seen = (0..PATIENCE).find_map(|seed| {
        let mut scenario = stormy(seed);
        scenario.planted_in_workflows = Some(bug);
        run(seed, &scenario).violation
    });
    let seen = seen.map(|found| (found.invariant, found.what));
    let named = seen.as_ref().map(|(invariant, _)| *invariant);
    assert_eq!(named, Some(rule), "{bug:?}, {PATIENCE} seeds: {seen:?}");
}

#[test]
fn r23_each_commit_contains_what_follows_from_it() {
    assert_holds(&["R23"], 3000);
}

#[test]
fn r24_call_without_a_durable_attempt_or_a_lease_is_seen() {
    assert_holds(&["R24"], 3010);
    assert_caught(Bug::CallBeforeDurable, "R24");
    assert_caught(Bug::IgnoreLease, "R24");
    assert_caught(Bug::TrustLateAnswer, "R24");
}

#[test]
fn r25_second_effect_of_a_step_and_fence_that_does_not_rise_are_seen() {
    assert_holds(&["R25"], 3020);
    assert_caught(Bug::KeyWithAttempt, "R25");
    assert_caught(Bug::SkipFence, "R25");
    assert_caught(Bug::RepeatNever, "R25");
}

#[test]
fn r26_call_that_kills_its_process_for_ever_is_seen() {
    assert_holds(&["R26"], 3030);
    assert_caught(Bug::DeathsUncounted, "R26");
}

#[test]
fn r29_end_of_an_execution_with_a_call_in_flight_is_seen() {
    assert_holds(&["R28", "R29"], 3040);
    assert_caught(Bug::EndInFlight, "R29");
}

#[test]
fn r30_restart_that_overlaps_or_keeps_outputs_is_seen() {
    assert_holds(&["R30", "R32"], 3050);
    assert_caught(Bug::RestartKeepsOutput, "R30");
    assert_caught(Bug::RestartOverlaps, "R30");
}

#[test]
fn s8_execution_that_waits_for_ever_is_seen() {
    assert_holds(&["S8"], 3060);
    assert_caught(Bug::ForgetTimer, "S8");
}

#[test]
fn person_who_never_answers_is_a_cause_outside() {
    let mut rates = Scenario::choose(1).rates;
    rates.set(Fault::PersonAnswersLate, 1000);
    let late = |seed| Scenario {
        rates: rates.clone(),
        ..stormy(seed)
    };
    let sum = run_all(3070, 5, late, |_| false);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
}
