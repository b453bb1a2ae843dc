//! Each invariant, judged over many seeds. For each guard, a test removes it and the judge must find the violation.

use std::time::Duration;

use annealing_enforcer::kernel::Bug;
use simulation::{
    Scenario,
    faults::{Fault, Rates},
    run, run_all,
};

/// Maximum number of seeds until a planted bug must have been found.
const PATIENCE: u64 = 150;

/// The first violated invariant when `plant` removes a guard.
fn first_violation(plant: impl Fn(&mut Scenario)) -> Option<&'static str> {
    (0..PATIENCE).find_map(|seed| {
        let mut scenario = Scenario::choose(seed);
        plant(&mut scenario);
        run(seed, &scenario).violation.map(|found| found.invariant)
    })
}

/// Asserts that `invariant` is violated first when a guard is removed.
fn assert_caught(bug: Bug, invariant: &str) {
    let seen = first_violation(|scenario| scenario.planted = Some(bug));
    assert_eq!(seen, Some(invariant), "{bug:?}, {PATIENCE} seeds");
}

/// Sets frequent edits of capacity, and checks and pushes that take so long that capacity changes meanwhile.
fn stormy(scenario: &mut Scenario) {
    scenario.rates = Rates::only(&[
        (Fault::EditResizes, 900),
        (Fault::EditMovesEdge, 700),
        (Fault::Slow, 400),
        (Fault::LateMessage, 400),
    ]);
    scenario.edit_every = Duration::from_secs(4);
    scenario.store_faults = [0; 7];
}

fn stormy_scenario(seed: u64) -> Scenario {
    let mut scenario = Scenario::choose(seed);
    stormy(&mut scenario);
    scenario
}

#[test]
fn s1_no_push_begins_while_a_check_delays() {
    assert_caught(Bug::PushOnTimedOutCheck, "S1");
}

#[test]
fn s2_only_sealed_incarnations_are_seen() {
    assert_eq!(
        first_violation(|scenario| scenario.seal_early = true),
        Some("S2")
    );
}

/// Sets edits that remove assets from intent and add them again, and no turndowns.
fn leaving(scenario: &mut Scenario) {
    scenario.rates = Rates::only(&[
        (Fault::EditRemoves, 900),
        (Fault::EditAdds, 400),
        (Fault::EditRevises, 600),
        (Fault::DriftContent, 300),
        (Fault::Crash, 100),
    ]);
    scenario.store_faults = [0; 7];
    scenario.edit_every = Duration::from_secs(10);
}

fn leaving_scenario(seed: u64) -> Scenario {
    let mut scenario = Scenario::choose(seed);
    leaving(&mut scenario);
    scenario
}

#[test]
fn s3_absence_removes_nothing() {
    let absent = run_all(1020, 10, leaving_scenario, |_| false);
    assert!(absent.violations.is_empty(), "{:?}", absent.violations);
    assert!(absent.counts["branch Orphaned"] >= 10 * absent.seeds);
    assert_eq!(absent.counts["removals"], 0);
    // Assets that left intent are left alone. Without that guard, S3 is violated first.
    let pushed = first_violation(|scenario| {
        leaving(scenario);
        scenario.planted = Some(Bug::RemoveOrphan);
    });
    assert_eq!(pushed, Some("S3"));
}

#[test]
fn s4_demand_stays_below_capacity() {
    let calm = run_all(1030, 10, stormy_scenario, |_| false);
    assert!(calm.violations.is_empty(), "{:?}", calm.violations);
    let seen = first_violation(|scenario| {
        stormy(scenario);
        scenario.planted = Some(Bug::ReuseOldDiff);
    });
    assert_eq!(seen, Some("S4"));
}

#[test]
fn s5_an_old_token_is_refused() {
    assert_caught(Bug::DropFence, "S5");
}

#[test]
fn s7_acknowledged_incarnations_are_readable_after_a_crash() {
    let cuts = |scenario: &mut Scenario| {
        scenario.rates = Rates::only(&[(Fault::EditRevises, 900), (Fault::PowerCut, 900)]);
        scenario.store_faults = [0; 7];
        scenario.edit_every = Duration::from_secs(2);
    };
    let cut = |seed| {
        let mut scenario = Scenario::choose(seed);
        cuts(&mut scenario);
        scenario
    };
    let calm = run_all(1050, 10, cut, |_| false);
    assert!(calm.violations.is_empty(), "{:?}", calm.violations);
    let seen = first_violation(|scenario| {
        cuts(scenario);
        scenario.ack_first = true;
    });
    assert_eq!(seen, Some("S7"));
}

#[test]
fn r13_a_push_that_begins_before_its_record_is_durable_is_caught() {
    assert_caught(Bug::PushBeforeDurable, "R13");
}

#[test]
fn r9_a_skipped_claim_is_caught() {
    assert_caught(Bug::SkipClaim, "R9");
}

#[test]
fn r13_an_open_push_lost_over_a_restart_is_caught() {
    let seen = first_violation(|scenario| {
        scenario.rates = Rates::only(&[(Fault::EditRevises, 900), (Fault::Crash, 400)]);
        scenario.store_faults = [0; 7];
        // Longer than a takeover.
        scenario.travel = Some(Duration::from_secs(19));
        scenario.planted = Some(Bug::LoseOpenPush);
    });
    assert_eq!(seen, Some("S5"));
}

#[test]
fn r16_a_forgotten_edge_is_caught() {
    assert_caught(Bug::ForgetVanishedEdge, "S4");
}

/// Sets frequent turndowns whose pushes fail, and restarts between approvals of one change.
fn turning_down(seed: u64) -> Scenario {
    let mut scenario = Scenario::choose(seed);
    scenario.rates = Rates::only(&[
        (Fault::EditTurnsDown, 900),
        (Fault::EditAdds, 600),
        (Fault::EditRemoves, 600),
        (Fault::Transient, 300),
        (Fault::Crash, 600),
    ]);
    scenario.store_faults = [0; 7];
    scenario.enforcers = 1;
    scenario.edit_every = Duration::from_secs(10);
    scenario.trouble_every = Duration::from_secs(10);
    scenario
}

#[test]
fn r12_a_repeated_approval_that_lets_two_pushes_through_is_caught() {
    let calm = run_all(1300, 10, turning_down, |_| false);
    assert!(calm.violations.is_empty(), "{:?}", calm.violations);
    assert!(calm.counts["judged R12"] >= 3 * calm.seeds);
    let seen = (0..PATIENCE).find_map(|seed| {
        let mut scenario = turning_down(seed);
        scenario.planted = Some(Bug::KeepRepeated);
        let found = run(seed, &scenario).violation?;
        Some(found.invariant)
    });
    assert_eq!(seen, Some("R12"));
}

/// Sets frequent moves of pins by operators, during slow calls and late messages.
fn repinned(scenario: &mut Scenario) {
    scenario.rates = Rates::only(&[
        (Fault::PersonPins, 900),
        (Fault::EditRevises, 900),
        (Fault::Slow, 400),
        (Fault::LateMessage, 400),
    ]);
    scenario.store_faults = [0; 7];
    scenario.edit_every = Duration::from_secs(4);
    scenario.trouble_every = Duration::from_secs(5);
}

#[test]
fn r8_an_ignored_pin_is_caught() {
    let seen = first_violation(|scenario| {
        repinned(scenario);
        scenario.planted = Some(Bug::IgnoreMovedPin);
    });
    assert_eq!(seen, Some("R8"));
}

/// Sets an edit each second, of content, capacity and edges.
fn hurried(scenario: &mut Scenario) {
    stormy(scenario);
    scenario.rates.set(Fault::EditRevises, 500);
    scenario.edit_every = Duration::from_secs(1);
    scenario.executions = 0;
}

#[test]
fn r8_a_skipped_hold_is_caught() {
    assert_caught(Bug::SkipHold, "S4");
}

#[test]
fn s4_holds_with_an_edit_each_second() {
    let calm = |seed| {
        let mut scenario = Scenario::choose(seed);
        hurried(&mut scenario);
        scenario
    };
    let calm = run_all(0, 5, calm, |_| false);
    assert!(calm.violations.is_empty(), "{:?}", calm.violations);
}

/// Sets frequent stops of processes, during slow pushes.
fn stopping(scenario: &mut Scenario) {
    scenario.rates = Rates::only(&[
        (Fault::Stop, 500),
        (Fault::EditRevises, 900),
        (Fault::EditResizes, 500),
        (Fault::Slow, 300),
        (Fault::LateMessage, 300),
        (Fault::LostAnswer, 100),
    ]);
    scenario.store_faults = [0; 7];
    scenario.edit_every = Duration::from_secs(4);
}

#[test]
fn r13_a_shutdown_records_finished_pushes_and_begins_no_new_ones() {
    let stopped = |seed| {
        let mut scenario = Scenario::choose(seed);
        stopping(&mut scenario);
        scenario
    };
    let calm = run_all(1290, 10, stopped, |_| false);
    assert!(calm.violations.is_empty(), "{:?}", calm.violations);
    assert!(calm.counts["judged drain"] >= 100 * calm.seeds);
    for bug in [Bug::NoDrain, Bug::StartWhileDraining] {
        let seen = first_violation(|scenario| {
            stopping(scenario);
            scenario.planted = Some(bug);
        });
        assert_eq!(seen, Some("drain"), "{bug:?}");
    }
}
