//! The panics of tasks that run beside an ownership: each is logged, and listed until its task runs well again.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use control_plane_runtime::{Panic, Reports};
use prodspec_model::PartitionId;

/// The last panics of the tasks beside an ownership, by task name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskFailures(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl TaskFailures {
    /// The panics of tasks that have not run well for long since, as texts for operators.
    pub(super) fn all(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
    }

    /// Takes the reports about one task of `partition`. The `name` is unique among the tasks.
    pub(super) fn of(&self, partition: &PartitionId, name: &'static str) -> impl Reports {
        TaskFailure {
            partition: partition.clone(),
            task_failures: self.clone(),
            name,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task failure of one task. It is over when the task ends.
struct TaskFailure {
    partition: PartitionId,
    task_failures: TaskFailures,
    name: &'static str,
}

impl Reports for TaskFailure {
    fn panicked(&self, panic: &Panic, wait: Duration) {
        let (partition, name, why) = (&self.partition, self.name, panic.message());
        tracing::error!(%partition, name, why, ?wait, "a task beside enforcement panicked; starting it again");
        let told = format!("{name} panicked: {why}; it is started again after {wait:?}");
        self.task_failures.lock().insert(name, told);
    }

    fn is_well(&self) {
        self.task_failures.lock().remove(self.name);
    }
}

impl Drop for TaskFailure {
    fn drop(&mut self) {
        self.is_well();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use control_plane_runtime::{Make, Runtime as _, SupervisedTask, TokioRuntime};

    use super::*;

    /// A task that has run for this long since its last panic is not listed any more.
    const WELL: Duration = Duration::from_secs(600);

    /// A task that panics on its first `times` starts, and the number of its starts.
    fn panics(times: u64) -> (Make, Arc<AtomicU64>) {
        let starts = Arc::new(AtomicU64::new(0));
        let counted = starts.clone();
        let make: Make = Arc::new(move || {
            let nth = counted.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                assert!(nth >= times, "on purpose");
                futures::future::pending().await
            })
        });
        (make, starts)
    }

    async fn started(make: Make) -> (SupervisedTask, TaskFailures) {
        let (runtime, task_failures) = (TokioRuntime::current(), TaskFailures::default());
        let reports = task_failures.of(&"test".parse().unwrap(), "rollouts");
        let beside = SupervisedTask::start(&runtime, reports, make);
        runtime.sleep(Duration::from_millis(1)).await;
        (beside, task_failures)
    }

    #[tokio::test(start_paused = true)]
    async fn panicking_task_is_reported_and_restarted_with_growing_waits() {
        let (make, starts) = panics(3);
        let (_beside, task_failures) = started(make).await;
        for (wait, nth) in [(1, 1), (2, 2), (4, 3)] {
            assert_eq!(starts.load(Ordering::Relaxed), nth);
            let told = task_failures.all().join(" ");
            let again = format!("after {wait}s");
            assert!(
                told.contains("rollouts panicked: on purpose") && told.contains(&again),
                "{told}"
            );
            TokioRuntime::current()
                .sleep(Duration::from_secs(wait))
                .await;
        }
        assert_eq!(starts.load(Ordering::Relaxed), 4);
        assert!(!task_failures.all().is_empty(), "it may panic again");
        TokioRuntime::current().sleep(WELL).await;
        assert!(task_failures.all().is_empty());
        assert_eq!(starts.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn task_failures_end_with_the_ownership() {
        let (make, starts) = panics(u64::MAX);
        let (beside, task_failures) = started(make).await;
        drop(beside);
        TokioRuntime::current().sleep(WELL).await;
        assert!(task_failures.all().is_empty());
        assert_eq!(starts.load(Ordering::Relaxed), 1);
    }
}
