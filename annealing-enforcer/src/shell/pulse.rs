//! Tells whether an enforcement loop answers, so that heartbeats are sent only while the loops of this process work.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plugin_sdk::Mono;

/// Tells whether one enforcer's loop answers. Cheap to clone; all clones are of one loop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pulse(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Whether a loop runs. An enforcer that waits for ownership, or reads records, need not answer.
    watched: bool,
    /// When the loop was first asked after its last answer; `None` if it owes no answer.
    asked: Option<Mono>,
}

impl Pulse {
    /// Notes that a loop begins (`true`) or ends (`false`).
    pub(super) fn watch(&self, watched: bool) {
        *self.state() = State {
            watched,
            asked: None,
        };
    }

    pub(super) fn is_watched(&self) -> bool {
        self.state().watched
    }

    /// Notes that the loop is asked at `now`, if one runs; an earlier question without an answer keeps its time.
    pub(super) fn ask(&self, now: Mono) {
        let mut state = self.state();
        if state.watched {
            state.asked.get_or_insert(now);
        }
    }

    /// Notes that the loop has answered.
    pub(super) fn answer(&self) {
        self.state().asked = None;
    }

    /// The time since which the loop owes an answer; `None` if it owes none.
    pub(super) fn silent_since(&self) -> Option<Mono> {
        self.state().asked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
