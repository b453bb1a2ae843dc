//! Calls of user code that their callers gave up and that still hold a thread. Another call would take another thread, so
//! none begins before they have ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The calls of one source or validator that were given up and have not ended. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Abandoned(Arc<Mutex<Vec<Weak<()>>>>);

/// Kept by a call for as long as it runs, and so for as long as it may hold a thread.
pub(crate) struct Running {
    _alive: Arc<()>,
}

/// Kept by the caller of a call for as long as it waits. Dropping it gives up the call if that has not ended.
pub(crate) struct Waiting {
    call: Weak<()>,
    abandoned: Abandoned,
}

impl Abandoned {
    /// Begins a call. Returns what the call and its caller keep; `None` if an abandoned call has not ended.
    pub(crate) fn begin(&self) -> Option<(Running, Waiting)> {
        let mut calls = self.calls();
        calls.retain(|call| call.strong_count() > 0);
        if !calls.is_empty() {
            return None;
        }
        let alive = Arc::new(());
        let waiting = Waiting {
            call: Arc::downgrade(&alive),
            abandoned: self.clone(),
        };
        Some((Running { _alive: alive }, waiting))
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Weak<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.call.strong_count() > 0 {
            self.abandoned.calls().push(self.call.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r44_no_call_begins_while_an_abandoned_one_runs() {
        let abandoned = Abandoned::default();
        let (first, waits_for_first) = abandoned.begin().unwrap();
        let (second, waits_for_second) = abandoned.begin().unwrap();
        drop(waits_for_first);
        assert!(abandoned.begin().is_none());
        drop(first);
        let (third, waits_for_third) = abandoned.begin().unwrap();
        drop((third, second));
        drop((waits_for_second, waits_for_third));
        assert!(abandoned.begin().is_some(), "all have ended");
    }
}
