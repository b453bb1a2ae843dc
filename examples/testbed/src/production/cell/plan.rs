//! Chooses the next steps for the tasks of a job. A pure function, so that tests can show without processes that the
//! guaranteed capacity is always kept.

use crate::production::api::Phase;

/// The properties of a task that the plan needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: u64,
    pub(super) phase: Phase,
    /// True if the task matches the wanted state of the job.
    pub(super) fresh: bool,
    /// Number of requests that the task serves at the same time.
    pub(super) capacity: u32,
}

/// One step towards the wanted state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Start a new task.
    Start,
    /// Remove this task from the routing; it stops when it is drained.
    Delist(u64),
    /// Stop this task, which has never served.
    Discard(u64),
}

/// Returns the next steps. Missing tasks are started at once. Old tasks are replaced one by one: a new task serves
/// before an old one is delisted. Surplus tasks are delisted, old ones first, while the rest has the `guaranteed`
/// capacity.
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
    // Tasks are delisted from the end of this list: old ones before fresh ones, and among these the youngest first.
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
    fn missing_tasks_are_started_at_once() {
        assert_eq!(next(3, 0, &[]), vec![Step::Start; 3]);
        let one = [seen(1, Phase::Starting, true)];
        assert_eq!(next(3, 0, &one), vec![Step::Start; 2]);
    }

    #[test]
    fn surplus_tasks_are_delisted_old_ones_first() {
        let tasks = [
            seen(1, Phase::Serving, false),
            seen(2, Phase::Serving, true),
            seen(3, Phase::Serving, true),
        ];
        assert_eq!(next(1, 1, &tasks), vec![Step::Delist(1), Step::Delist(3)]);
    }

    #[test]
    fn starting_task_that_is_no_longer_wanted_is_discarded() {
        let tasks = [
            seen(1, Phase::Starting, false),
            seen(2, Phase::Serving, true),
        ];
        assert_eq!(next(1, 1, &tasks), vec![Step::Discard(1)]);
    }

    /// Plays every update and resize between small jobs to its end, with larger, equal and smaller tasks.
    #[test]
    fn capacity_never_falls_below_the_smaller_of_old_and_new() {
        for before in 0..6 {
            for after in 0..6 {
                play((before, 1), (after, 1), true);
                for (old, new) in [(1, 1), (1, 2), (2, 1), (4, 1), (1, 4)] {
                    play((before, old), (after, new), false);
                }
            }
        }
    }

    /// Plays a change between two jobs, each given as number of tasks and capacity per task.
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
