//! A crash at every point of a small case, and at every pair of points: the result is the same as without crashes, and
//! each push took effect as often as without.

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
    crashes::{Doing, Ending, play, scenario},
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
        let scenario = Scenario {
            planted,
            ..scenario()
        };
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

    /// Tries a crash at every point, and, if `twice`, also a second crash at every later point. Returns the runs with
    /// other results, and the number of runs.
    fn others(&self, twice: bool) -> (Vec<Other>, usize) {
        let (next, runs) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let others = Mutex::new(Vec::new());
        let work = || {
            while let first = next.fetch_add(1, Ordering::Relaxed) as u64
                && first < self.points
            {
                let (other, points) = self.play(&[first]);
                let seconds = if twice { first + 1..points } else { 0..0 };
                let pairs = seconds.filter_map(|second| {
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

/// Asserts that every run has the same result as the run without crashes.
fn all_end_well(doing: Doing, crash: Crash, twice: bool) {
    let all = All::of(doing, crash, None);
    let (others, runs) = all.others(twice);
    assert_eq!(others, [], "of {runs} runs of {doing:?}");
    // Too few runs would prove nothing.
    let least = if twice { 5_000 } else { 80 };
    assert!(runs >= least, "{runs} runs of {doing:?}");
}

#[test]
fn s7_a_crash_at_any_point_changes_nothing() {
    for doing in DOING {
        all_end_well(doing, Crash::Process, false);
        all_end_well(doing, Crash::Power, false);
    }
}

#[test]
fn s7_crashes_at_any_two_points_change_nothing() {
    all_end_well(Doing::Growth, Crash::Process, true);
}

#[test]
fn s7_power_cuts_at_any_two_points_change_nothing() {
    all_end_well(Doing::Shrinkage, Crash::Power, true);
}

#[test]
fn r13_an_open_push_lost_in_a_crash_is_caught() {
    let all = All::of(Doing::Growth, Crash::Process, Some(Bug::LoseOpenPush));
    let (others, _) = all.others(false);
    let seen = others.first().and_then(|(_, it)| it.violation.as_ref());
    assert_eq!(seen.map(|it| it.invariant), Some("S5"));
}
