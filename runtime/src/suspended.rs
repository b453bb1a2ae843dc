//! Measures for how long the machine was suspended. Timers and tokio's clock stop during suspension; leases must not.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Reads a clock that includes suspended time, then one that does not.
pub(crate) type Clocks = Arc<dyn Fn() -> [Duration; 2] + Send + Sync>;

/// The suspended time since this value was created.
#[derive(Clone)]
pub(crate) struct Suspended {
    clocks: Clocks,
    at_start: Duration,
    /// Suspended time in nanoseconds; never decreases.
    counted: Arc<AtomicU64>,
}

impl Suspended {
    /// Starts counting now, with `clocks`.
    pub(crate) fn since_now(clocks: Clocks) -> Self {
        // Time passes between two readings. Here the clock that includes suspension is read last, in `read` it is read
        // first. So the difference is too large at the start and too small later, and time awake is never counted as
        // suspended.
        let [_, without] = clocks();
        let [with, _] = clocks();
        Self {
            clocks,
            at_start: with.saturating_sub(without),
            counted: Arc::default(),
        }
    }

    /// Returns the suspended time until now.
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

/// The clocks of the machine: `CLOCK_BOOTTIME` and `CLOCK_MONOTONIC`.
#[cfg(target_os = "linux")]
pub(crate) fn of_the_machine() -> Clocks {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| Duration::try_from(clock_gettime(clock)).unwrap_or_default();
    Arc::new(move || [read(ClockId::Boottime), read(ClockId::Monotonic)])
}

/// No clock outside Linux reports suspended time, so it counts as zero.
#[cfg(not(target_os = "linux"))]
pub(crate) fn of_the_machine() -> Clocks {
    Arc::new(|| [Duration::ZERO; 2])
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// Time since the machine started, suspended time included.
    fn uptime() -> f64 {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        uptime.split(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn s5_clock_with_suspended_time_covers_the_uptime_of_the_machine() {
        // A container may show an uptime of its own, which is less.
        let uptime = uptime();
        let clocks = of_the_machine();
        let [_, without] = clocks();
        let [with, _] = clocks();
        let (with, without) = (with.as_secs_f64(), without.as_secs_f64());
        assert!(with >= uptime - 1.0, "{with} is below {uptime}");
        assert!(0.0 < without && without <= with, "{without} and {with}");
    }
}
