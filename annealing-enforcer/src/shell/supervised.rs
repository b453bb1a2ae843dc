//! Tasks that run beside an ownership and end with it. A task that panics is logged, reported as a task failure and started
//! again.

use std::{
    any::Any,
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use control_plane_runtime::Runtime;
use futures::{
    FutureExt,
    channel::oneshot,
    future::{AbortHandle, Abortable, BoxFuture, Either, select},
};
use prodspec_model::PartitionId;

/// The first wait before a task that panicked is started again; it doubles with each panic.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest wait before a task that panicked is started again.
const LONGEST: Duration = Duration::from_secs(300);
/// A task that has run for this long since its last panic counts as well again.
const WELL: Duration = Duration::from_secs(600);

/// Makes the task anew each time it is started.
pub(super) type Make = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A running task. Dropping this aborts it at its next await point.
pub(super) struct SupervisedTask {
    abort: AbortHandle,
    gone: oneshot::Receiver<()>,
}

impl SupervisedTask {
    /// Starts a task. Its `name` is unique in `task_failures`.
    pub(super) fn start<R: Runtime>(
        runtime: &R,
        partition: &PartitionId,
        task_failures: &TaskFailures,
        name: &'static str,
        make: Make,
    ) -> Self {
        let (handle, registration) = AbortHandle::new_pair();
        let task_failure = TaskFailure {
            partition: partition.clone(),
            task_failures: task_failures.clone(),
            name,
        };
        let task = kept_up(runtime.clone(), task_failure, make);
        let (over, gone) = oneshot::channel();
        runtime.spawn(Box::pin(async move {
            let _ = Abortable::new(task, registration).await;
            drop(over);
        }));
        let abort = handle;
        Self { abort, gone }
    }

    /// A handle that aborts the task.
    pub(super) fn stop(&self) -> AbortHandle {
        self.abort.clone()
    }

    /// Aborts the task and waits until it is gone: its drops must happen before the next ownership's task starts.
    pub(super) async fn end(mut self) {
        self.abort.abort();
        let _ = (&mut self.gone).await;
    }
}

impl Drop for SupervisedTask {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

/// The last panics of the tasks beside an ownership, by task name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskFailures(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl TaskFailures {
    /// The panics of tasks that have not run well for long since, as texts for operators.
    pub(super) fn all(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
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

impl TaskFailure {
    /// Logs and reports a panic.
    fn is(&self, why: &str, wait: Duration) {
        let (partition, name) = (&self.partition, self.name);
        tracing::error!(%partition, name, why, ?wait, "a task beside enforcement panicked; starting it again");
        let told = format!("{name} panicked: {why}; it is started again after {wait:?}");
        self.task_failures.lock().insert(name, told);
    }

    fn is_over(&self) {
        self.task_failures.lock().remove(self.name);
    }
}

impl Drop for TaskFailure {
    fn drop(&mut self) {
        self.is_over();
    }
}

/// Runs the task that `make` makes until it ends; starts it again after a wait when it panics.
async fn kept_up<R: Runtime>(runtime: R, task_failure: TaskFailure, make: Make) {
    let mut wait = AGAIN;
    let mut well = true;
    loop {
        let made = make.clone();
        let running = AssertUnwindSafe(async move { made().await }).catch_unwind();
        let ended = match well {
            true => running.await,
            false => match select(Box::pin(running), runtime.sleep(WELL)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(((), running)) => {
                    wait = AGAIN;
                    task_failure.is_over();
                    running.await
                }
            },
        };
        let Err(panic) = ended else { return };
        task_failure.is(panic_message(&*panic), wait);
        runtime.sleep(wait).await;
        (wait, well) = ((wait * 2).min(LONGEST), false);
    }
}

/// The message of a panic.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use control_plane_runtime::TokioRuntime;

    use super::*;

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
        let partition = "test".parse().unwrap();
        let beside = SupervisedTask::start(&runtime, &partition, &task_failures, "rollouts", make);
        TokioRuntime::current()
            .sleep(Duration::from_millis(1))
            .await;
        (beside, task_failures)
    }

    /// Counts its drops.
    struct Dropped(Arc<AtomicU64>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn end_waits_until_the_task_is_dropped() {
        let drops = Arc::new(AtomicU64::new(0));
        let counted = drops.clone();
        let make: Make = Arc::new(move || {
            let dropped = Dropped(counted.clone());
            Box::pin(async move {
                let _dropped = dropped;
                futures::future::pending().await
            })
        });
        let (beside, _) = started(make).await;
        beside.end().await;
        assert_eq!(drops.load(Ordering::Relaxed), 1);
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
