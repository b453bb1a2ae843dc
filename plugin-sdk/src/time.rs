//! Time as it is handed in: a monotonic reading for durations, a wall clock for calendars.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A reading of a monotonic clock: nanoseconds since an arbitrary start of this process. Never goes back.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Mono(pub u64);

impl Mono {
    /// The time from `earlier` to this, zero if `earlier` is later.
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

/// One reading of both clocks. Durations and deadlines use `mono`; calendars and records use `wall`, which may jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock.
    pub mono: Mono,
    /// The wall clock.
    pub wall: Timestamp,
}
