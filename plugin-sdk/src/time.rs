//! Time that callers pass in: a monotonic reading for durations, a wall clock for calendars.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A reading of a monotonic clock: nanoseconds since an arbitrary start in this process. It never goes back.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Mono(pub u64);

impl Mono {
    /// Time from `earlier` to `self`. Zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl Sub<Duration> for Mono {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

/// One reading of both clocks. Use `mono` for durations and deadlines; use `wall`, which may jump, for calendars and
/// records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Reading of the monotonic clock.
    pub mono: Mono,
    /// Reading of the wall clock.
    pub wall: Timestamp,
}
