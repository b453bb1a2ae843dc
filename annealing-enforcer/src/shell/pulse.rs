//! Whether a loop answers: the heartbeat tells others that this process works, not only that it has a timer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plugin_sdk::Mono;

/// The pulse of one enforcer's loop. Cheap to clone; all clones are of one loop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pulse(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// A loop runs. Nothing is expected of an enforcer that waits for ownership or reads what is remembered.
    watched: bool,
    /// When it was asked what it has not answered.
    asked: Option<Mono>,
}

impl Pulse {
    /// A loop begins or ends.
    pub(super) fn watch(&self, watched: bool) {
        *self.state() = State {
            watched,
            asked: None,
        };
    }

    pub(super) fn is_watched(&self) -> bool {
        self.state().watched
    }

    /// Asks the loop, if one runs.
    pub(super) fn ask(&self, now: Mono) {
        let mut state = self.state();
        if state.watched {
            state.asked.get_or_insert(now);
        }
    }

    /// The loop answers.
    pub(super) fn answer(&self) {
        self.state().asked = None;
    }

    /// Since when it owes an answer.
    pub(super) fn silent_since(&self) -> Option<Mono> {
        self.state().asked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
