//! A task of the executor and its waker.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    task::Waker,
};

use futures::future::BoxFuture;

use super::{NodeId, locked};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const FINISHED: u8 = 2;

/// A future that runs on a node.
pub(super) struct Task {
    pub(super) node: NodeId,
    pub(super) future: BoxFuture<'static, ()>,
    pub(super) wake: Arc<Wake>,
    pub(super) waker: Waker,
}

impl Task {
    pub(super) fn new(node: NodeId, future: BoxFuture<'static, ()>, wake: Arc<Wake>) -> Self {
        Self {
            node,
            future,
            waker: Waker::from(wake.clone()),
            wake,
        }
    }
}

/// The waker of a task: adds the task to the runnable ones, at most once.
pub(super) struct Wake {
    task: u32,
    state: AtomicU8,
    ready: Arc<Mutex<Vec<u32>>>,
}

impl Wake {
    pub(super) fn new(task: u32, ready: Arc<Mutex<Vec<u32>>>) -> Arc<Self> {
        Arc::new(Self {
            task,
            state: AtomicU8::new(IDLE),
            ready,
        })
    }

    /// Records that the task was removed from the runnable ones.
    pub(super) fn taken(&self) {
        self.state.store(IDLE, Ordering::Relaxed);
    }

    /// Records that the task has ended. Further wakes do nothing, because another task may have its number now.
    pub(super) fn finish(&self) {
        if self.state.swap(FINISHED, Ordering::Relaxed) == QUEUED {
            locked(&self.ready).retain(|task| *task != self.task);
        }
    }

    pub(super) fn wake_by_ref(&self) {
        let queued =
            self.state
                .compare_exchange(IDLE, QUEUED, Ordering::Relaxed, Ordering::Relaxed);
        if queued.is_ok() {
            locked(&self.ready).push(self.task);
        }
    }
}

impl std::task::Wake for Wake {
    fn wake(self: Arc<Self>) {
        Self::wake_by_ref(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Self::wake_by_ref(self);
    }
}
