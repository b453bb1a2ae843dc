//! Each invariant, judged over many seeds; and of those that are guarded, the guard left out: production's own eyes must
//! notice.

use std::time::Duration;

use annealing_enforcer::kernel::Bug;
use simulation::{
    Scenario, Sum,
    faults::{Fault, Rates},
    run, run_all,
};

/// Seeds until a planted bug must have been seen.
const PATIENCE: u64 = 150;

fn sum(seeds: std::ops::Range<u64>) -> Sum {
    run_all(
        seeds.start,
        seeds.end - seeds.start,
        Scenario::choose,
        |_| false,
    )
}

/// No violation of anything, and the judge has looked at `invariant` all the while.
fn holds(invariant: &str, seeds: std::ops::Range<u64>) {
    let sum = sum(seeds);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    assert!(sum.counts[&format!("judged {invariant}")] >= sum.seeds);
}

/// What is seen first when `plant` leaves a guard out.
fn seen(plant: impl Fn(&mut Scenario)) -> Option<&'static str> {
    (0..PATIENCE).find_map(|seed| {
        let mut scenario = Scenario::choose(seed);
        plant(&mut scenario);
        run(seed, &scenario).violation.map(|found| found.invariant)
    })
}

/// The first thing that is seen without a guard is that `invariant` does not hold.
fn caught(bug: Bug, invariant: &str) {
    let seen = seen(|scenario| scenario.planted = Some(bug));
    assert_eq!(seen, Some(invariant), "{bug:?}, {PATIENCE} seeds");
}

/// Capacity moves all the time, and checks and pushes take so long that it moves on meanwhile.
fn stormy(scenario: &mut Scenario) {
    scenario.rates = Rates::only(&[
        (Fault::EditResizes, 900),
        (Fault::EditMovesEdge, 700),
        (Fault::Slow, 400),
        (Fault::LateMessage, 400),
    ]);
    scenario.edit_every = Duration::from_secs(4);
    scenario.store_faults = [0; 6];
}

fn stormed(seed: u64) -> Scenario {
    let mut scenario = Scenario::choose(seed);
    stormy(&mut scenario);
    scenario
}

#[test]
fn s1_no_push_against_a_no() {
    holds("S1", 1000..1010);
    caught(Bug::PushOnTimedOutCheck, "S1");
}

#[test]
fn s2_only_sealed_incarnations_are_seen() {
    holds("S2", 1010..1020);
    assert_eq!(seen(|scenario| scenario.seal_early = true), Some("S2"));
}

/// Assets leave intent and come back, and no edit asks for a turndown.
fn leaving(scenario: &mut Scenario) {
    scenario.rates = Rates::only(&[
        (Fault::EditRemoves, 900),
        (Fault::EditAdds, 400),
        (Fault::EditRevises, 600),
        (Fault::DriftContent, 300),
        (Fault::Crash, 100),
    ]);
    scenario.store_faults = [0; 6];
    scenario.edit_every = Duration::from_secs(10);
}

fn left(seed: u64) -> Scenario {
    let mut scenario = Scenario::choose(seed);
    leaving(&mut scenario);
    scenario
}

#[test]
fn s3_absence_removes_nothing() {
    holds("S3", 1020..1030);
    let absent = run_all(1020, 10, left, |_| false);
    assert!(absent.violations.is_empty(), "{:?}", absent.violations);
    assert!(absent.counts["branch Orphaned"] >= 10 * absent.seeds);
    assert_eq!(absent.counts["removals"], 0);
    // What left intent is left alone: nothing else is seen before that it is not.
    let pushed = seen(|scenario| {
        leaving(scenario);
        scenario.planted = Some(Bug::RemoveOrphan);
    });
    assert_eq!(pushed, Some("S3"));
}

#[test]
fn s4_demand_stays_below_capacity() {
    holds("S4", 1030..1040);
    let calm = run_all(1030, 10, stormed, |_| false);
    assert!(calm.violations.is_empty(), "{:?}", calm.violations);
    let seen = seen(|scenario| {
        stormy(scenario);
        scenario.planted = Some(Bug::ReuseOldDiff);
    });
    assert_eq!(seen, Some("S4"));
}

#[test]
fn s5_an_old_token_is_refused() {
    holds("S5", 1040..1050);
    caught(Bug::DropFence, "S5");
}

#[test]
fn s7_acked_is_readable_after_a_crash() {
    holds("S7", 280..290);
    let cuts = |scenario: &mut Scenario| {
        scenario.rates = Rates::only(&[(Fault::EditRevises, 900), (Fault::PowerCut, 900)]);
        scenario.store_faults = [0; 6];
        scenario.edit_every = Duration::from_secs(2);
    };
    let cut = |seed| {
        let mut scenario = Scenario::choose(seed);
        cuts(&mut scenario);
        scenario
    };
    let calm = run_all(1050, 10, cut, |_| false);
    assert!(calm.violations.is_empty(), "{:?}", calm.violations);
    let seen = seen(|scenario| {
        cuts(scenario);
        scenario.ack_first = true;
    });
    assert_eq!(seen, Some("S7"));
}

#[test]
fn r13_a_push_before_its_record_is_caught() {
    caught(Bug::PushBeforeDurable, "R13");
}

#[test]
fn l1_production_comes_to_match_intent() {
    holds("L1", 1060..1070);
}

#[test]
fn l2_no_asset_starves() {
    holds("L2", 1070..1080);
}

#[test]
fn r9_a_skipped_claim_is_caught() {
    caught(Bug::SkipClaim, "R9");
}

#[test]
fn r13_an_open_push_lost_over_a_restart_is_caught() {
    let seen = seen(|scenario| {
        scenario.rates = Rates::only(&[(Fault::EditRevises, 900), (Fault::Crash, 400)]);
        scenario.store_faults = [0; 6];
        // Longer than it takes to take over.
        scenario.travel = Some(Duration::from_secs(19));
        scenario.planted = Some(Bug::LoseOpenPush);
    });
    assert_eq!(seen, Some("S5"));
}

#[test]
fn r16_a_forgotten_edge_is_caught() {
    caught(Bug::ForgetVanishedEdge, "S4");
}

#[test]
fn r8_an_ignored_pin_is_caught() {
    // An asset that left intent is pushed then, too: whichever comes first on a seed.
    let seen = (0..PATIENCE).find_map(|seed| {
        let mut scenario = Scenario::choose(seed);
        scenario.planted = Some(Bug::IgnoreMovedPin);
        let found = run(seed, &scenario).violation?;
        (found.invariant == "R8").then_some(found.invariant)
    });
    assert_eq!(seen, Some("R8"));
}

#[test]
fn r8_a_skipped_hold_is_caught() {
    let seen = seen(|scenario| {
        stormy(scenario);
        scenario.planted = Some(Bug::SkipHold);
    });
    assert_eq!(seen, Some("S4"));
}

/// Processes are told to stop again and again, in the middle of pushes that take their time.
fn stopping(scenario: &mut Scenario) {
    scenario.rates = Rates::only(&[
        (Fault::Stop, 500),
        (Fault::EditRevises, 900),
        (Fault::EditResizes, 500),
        (Fault::Slow, 300),
        (Fault::LateMessage, 300),
        (Fault::LostAnswer, 100),
    ]);
    scenario.store_faults = [0; 6];
    scenario.edit_every = Duration::from_secs(4);
}

#[test]
fn r13_what_ends_while_shutting_down_is_recorded_and_nothing_new_starts() {
    let stopped = |seed| {
        let mut scenario = Scenario::choose(seed);
        stopping(&mut scenario);
        scenario
    };
    let calm = run_all(1290, 10, stopped, |_| false);
    assert!(calm.violations.is_empty(), "{:?}", calm.violations);
    assert!(calm.counts["judged drain"] >= 100 * calm.seeds);
    for bug in [Bug::NoDrain, Bug::StartWhileDraining] {
        let seen = seen(|scenario| {
            stopping(scenario);
            scenario.planted = Some(bug);
        });
        assert_eq!(seen, Some("drain"), "{bug:?}");
    }
}
