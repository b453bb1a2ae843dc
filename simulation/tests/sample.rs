//! A sample of what `tests/long` plays, small enough for a build without optimisation: a few seeds, one planted bug, and
//! crashes at some points.

use annealing_enforcer::kernel::Bug;
use simulation::{
    Scenario,
    crashes::{Doing, play, scenario},
    faults::Crash,
    run, run_all,
};

#[test]
fn a_few_seeds_have_no_violation_and_repeat_exactly() {
    let sum = run_all(0, 4, Scenario::choose, |seed| seed == 3);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    assert_eq!(sum.not_replayed, Vec::<u64>::new());
}

#[test]
fn s1_push_without_the_verdict_of_a_check_is_seen() {
    let seen = (0..10).find_map(|seed| {
        let planted = Some(Bug::PushOnTimedOutCheck);
        let scenario = Scenario {
            planted,
            ..Scenario::choose(seed)
        };
        run(seed, &scenario).violation.map(|found| found.invariant)
    });
    assert_eq!(seen, Some("S1"));
}

#[test]
fn s7_a_crash_at_some_points_changes_nothing() {
    let (calm, points) = play(Doing::Turnup, &scenario(), Crash::Process, &[]);
    for point in (0..points).step_by(9) {
        let (ending, _) = play(Doing::Turnup, &scenario(), Crash::Process, &[point]);
        assert_eq!(ending, calm, "crash at point {point}");
    }
}
