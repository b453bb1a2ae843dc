//! The word from a caller that it no longer waits: a blocking call cannot be dropped, so it is told.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Tells a blocking call that its caller has given up, for example because of a deadline. Clones tell the same.
///
/// ```
/// use prodspec_gen::tree::Stop;
/// let stop = Stop::default();
/// assert!(!stop.is_stopped());
/// ```
#[derive(Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    actions: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Stop {
    /// Whether the caller has given up.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// The same as a flag, for libraries that poll one.
    pub fn flag(&self) -> &AtomicBool {
        &self.0.stopped
    }

    /// Calls `action` when the caller gives up or has its answer; at once if it already does. An action can end what the
    /// call waits for: kill a process, close a connection. It must not block.
    pub fn when_over(&self, action: impl FnOnce() + Send + 'static) {
        let mut actions = self.actions();
        if self.is_stopped() {
            drop(actions);
            action();
        } else {
            actions.push(Box::new(action));
        }
    }

    fn actions(&self) -> std::sync::MutexGuard<'_, Vec<Box<dyn FnOnce() + Send>>> {
        self.0
            .actions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        let actions = {
            let mut actions = self.actions();
            self.0.stopped.store(true, Ordering::SeqCst);
            std::mem::take(&mut *actions)
        };
        actions.into_iter().for_each(|action| action());
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.is_stopped()).finish()
    }
}

/// Kept by the caller for as long as it waits. Dropping it stops the call.
pub(super) struct Waiting(Stop);

impl Waiting {
    /// The guard of the caller, and what its call looks at.
    pub(super) fn begin() -> (Self, Stop) {
        let stop = Stop::default();
        (Self(stop.clone()), stop)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r44_actions_run_once_when_the_caller_gives_up() {
        let ran = Arc::new(Mutex::new(0));
        let count = || {
            let ran = ran.clone();
            move || *ran.lock().unwrap() += 1
        };
        let (waiting, stop) = Waiting::begin();
        stop.when_over(count());
        assert!(!stop.is_stopped() && *ran.lock().unwrap() == 0);
        drop(waiting);
        assert!(stop.is_stopped() && *ran.lock().unwrap() == 1);
        stop.when_over(count());
        assert_eq!(*ran.lock().unwrap(), 2, "at once");
    }
}
