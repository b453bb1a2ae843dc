//! Workflows, judged over many seeds by the provider's ledger and the stored rows. For each guard of their kernel, a test
//! removes it and the judge must find the violation.

use annealing_workflow::kernel::Bug;
use simulation::{
    Scenario,
    faults::{Fault, choose_storm},
    run, run_all,
};

/// Maximum number of seeds until a planted bug must have been found.
const PATIENCE: u64 = 150;

/// Many executions, with frequent faults of workflows beside the usual faults of the seed.
fn stormy(seed: u64) -> Scenario {
    let mut scenario = Scenario::choose(seed);
    choose_storm(&mut scenario.rates);
    scenario.executions = 12;
    scenario.schedules = false;
    scenario.watches = false;
    scenario
}

/// As [`stormy`], with watches in intent.
fn with_watches(seed: u64) -> Scenario {
    Scenario {
        watches: true,
        ..stormy(seed)
    }
}

/// As [`stormy`], with schedules in intent.
fn with_slots(seed: u64) -> Scenario {
    Scenario {
        schedules: true,
        ..stormy(seed)
    }
}

/// Asserts that there is no violation, and that the judge has checked each of `rules` at least once per seed.
fn assert_holds_in(scenario: fn(u64) -> Scenario, rules: &[&str], first: u64) {
    let sum = run_all(first, 10, scenario, |_| false);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    for rule in rules {
        let judged = sum.counts[&format!("judged {rule}")];
        assert!(judged >= sum.seeds, "{rule} was judged {judged} times");
    }
}

/// Asserts that a violation of the rule is the first one of a seed when a guard is removed.
fn assert_caught(bug: Bug, rule: &str) {
    assert_caught_in(stormy, bug, rule);
}

fn assert_caught_in(scenario: fn(u64) -> Scenario, bug: Bug, rule: &str) {
    let mut others = Vec::new();
    let seen = (0..PATIENCE).any(|seed| {
        let mut scenario = scenario(seed);
        scenario.planted_in_workflows = Some(bug);
        match run(seed, &scenario).violation {
            Some(found) if found.invariant == rule => true,
            Some(found) => {
                others.push((seed, found));
                false
            }
            None => false,
        }
    });
    assert!(
        seen,
        "{bug:?}, {PATIENCE} seeds, {rule} is not seen, but {others:?}"
    );
}

#[test]
fn r23_to_r37_and_s8_hold_over_many_seeds() {
    let rules = [
        "R23", "R24", "R25", "R26", "R28", "R29", "R30", "R32", "R31", "R34", "R36", "R37", "S8",
    ];
    for first in [3000, 3010, 3020] {
        assert_holds_in(with_slots, &rules, first);
    }
}

#[test]
fn r23_each_commit_contains_what_follows_from_it() {
    assert_caught(Bug::CollectKeys, "R23");
    assert_caught(Bug::TwoCommits, "R23");
}

#[test]
fn r24_call_without_a_durable_attempt_or_a_lease_is_seen() {
    assert_caught(Bug::CallBeforeDurable, "R24");
    assert_caught(Bug::IgnoreLease, "R24");
    assert_caught(Bug::TrustLateAnswer, "R24");
}

#[test]
fn r25_second_effect_of_a_step_and_fence_that_does_not_rise_are_seen() {
    assert_caught(Bug::KeyWithAttempt, "R25");
    assert_caught(Bug::SkipFence, "R25");
    assert_caught(Bug::RepeatNever, "R25");
}

#[test]
fn r26_call_that_kills_its_process_for_ever_is_seen() {
    assert_caught(Bug::DeathsUncounted, "R26");
    assert_caught(Bug::CountLifetime, "R26");
}

#[test]
fn r29_end_of_an_execution_with_a_call_in_flight_is_seen() {
    assert_caught(Bug::EndInFlight, "R29");
}

#[test]
fn r30_restart_that_overlaps_or_keeps_outputs_is_seen() {
    assert_caught(Bug::RestartKeepsOutput, "R30");
    assert_caught(Bug::RestartOverlaps, "R30");
    assert_caught(Bug::RestartForgets, "R30");
}

#[test]
fn r31_machines_that_the_next_owner_does_not_know_are_seen() {
    assert_caught(Bug::HalfTrack, "R31");
}

#[test]
fn r32_claims_that_do_not_outlive_their_owner_are_seen() {
    assert_caught(Bug::CountInLayer, "R32");
}

#[test]
fn r34_edit_that_is_made_twice_by_half_or_over_another_one_is_seen() {
    assert_caught(Bug::EditTwice, "R34");
    assert_caught(Bug::EditHalf, "R34");
    assert_caught(Bug::EditForces, "R34");
}

#[test]
fn r36_step_that_is_done_before_production_has_its_edit_is_seen() {
    assert_caught(Bug::SettledBeforeRead, "R36");
    assert_caught(Bug::SettledNewestOnly, "R36");
}

#[test]
fn r37_slot_that_starts_twice_or_beside_the_run_it_replaces_is_seen() {
    assert_caught_in(with_slots, Bug::SlotFromWallOnly, "R37");
    assert_caught_in(with_slots, Bug::ReplaceOverlaps, "R37");
}

#[test]
fn r37_schedule_that_stops_after_a_closed_slot_is_seen() {
    let sum = run_all(3110, 30, with_slots, |_| false);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    assert!(sum.counts["judged slots"] > 0);
    assert_caught_in(with_slots, Bug::DeadlineStopsSchedule, "slots");
    assert_caught_in(with_slots, Bug::ForbidStopsSchedule, "slots");
}

#[test]
fn r38_change_that_is_lost_or_repeated_is_seen() {
    assert_holds_in(with_watches, &["R38"], 3130);
    assert_caught_in(with_watches, Bug::WatchDropsForbidden, "R38");
    assert_caught_in(with_watches, Bug::WatchFromHistory, "R38");
}

#[test]
fn r39_watch_that_starts_itself_is_seen() {
    let sum = run_all(3140, 20, with_watches, |_| false);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    assert!(sum.counts["judged R39"] > 0);
    assert_caught_in(with_watches, Bug::SelfTrigger, "R39");
}

#[test]
fn s8_execution_that_waits_for_ever_is_seen() {
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

#[test]
fn r42_new_definition_beside_calls_of_the_old_one_is_seen() {
    assert_caught(Bug::RedefineInFlight, "R32");
}
