//! Conversions between the monotonic clock and the wall clock, by what both show now.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{Mono, Now};

/// Returns the time from now until `then` on the wall clock; zero if it has passed.
pub(super) fn until(now: Now, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now.wall)).unwrap_or(Duration::ZERO)
}

/// Returns the wall-clock time at which the monotonic clock showed `then`, by the present wall clock.
pub(super) fn wall_then(now: Now, then: Mono) -> Timestamp {
    now.wall
        .checked_sub(now.mono.since(then))
        .unwrap_or(Timestamp::MIN)
}

/// Returns the wall-clock time at which the monotonic clock will show `then`.
pub(super) fn wall_at(now: Now, then: Mono) -> Timestamp {
    now.wall
        .checked_add(then.since(now.mono))
        .unwrap_or(Timestamp::MAX)
}
