//! A crash at every point of a small case, and at pairs of points: the result is the same as without crashes, and each
//! push took effect as often as without.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use annealing_enforcer::kernel::Bug;
use simulation::{
    Scenario,
    crashes::{Doing, Ending, play, scenario, with_workflows},
    faults::Crash,
};

/// All ways to crash once, and all ways to crash twice, the second time during the recovery from the first crash.
struct All {
    doing: Doing,
    scenario: Scenario,
    crash: Crash,
    calm: Ending,
    points: u64,
}

/// The points and the result of a run that differs from the run without crashes.
type Other = (Vec<u64>, Ending);

impl All {
    fn of(doing: Doing, crash: Crash, planted: Option<Bug>) -> Self {
        Self::of_scenario(
            doing,
            crash,
            Scenario {
                planted,
                ..scenario()
            },
        )
    }

    fn of_scenario(doing: Doing, crash: Crash, scenario: Scenario) -> Self {
        let (calm, points) = play(doing, &scenario, crash, &[]);
        assert_eq!(calm.violation, None);
        Self {
            doing,
            scenario,
            crash,
            calm,
            points,
        }
    }

    /// Runs the case with crashes at these points. Returns the result, if it differs from the run without crashes, and
    /// the number of passed points.
    fn play(&self, deadly: &[u64]) -> (Option<Other>, u64) {
        let (ending, points) = play(self.doing, &self.scenario, self.crash, deadly);
        let other = (ending != self.calm).then(|| (deadly.to_vec(), ending));
        (other, points)
    }

    /// Tries a crash at every point, and also a second crash at each later point of a part of all pairs: one of `pairs`.
    /// Returns the runs with other results, and the number of runs.
    fn others(&self, pairs: Option<u64>) -> (Vec<Other>, usize) {
        let (next, runs) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let others = Mutex::new(Vec::new());
        let work = || {
            while let first = next.fetch_add(1, Ordering::Relaxed) as u64
                && first < self.points
            {
                let (other, points) = self.play(&[first]);
                let seconds = if pairs.is_some() {
                    first + 1..points
                } else {
                    0..0
                };
                let tried = |second: &u64| (first * 7 + second).is_multiple_of(pairs.unwrap_or(1));
                let pairs = seconds.filter(tried).filter_map(|second| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    self.play(&[first, second]).0
                });
                let found: Vec<_> = other.into_iter().chain(pairs).collect();
                let mut others = others.lock().unwrap_or_else(PoisonError::into_inner);
                others.extend(found);
                runs.fetch_add(1, Ordering::Relaxed);
            }
        };
        thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
        let others = others.into_inner().unwrap_or_else(PoisonError::into_inner);
        (others, runs.into_inner())
    }
}

const DOING: [Doing; 3] = [Doing::Turnup, Doing::Growth, Doing::Shrinkage];

/// The part of all pairs of points that is tried, one of this many: all with `SIMULATION_EXHAUSTIVE=1`, which takes ten
/// minutes for assets and half an hour for a workflow.
fn one_pair_of(sampled: u64) -> u64 {
    match std::env::var_os("SIMULATION_EXHAUSTIVE") {
        Some(_) => 1,
        None => sampled,
    }
}

/// Asserts that every run has the same result as the run without crashes. Too few runs would prove nothing.
fn all_end_well(doing: Doing, crash: Crash, pairs: Option<u64>, least: usize) {
    let all = All::of(doing, crash, None);
    let (others, runs) = all.others(pairs);
    assert_eq!(others, [], "of {runs} runs of {doing:?}");
    assert!(runs >= least, "{runs} runs of {doing:?}");
}

#[test]
fn s7_a_crash_at_any_point_changes_nothing() {
    for doing in DOING {
        all_end_well(doing, Crash::Process, None, 80);
        all_end_well(doing, Crash::Power, None, 80);
    }
}

#[test]
fn s7_crashes_at_two_points_change_nothing() {
    let pairs = one_pair_of(32);
    all_end_well(
        Doing::Growth,
        Crash::Process,
        Some(pairs),
        5_000 / pairs as usize,
    );
}

#[test]
fn s7_power_cuts_at_two_points_change_nothing() {
    let pairs = one_pair_of(32);
    all_end_well(
        Doing::Shrinkage,
        Crash::Power,
        Some(pairs),
        5_000 / pairs as usize,
    );
}

/// Asserts that a workflow ends, has each effect once and makes its edit once, wherever one process crashes or two do.
fn workflow_ends_well(crash: Crash, pairs: Option<u64>, least: usize) {
    let all = All::of_scenario(Doing::Workflow, crash, with_workflows());
    let once = all.calm.effects.iter().all(|(_, times)| *times == 1);
    assert!(once && all.calm.effects.len() == 2, "{:?}", all.calm);
    assert_eq!(all.calm.edits.len(), 1);
    assert_eq!(all.calm.outcomes[0].1, "succeeded");
    let (others, runs) = all.others(pairs);
    assert_eq!(others, [], "of {runs} runs with {} points", all.points);
    assert!(runs >= least, "{runs} runs");
}

#[test]
fn r23_crash_at_any_point_of_a_workflow_changes_nothing() {
    workflow_ends_well(Crash::Process, None, 30);
    workflow_ends_well(Crash::Power, None, 30);
}

#[test]
fn r23_crashes_at_two_points_of_a_workflow_change_nothing() {
    let pairs = one_pair_of(256);
    workflow_ends_well(Crash::Process, Some(pairs), 20_000 / pairs as usize);
    workflow_ends_well(Crash::Power, Some(pairs), 20_000 / pairs as usize);
}

#[test]
fn r34_edit_that_a_crash_makes_twice_is_seen() {
    let scenario = Scenario {
        planted_in_workflows: Some(annealing_workflow::kernel::Bug::EditTwice),
        ..with_workflows()
    };
    let all = All::of_scenario(Doing::Workflow, Crash::Process, scenario);
    let (others, _) = all.others(None);
    let seen = others.iter().filter_map(|(_, it)| it.violation.as_ref());
    assert!(
        seen.into_iter().any(|it| it.invariant == "R34"),
        "{others:?}"
    );
}

#[test]
fn r13_an_open_push_lost_in_a_crash_is_caught() {
    let all = All::of(Doing::Growth, Crash::Process, Some(Bug::LoseOpenPush));
    let (others, _) = all.others(None);
    let seen = others.first().and_then(|(_, it)| it.violation.as_ref());
    assert_eq!(seen.map(|it| it.invariant), Some("S5"));
}
