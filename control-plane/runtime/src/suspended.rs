//! How long the machine was suspended. Timers and tokio's clock stand still meanwhile; leases must not.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A clock that counts suspended time and one that does not, read in this order.
pub(crate) type Clocks = Arc<dyn Fn() -> [Duration; 2] + Send + Sync>;

/// The time suspended since it was made.
#[derive(Clone)]
pub(crate) struct Suspended {
    clocks: Clocks,
    at_start: Duration,
    /// In nanoseconds; never goes back.
    counted: Arc<AtomicU64>,
}

impl Suspended {
    /// Counts from now on, by `clocks`.
    pub(crate) fn since_now(clocks: Clocks) -> Self {
        // Time passes between two readings. Here the clock that counts more is read last, in `read` first: the difference
        // is too large at the start and too small later, so time that was not suspended is never counted.
        let [_, without] = clocks();
        let [with, _] = clocks();
        Self {
            clocks,
            at_start: with.saturating_sub(without),
            counted: Arc::default(),
        }
    }

    /// How long it was until now.
    pub(crate) fn read(&self) -> Duration {
        let [with, without] = (self.clocks)();
        let suspended = with.saturating_sub(without).saturating_sub(self.at_start);
        let nanos = u64::try_from(suspended.as_nanos()).unwrap_or(u64::MAX);
        let before = self.counted.fetch_max(nanos, Ordering::Relaxed);
        Duration::from_nanos(nanos.max(before))
    }
}

impl fmt::Debug for Suspended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suspended")
            .field("counted", &self.counted)
            .finish_non_exhaustive()
    }
}

/// The machine's clocks: `CLOCK_BOOTTIME` and `CLOCK_MONOTONIC`.
#[cfg(target_os = "linux")]
pub(crate) fn of_the_machine() -> Clocks {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    Arc::new(move || [read(ClockId::Boottime), read(ClockId::Monotonic)])
}

/// Elsewhere no clock says it: the time suspended counts as none.
#[cfg(not(target_os = "linux"))]
pub(crate) fn of_the_machine() -> Clocks {
    Arc::new(|| [Duration::ZERO; 2])
}
