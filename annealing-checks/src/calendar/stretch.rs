//! What a calendar says over a stretch of time, and the memory of the stretch that was asked about last.
//!
//! A check is asked thousands of times while the answer stays the same. What is remembered follows from the calendar and
//! the time handed in alone, so a clock that goes back, or jumps ahead, is answered anew and never with what is over.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// A stretch of time, from the instant that was asked about, in which the answer is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stretch {
    /// A window is open.
    Open {
        from: Timestamp,
        /// The first instant at which it may not be.
        until: Timestamp,
        /// Which window, by its place in the calendar.
        window: usize,
    },
    /// Nothing is open, until this window is.
    Closed {
        from: Timestamp,
        until: Timestamp,
        window: usize,
    },
    /// Nothing is open any more.
    Never { from: Timestamp },
}

impl Stretch {
    /// The first open instant from `now` on, which must be in the stretch, and the window that is open then.
    pub(super) fn next_open(&self, now: Timestamp) -> Option<(Timestamp, usize)> {
        match *self {
            Self::Open { window, .. } => Some((now, window)),
            Self::Closed { until, window, .. } => Some((until, window)),
            Self::Never { .. } => None,
        }
    }

    fn covers(&self, now: Timestamp) -> bool {
        match *self {
            Self::Open { from, until, .. } | Self::Closed { from, until, .. } => {
                from <= now && now < until
            }
            Self::Never { from } => from <= now,
        }
    }
}

/// The stretch that was asked about last. Clones of a calendar share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Last(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    stretch: Option<Stretch>,
    /// How often it was searched for.
    searches: u64,
}

impl Last {
    /// The stretch that `now` is in: the remembered one, or what `search` finds. The others wait for one that searches.
    pub(super) fn at(&self, now: Timestamp, search: impl FnOnce() -> Stretch) -> Stretch {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.stretch {
            Some(stretch) if stretch.covers(now) => stretch,
            _ => {
                let found = search();
                known.searches += 1;
                *known = Known {
                    stretch: Some(found),
                    searches: known.searches,
                };
                found
            }
        }
    }

    #[cfg(test)]
    pub(super) fn searches(&self) -> u64 {
        self.0.lock().unwrap().searches
    }
}
