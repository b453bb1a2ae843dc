//! The clock that bakes are measured by: it starts at the wall clock's time and advances with the monotonic clock, so
//! that jumps of the wall clock neither end a bake nor prolong it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{Mono, Now};

/// A reading of both clocks, from which time is counted.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernel) struct BakeClock(Now);

impl BakeClock {
    pub(in crate::kernel) fn new(now: Now) -> Self {
        Self(now)
    }

    /// Returns the time on this clock.
    pub(in crate::kernel) fn at(self, now: Now) -> Timestamp {
        let gone = SignedDuration::try_from(now.mono.since(self.0.mono));
        let at = gone
            .ok()
            .and_then(|gone| self.0.wall.checked_add(gone).ok());
        at.unwrap_or(Timestamp::MAX)
    }

    /// Converts `at` on this clock to the wall clock as it goes `now`, which production's signals follow.
    pub(in crate::kernel) fn to_wall(self, now: Now, at: Timestamp) -> Timestamp {
        let ago = self.at(now).duration_since(at);
        now.wall.checked_sub(ago).unwrap_or(Timestamp::MIN)
    }

    /// Converts `wall` on the wall clock as it goes `now` to this clock.
    pub(in crate::kernel) fn to_bake(self, now: Now, wall: Timestamp) -> Timestamp {
        let ago = now.wall.duration_since(wall);
        self.at(now).checked_sub(ago).unwrap_or(Timestamp::MIN)
    }

    /// Returns the monotonic time of `time` on this clock; now, if `time` has passed.
    pub(in crate::kernel) fn when(self, now: Now, time: Timestamp) -> Mono {
        let wait = time.duration_since(self.at(now));
        now.mono + Duration::try_from(wait).unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_jumps_changes_nothing() {
        let wall = Timestamp::UNIX_EPOCH;
        let start = Now {
            mono: Mono(0),
            wall,
        };
        let clock = BakeClock::new(start);
        let later = Now {
            mono: Mono(0) + Duration::from_secs(5),
            wall: wall + Duration::from_secs(3600),
        };
        assert_eq!(clock.at(later), wall + Duration::from_secs(5));
        let due = wall + Duration::from_secs(7);
        assert_eq!(clock.when(later, due), Mono(0) + Duration::from_secs(7));
        assert_eq!(clock.when(later, wall), later.mono);
        let (settled, seen) = (
            wall + Duration::from_secs(2),
            later.wall - Duration::from_secs(3),
        );
        assert_eq!(clock.to_wall(later, settled), seen, "three seconds ago");
        assert_eq!(clock.to_bake(later, seen), settled);
    }
}
