//! Tasks that are started again when they panic, after growing waits.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt,
    channel::oneshot,
    future::{AbortHandle, Abortable, BoxFuture, Either, Shared, select},
};

use crate::{Panic, Runtime, catch_panic_in};

/// The first wait before a task that panicked is started again; it doubles with each panic.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest wait before a task that panicked is started again.
const LONGEST: Duration = Duration::from_secs(300);
/// A task that has run for this long since its last panic counts as well again.
const WELL: Duration = Duration::from_secs(600);

/// Makes a supervised task anew each time it is started.
pub type Make = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Takes the reports about one supervised task. It is dropped when the task ends for good.
pub trait Reports: Send + 'static {
    /// The task has panicked, and is started again after `wait`.
    fn panicked(&self, panic: &Panic, wait: Duration);

    /// The task has run for 10 minutes since its last panic.
    fn is_well(&self);
}

/// A running task that is started again when it panics: after 1 s, then after waits that double up to 5 minutes.
/// Dropping this aborts the task at its next await point.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use control_plane_runtime::{Panic, Reports, SupervisedTask, TokioRuntime};
///
/// struct Printed;
///
/// impl Reports for Printed {
///     fn panicked(&self, panic: &Panic, wait: Duration) {
///         eprintln!("panicked: {panic}; starting it again after {wait:?}");
///     }
///
///     fn is_well(&self) {}
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let runtime = TokioRuntime::current();
/// let task = SupervisedTask::start(&runtime, Printed, Arc::new(|| Box::pin(std::future::pending())));
/// task.end().await;
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SupervisedTask {
    abort: AbortHandle,
    gone: Shared<oneshot::Receiver<()>>,
}

impl SupervisedTask {
    /// Starts the task that `make` makes.
    pub fn start<R: Runtime>(runtime: &R, reports: impl Reports, make: Make) -> Self {
        let (abort, registration) = AbortHandle::new_pair();
        let task = kept_up(runtime.clone(), reports, make);
        let (over, gone) = oneshot::channel();
        runtime.spawn(Box::pin(async move {
            let _ = Abortable::new(task, registration).await;
            drop(over);
        }));
        let gone = gone.shared();
        Self { abort, gone }
    }

    /// A future that completes when the task has ended, by itself or by an abort, and all that it owns is dropped.
    pub fn ended(&self) -> BoxFuture<'static, ()> {
        self.gone.clone().map(drop).boxed()
    }

    /// A handle that aborts the task.
    pub fn stop(&self) -> AbortHandle {
        self.abort.clone()
    }

    /// Aborts the task and waits until all that it owns is dropped.
    pub async fn end(mut self) {
        self.abort.abort();
        let _ = (&mut self.gone).await;
    }
}

impl Drop for SupervisedTask {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

/// Runs the task that `make` makes until it ends; starts it again after a wait when it panics.
async fn kept_up<R: Runtime>(runtime: R, reports: impl Reports, make: Make) {
    let mut wait = AGAIN;
    let mut well = true;
    loop {
        let made = make.clone();
        let running = Box::pin(catch_panic_in(async move { made().await }));
        let ended = match well {
            true => running.await,
            false => match select(running, runtime.sleep(WELL)).await {
                Either::Left((ended, _)) => ended,
                Either::Right(((), running)) => {
                    wait = AGAIN;
                    reports.is_well();
                    running.await
                }
            },
        };
        let Err(panic) = ended else { return };
        reports.panicked(&panic, wait);
        runtime.sleep(wait).await;
        (wait, well) = ((wait * 2).min(LONGEST), false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    };

    use super::*;
    use crate::TokioRuntime;

    /// Keeps the waits after panics, and a zero wait for each time that the task is well again.
    #[derive(Debug, Clone, Default)]
    struct Kept(Arc<Mutex<Vec<Duration>>>);

    impl Reports for Kept {
        fn panicked(&self, panic: &Panic, wait: Duration) {
            assert_eq!(panic.message(), "on purpose");
            self.0.lock().unwrap().push(wait);
        }

        fn is_well(&self) {
            self.0.lock().unwrap().push(Duration::ZERO);
        }
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
        let (runtime, drops) = (TokioRuntime::current(), Arc::new(AtomicU64::new(0)));
        let counted = drops.clone();
        let make: Make = Arc::new(move || {
            let dropped = Dropped(counted.clone());
            Box::pin(async move {
                let _dropped = dropped;
                futures::future::pending().await
            })
        });
        let task = SupervisedTask::start(&runtime, Kept::default(), make);
        runtime.sleep(Duration::from_millis(1)).await;
        task.end().await;
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_after_a_panic_doubles_to_its_limit_and_starts_over_once_the_task_is_well() {
        let (runtime, kept) = (TokioRuntime::current(), Kept::default());
        let starts = Arc::new(AtomicU64::new(0));
        let sleeps = runtime.clone();
        let make: Make = Arc::new(move || {
            let nth = starts.fetch_add(1, Ordering::Relaxed);
            let runtime = sleeps.clone();
            Box::pin(async move {
                if nth == 12 {
                    runtime.sleep(WELL * 2).await;
                }
                panic!("on purpose");
            })
        });
        let _task = SupervisedTask::start(&runtime, kept.clone(), make);
        runtime.sleep(Duration::from_secs(4 * 3600)).await;
        let kept: Vec<u64> = kept
            .0
            .lock()
            .unwrap()
            .iter()
            .map(Duration::as_secs)
            .collect();
        let grows = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300];
        assert_eq!(kept[..12], grows);
        assert_eq!(kept[12..15], [0, 1, 2]);
    }
}
