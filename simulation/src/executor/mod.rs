//! A single-threaded executor with virtual time: the seed chooses the runnable task that runs next.
//!
//! Tasks belong to nodes as threads belong to processes. Killing a node drops all its tasks where they wait; pausing a
//! node stops its tasks while time goes on.

mod clock;
mod node;
mod task;

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};

pub use clock::{Instant, NodeRuntime};
pub use node::NodeId;

use crate::random::Random;
use node::{Condition, Node};
use task::{Task, Wake};

/// The executor of all tasks; clones share one state.
#[derive(Clone)]
pub struct Executor(Arc<Core>);

/// Maximum number of steps of a run, unless more are allowed: more steps mean that tasks wake each other in an endless loop.
const MOST: u64 = 1_000_000;

struct Core {
    /// Whether the order in which tasks were woken has no effect on their order.
    sorted: bool,
    now: AtomicU64,
    stopped: AtomicBool,
    timers: Mutex<BTreeMap<(u64, u64), Waker>>,
    timers_set: AtomicU64,
    ready: Arc<Mutex<Vec<u32>>>,
    run: Mutex<Run>,
}

/// The state that a step changes.
struct Run {
    random: Random,
    tasks: Vec<Option<Task>>,
    free: Vec<u32>,
    nodes: Vec<Node>,
    /// The node whose task is being polled.
    current: NodeId,
    steps: u64,
    /// Maximum number of them.
    most: u64,
    /// Digest of the tasks that ran and their times.
    trace: u64,
    panicked: Option<String>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Executor {
    /// Makes an executor whose choices depend on `seed` only. It has one node, [`NodeId::WORLD`].
    pub fn new(seed: u64) -> Self {
        Self::with(seed, false)
    }

    /// As [`Executor::new`], for programs that wake several tasks of one step in a random order, as channels of tokio do: the
    /// choice does not depend on it.
    pub fn sorted(seed: u64) -> Self {
        Self::with(seed, true)
    }

    fn with(seed: u64, sorted: bool) -> Self {
        let run = Run {
            random: Random::new(seed ^ 0x5eed_5eed),
            tasks: Vec::new(),
            free: Vec::new(),
            nodes: vec![Node::new(0)],
            current: NodeId::WORLD,
            steps: 0,
            most: MOST,
            trace: seed,
            panicked: None,
        };
        Self(Arc::new(Core {
            sorted,
            now: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            timers: Mutex::default(),
            timers_set: AtomicU64::new(0),
            ready: Arc::default(),
            run: Mutex::new(run),
        }))
    }

    /// The true time, which no node can read.
    pub fn now(&self) -> Instant {
        Instant(self.0.now.load(Ordering::Relaxed))
    }

    /// Number of steps so far: each one takes up one runnable task.
    pub fn steps(&self) -> u64 {
        locked(&self.0.run).steps
    }

    /// A digest of the tasks that ran and their times.
    pub fn trace(&self) -> u64 {
        locked(&self.0.run).trace
    }

    /// Message of the last task that panicked; `None` if no task did.
    pub fn panicked(&self) -> Option<String> {
        locked(&self.0.run).panicked.clone()
    }

    /// The node whose task is running now.
    pub fn current(&self) -> NodeId {
        locked(&self.0.run).current
    }

    /// Ends [`Executor::run_until`] after the current step.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Runs a task on a node. Does nothing if the node is dead.
    pub fn spawn(&self, node: NodeId, future: BoxFuture<'static, ()>) {
        let mut run = locked(&self.0.run);
        if run.node(node).condition == Condition::Dead {
            return;
        }
        let at = run.free.pop().unwrap_or_else(|| {
            run.tasks.push(None);
            run.tasks.len() as u32 - 1
        });
        let wake = Wake::new(at, self.0.ready.clone());
        run.tasks[at as usize] = Some(Task::new(node, future, wake.clone()));
        drop(run);
        wake.wake_by_ref();
    }

    /// A future that completes after `duration` of true time.
    pub fn sleep(&self, duration: Duration) -> clock::Sleep {
        clock::Sleep::new(self.clone(), self.now() + duration)
    }

    /// Runs tasks and advances the time until `end`, or until [`Executor::stop`] is called.
    pub fn run_until(&self, end: Instant) {
        while !self.0.stopped.load(Ordering::Relaxed) {
            if self.step() {
                continue;
            }
            let mut due = Vec::new();
            let mut timers = locked(&self.0.timers);
            let next = timers.first_key_value().map(|(key, _)| key.0);
            let Some(next) = next.filter(|at| *at <= end.0) else {
                self.0.now.store(end.0, Ordering::Relaxed);
                return;
            };
            self.0.now.store(next, Ordering::Relaxed);
            while let Some(first) = timers.first_entry().filter(|first| first.key().0 <= next) {
                due.push(first.remove());
            }
            drop(timers);
            due.into_iter().for_each(Waker::wake);
        }
    }

    /// Sets the maximum number of steps, for a long run.
    pub fn allow(&self, steps: u64) {
        locked(&self.0.run).most = steps;
    }

    /// Stops the executor and drops its tasks, together with the values that they own.
    pub fn end(&self) {
        self.stop();
        let mut run = locked(&self.0.run);
        // A destructor may spawn a task: none of these runs.
        for node in &mut run.nodes {
            node.condition = Condition::Dead;
        }
        let tasks = std::mem::take(&mut run.tasks);
        drop(run);
        drop(tasks);
    }

    /// Polls one runnable task. Returns false if there is none.
    fn step(&self) -> bool {
        let mut run = locked(&self.0.run);
        let Some(at) = run.choose(&self.0.ready, self.0.sorted) else {
            return false;
        };
        let Some(mut task) = run.tasks[at as usize].take() else {
            return true;
        };
        run.steps += 1;
        if run.steps > run.most {
            let most = run.most;
            run.panicked = Some(format!(
                "no end after {most} steps; tasks wake each other in a loop"
            ));
            self.stop();
        }
        let now = self.0.now.load(Ordering::Relaxed);
        run.trace = (run.trace ^ now ^ (u64::from(at) << 40))
            .rotate_left(29)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match run.node(task.node).condition {
            Condition::Dead => {
                run.free.push(at);
                drop(run);
                drop(task);
                return true;
            }
            Condition::Paused => {
                run.node_mut(task.node).parked.push(at);
                run.tasks[at as usize] = Some(task);
                return true;
            }
            Condition::Up => {}
        }
        run.current = task.node;
        drop(run);
        let mut context = Context::from_waker(&task.waker);
        let polled =
            std::panic::catch_unwind(AssertUnwindSafe(|| task.future.poll_unpin(&mut context)));
        self.polled(at, task, polled);
        true
    }

    fn polled(&self, at: u32, task: Task, polled: std::thread::Result<Poll<()>>) {
        let mut run = locked(&self.0.run);
        run.current = NodeId::WORLD;
        let over = match polled {
            Ok(poll) => poll.is_ready(),
            Err(panic) => {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                let said = said.or(panic.downcast_ref::<&str>().copied());
                run.panicked = Some(said.unwrap_or("a task panicked").to_owned());
                self.stop();
                true
            }
        };
        if over || run.node(task.node).condition == Condition::Dead {
            task.wake.finish();
            run.free.push(at);
            drop(run);
            drop(task);
        } else {
            run.tasks[at as usize] = Some(task);
        }
    }
}

impl Run {
    fn choose(&mut self, ready: &Mutex<Vec<u32>>, sorted: bool) -> Option<u32> {
        let mut ready = locked(ready);
        if sorted {
            ready.sort_unstable();
        }
        let at = match ready.len() {
            0 => return None,
            1 => 0,
            many => self.random.below(many),
        };
        let chosen = ready.swap_remove(at);
        drop(ready);
        if let Some(task) = &self.tasks[chosen as usize] {
            task.wake.taken();
        }
        Some(chosen)
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
