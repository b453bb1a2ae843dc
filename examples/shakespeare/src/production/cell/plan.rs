//! What to do next about a job's tasks: a pure function, so that "never less than was guaranteed" can be tested without
//! a process.

use crate::production::api::Phase;

/// As much of a task as planning needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: u64,
    pub(super) phase: Phase,
    /// Runs what the job wants now.
    pub(super) fresh: bool,
    /// Requests in flight that it serves.
    pub(super) capacity: u32,
}

/// One step towards what the job wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Start a task.
    Start,
    /// Take this task off the list, and let it finish.
    Delist(u64),
    /// Stop this task, which was never listed.
    Discard(u64),
}

/// The next steps. Surplus is delisted, old tasks first, as long as what is left serves the `guaranteed` capacity; old
/// tasks are replaced one by one, a new one serving before an old one goes; missing ones are started at once.
pub(super) fn next(replicas: usize, guaranteed: u32, tasks: &[Seen]) -> Vec<Step> {
    let starting = |fresh: bool| {
        tasks
            .iter()
            .filter(move |task| task.phase == Phase::Starting && task.fresh == fresh)
    };
    let mut serving: Vec<Seen> = tasks
        .iter()
        .filter(|task| task.phase == Phase::Serving)
        .copied()
        .collect();
    // Who goes first stands last: old before fresh, and of those the youngest.
    serving.sort_by_key(|task| (!task.fresh, task.id));
    let fresh_serving = serving.iter().filter(|task| task.fresh).count();

    let mut steps: Vec<Step> = starting(false).map(|task| Step::Discard(task.id)).collect();
    let wanted_starts = replicas.saturating_sub(fresh_serving);
    steps.extend(
        starting(true)
            .skip(wanted_starts)
            .map(|task| Step::Discard(task.id)),
    );
    let mut capacity: u32 = serving.iter().map(|task| task.capacity).sum();
    while serving.len() > replicas
        && let Some(last) = serving.pop_if(|last| capacity - last.capacity >= guaranteed)
    {
        capacity -= last.capacity;
        steps.push(Step::Delist(last.id));
    }
    let under_way = starting(true).count().min(wanted_starts);
    let missing = replicas.saturating_sub(serving.len());
    let stale = serving.iter().any(|task| !task.fresh);
    let starts = missing + usize::from(stale && missing == 0);
    steps.extend((under_way..starts).map(|_| Step::Start));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: u64, phase: Phase, fresh: bool) -> Seen {
        Seen {
            id,
            phase,
            fresh,
            capacity: 1,
        }
    }

    #[test]
    fn what_is_missing_is_started_at_once() {
        assert_eq!(next(3, 0, &[]), vec![Step::Start; 3]);
        let one = [seen(1, Phase::Starting, true)];
        assert_eq!(next(3, 0, &one), vec![Step::Start; 2]);
    }

    #[test]
    fn surplus_goes_old_before_young() {
        let tasks = [
            seen(1, Phase::Serving, false),
            seen(2, Phase::Serving, true),
            seen(3, Phase::Serving, true),
        ];
        assert_eq!(next(1, 1, &tasks), vec![Step::Delist(1), Step::Delist(3)]);
    }

    #[test]
    fn a_task_that_is_no_longer_wanted_before_it_serves_is_discarded() {
        let tasks = [
            seen(1, Phase::Starting, false),
            seen(2, Phase::Serving, true),
        ];
        assert_eq!(next(1, 1, &tasks), vec![Step::Discard(1)]);
    }

    /// Plays every update and resize between small jobs to its end, tasks growing and shrinking too.
    #[test]
    fn capacity_never_falls_below_the_lesser_of_before_and_after() {
        for before in 0..6 {
            for after in 0..6 {
                play((before, 1), (after, 1), true);
                for (old, new) in [(1, 1), (1, 2), (2, 1), (4, 1), (1, 4)] {
                    play((before, old), (after, new), false);
                }
            }
        }
    }

    /// From so many tasks of such a capacity to so many of such.
    fn play(before: (u32, u32), after: (u32, u32), fresh: bool) {
        let guaranteed = (before.0 * before.1).min(after.0 * after.1);
        let mut tasks: Vec<Seen> = (0..before.0)
            .map(|id| Seen {
                capacity: before.1,
                ..seen(id.into(), Phase::Serving, fresh)
            })
            .collect();
        let mut id = u64::from(before.0);
        for _ in 0..100 {
            let steps = next(after.0 as usize, guaranteed, &tasks);
            for step in &steps {
                match step {
                    Step::Start => {
                        tasks.push(Seen {
                            capacity: after.1,
                            ..seen(id, Phase::Starting, true)
                        });
                        id += 1;
                    }
                    Step::Delist(gone) | Step::Discard(gone) => {
                        tasks.retain(|task| task.id != *gone);
                    }
                }
            }
            let serving = tasks.iter().filter(|task| task.phase == Phase::Serving);
            let capacity: u32 = serving.map(|task| task.capacity).sum();
            assert!(capacity >= guaranteed, "{before:?} -> {after:?}");
            assert!(tasks.len() as u32 <= before.0.max(after.0) + 1);
            let starting = tasks.iter_mut().find(|t| t.phase == Phase::Starting);
            match starting {
                Some(task) => task.phase = Phase::Serving,
                None if steps.is_empty() => break,
                None => {}
            }
        }
        assert_eq!(next(after.0 as usize, guaranteed, &tasks), vec![]);
        assert_eq!(tasks.len() as u32, after.0);
        assert!(tasks.iter().all(|task| task.fresh));
    }
}
