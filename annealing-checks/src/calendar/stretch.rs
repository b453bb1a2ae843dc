//! Periods over which the answer of a calendar stays the same, and a cache of the last requested period.
//!
//! A check is called thousands of times while the answer stays the same. The cached period depends only on the calendar
//! and the requested time. A request outside of it, after the clock went back or jumped ahead, is computed anew.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// A period, starting at a requested instant, in which the answer stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stretch {
    /// A window is open in this period.
    Open {
        from: Timestamp,
        /// The first instant at which the window may be closed.
        until: Timestamp,
        /// Index of the window in the calendar.
        window: usize,
    },
    /// The calendar is closed until this window opens.
    Closed {
        from: Timestamp,
        until: Timestamp,
        window: usize,
    },
    /// The calendar never opens again.
    Never { from: Timestamp },
}

impl Stretch {
    /// The first open instant from `now` on, and the window that is open then. `now` must be in the period.
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

/// The last requested period. Clones of a calendar share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Last(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    stretch: Option<Stretch>,
    /// Number of searches, for tests.
    searches: u64,
}

impl Last {
    /// The period that contains `now`: the cached one, or the result of `search`. Concurrent callers wait for the
    /// search.
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
