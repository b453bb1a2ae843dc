//! Time that jumps of the wall clock do not change: a clock for one owner, and waits that continue under the next one.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{Mono, Now};
use serde::{Deserialize, Serialize};

/// A clock that starts at the wall clock's time and advances with the monotonic clock. One owner measures waits by it, so
/// that jumps of the wall clock neither end a wait nor prolong it.
///
/// ```
/// use std::time::Duration;
///
/// use control_plane_runtime::Steady;
/// use jiff::Timestamp;
/// use plugin_sdk::{Mono, Now};
///
/// let start = Now { mono: Mono(0), wall: Timestamp::UNIX_EPOCH };
/// let clock = Steady::new(start);
/// let due = clock.at(start) + Duration::from_secs(60);
///
/// // Ten seconds later the wall clock shows a day more.
/// let later = Now { mono: start.mono + Duration::from_secs(10), wall: start.wall + Duration::from_secs(86_400) };
/// assert_eq!(clock.when(later, due), start.mono + Duration::from_secs(60));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Steady(Now);

impl Steady {
    /// A clock that shows the wall clock's time `now`.
    pub fn new(now: Now) -> Self {
        Self(now)
    }

    /// Returns the time on this clock.
    pub fn at(self, now: Now) -> Timestamp {
        let gone = SignedDuration::try_from(now.mono.since(self.0.mono));
        let at = gone
            .ok()
            .and_then(|gone| self.0.wall.checked_add(gone).ok());
        at.unwrap_or(Timestamp::MAX)
    }

    /// Converts `at` on this clock to the wall clock as it goes `now`, which production's signals follow.
    pub fn to_wall(self, now: Now, at: Timestamp) -> Timestamp {
        earlier(now.wall, self.at(now).duration_since(at))
    }

    /// Converts `wall` on the wall clock as it goes `now` to this clock.
    pub fn from_wall(self, now: Now, wall: Timestamp) -> Timestamp {
        earlier(self.at(now), now.wall.duration_since(wall))
    }

    /// Returns the monotonic time of `time` on this clock; now, if `time` has passed.
    pub fn when(self, now: Now, time: Timestamp) -> Mono {
        let wait = time.duration_since(self.at(now));
        now.mono + Duration::try_from(wait).unwrap_or(Duration::ZERO)
    }
}

/// Returns the time `ago` before `at`, within the range of timestamps.
fn earlier(at: Timestamp, ago: SignedDuration) -> Timestamp {
    let end = if ago.is_negative() {
        Timestamp::MAX
    } else {
        Timestamp::MIN
    };
    at.checked_sub(ago).unwrap_or(end)
}

/// A wait as it is stored, so that the next owner continues it. The time without an owner counts as far as the wall clocks
/// of both owners agree; a wall clock that jumped never prolongs the wait.
///
/// The owner stores the wait when it begins, and measures it on the monotonic clock. The more often it stores what is
/// left, the less a wall clock that goes back costs.
///
/// ```
/// use std::time::Duration;
///
/// use control_plane_runtime::StoredWait;
/// use jiff::Timestamp;
/// use plugin_sdk::{Mono, Now};
///
/// let start = Now { mono: Mono(0), wall: Timestamp::UNIX_EPOCH };
/// let hour = Duration::from_secs(3600);
/// let stored = StoredWait::new(start, hour);
///
/// // The next owner, in another process with another monotonic clock, takes over ten minutes later.
/// let after = |wall| Now { mono: Mono(7), wall };
/// let ten_minutes = Duration::from_secs(600);
/// assert_eq!(stored.remaining(after(start.wall + ten_minutes)), hour - ten_minutes);
/// // Its wall clock is a day behind: the wait starts over, and is no longer than that.
/// assert_eq!(stored.remaining(after(start.wall - hour * 24)), hour);
/// assert_eq!(stored.ends_at(after(start.wall + hour * 2)), Mono(7));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredWait {
    /// End of the wait on the wall clock of the owner that stored it.
    due: Timestamp,
    /// What was left when it was stored.
    remaining: Duration,
}

impl StoredWait {
    /// A wait of which `remaining` is left `now`.
    pub fn new(now: Now, remaining: Duration) -> Self {
        let due = now.wall.checked_add(remaining).unwrap_or(Timestamp::MAX);
        Self { due, remaining }
    }

    /// End of the wait on the wall clock of the owner that stored it, to show it to people.
    pub fn due(&self) -> Timestamp {
        self.due
    }

    /// Returns what is left at `now`, when an owner takes over: the time until it is due, at most what was stored.
    pub fn remaining(&self, now: Now) -> Duration {
        let left = self.due.duration_since(now.wall);
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        left.min(self.remaining)
    }

    /// Returns when the wait ends on the monotonic clock of the owner that takes over at `now`.
    pub fn ends_at(&self, now: Now) -> Mono {
        now.mono + self.remaining(now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn a_wall_clock_that_jumps_changes_nothing() {
        let start = Now {
            mono: Mono(0),
            wall: START,
        };
        let clock = Steady::new(start);
        let later = Now {
            mono: Mono(0) + Duration::from_secs(5),
            wall: START + Duration::from_secs(3600),
        };
        assert_eq!(clock.at(later), START + Duration::from_secs(5));
        let due = START + Duration::from_secs(7);
        assert_eq!(clock.when(later, due), Mono(0) + Duration::from_secs(7));
        assert_eq!(clock.when(later, START), later.mono);
        let (settled, seen) = (
            START + Duration::from_secs(2),
            later.wall - Duration::from_secs(3),
        );
        assert_eq!(clock.to_wall(later, settled), seen, "three seconds ago");
        assert_eq!(clock.from_wall(later, seen), settled);
    }

    #[test]
    fn end_of_time_stays_there_on_a_clock_that_is_ahead_of_the_wall() {
        let start = Now {
            mono: Mono(0),
            wall: Timestamp::UNIX_EPOCH,
        };
        let clock = Steady::new(start);
        for (mono, wall) in [
            (Mono(1), start.wall),
            (Mono(0), start.wall + Duration::from_nanos(1)),
        ] {
            let now = Now { mono, wall };
            for end in [Timestamp::MIN, Timestamp::MAX] {
                let far =
                    |at: Timestamp| at.duration_since(end).abs() > SignedDuration::from_secs(1);
                assert!(!far(clock.from_wall(now, end)) && !far(clock.to_wall(now, end)));
            }
        }
    }

    /// One owner: how long it lives, how long no owner follows, and how far its wall clock is off.
    #[derive(Debug, Clone)]
    struct Owner {
        lives: Duration,
        gone: Duration,
        off: SignedDuration,
        /// Time between two records of what is left.
        stores_every: Duration,
    }

    fn seconds(most: u64) -> impl Strategy<Value = Duration> {
        (0..=most).prop_map(Duration::from_secs)
    }

    fn owner(off: i64) -> impl Strategy<Value = Owner> {
        let off = (-off..=off).prop_map(SignedDuration::from_secs);
        let stores_every = (1_u64..100).prop_map(Duration::from_secs);
        (seconds(200), seconds(200), off, stores_every).prop_map(
            |(lives, gone, off, stores_every)| Owner {
                lives,
                gone,
                off,
                stores_every,
            },
        )
    }

    /// The true time at which a wait ends that begins under the first owner, and the time that was lost: without an owner,
    /// or after the last record before a death.
    fn play(wait: Duration, owners: &[Owner]) -> (Duration, Duration) {
        let (mut truth, mut lost) = (Duration::ZERO, Duration::ZERO);
        let mut stored: Option<StoredWait> = None;
        for (nth, owner) in owners.iter().enumerate() {
            // Each process counts its monotonic clock from another start.
            let reads = |truth: Duration| Now {
                mono: Mono(nth as u64 * 1_000_000_000) + truth,
                wall: START + SignedDuration::from_secs(1_000_000) + owner.off + truth,
            };
            let begin = truth;
            let mut remaining = stored.map_or(wait, |stored| stored.remaining(reads(begin)));
            stored = Some(StoredWait::new(reads(begin), remaining));
            let is_last = nth + 1 == owners.len();
            while remaining > Duration::ZERO {
                let lives = match is_last {
                    true => Duration::MAX,
                    false => owner.lives - (truth - begin),
                };
                let step = owner.stores_every.min(remaining);
                if lives < step {
                    (truth, lost) = (truth + lives, lost + lives);
                    break;
                }
                (truth, remaining) = (truth + step, remaining - step);
                stored = Some(StoredWait::new(reads(truth), remaining));
            }
            if remaining.is_zero() {
                return (truth, lost);
            }
            (truth, lost) = (truth + owner.gone, lost + owner.gone);
        }
        unreachable!("the last owner lives until the wait is over")
    }

    proptest! {
        #[test]
        fn r27_wall_clock_that_jumped_never_prolongs_a_wait(
            wait in seconds(1_000),
            owners in prop::collection::vec(owner(100_000), 1..6),
        ) {
            let (took, lost) = play(wait, &owners);
            prop_assert!(took <= wait + lost, "{took:?}, {lost:?} of it lost");
        }

        #[test]
        fn r27_wait_is_not_shorter_than_asked_for_while_wall_clocks_agree(
            wait in seconds(1_000),
            owners in prop::collection::vec(owner(0), 1..6),
        ) {
            let (took, _) = play(wait, &owners);
            prop_assert!(took >= wait, "{took:?}");
            let over = owners.iter().map(|owner| owner.gone).max().unwrap_or_default();
            prop_assert!(took <= wait + over, "{took:?}");
        }

        #[test]
        fn r27_wait_is_not_shorter_than_what_its_one_owner_measured(
            wait in seconds(1_000),
            owner in owner(100_000),
            jump in -100_000_i64..100_000,
        ) {
            let start = Now { mono: Mono(5), wall: START + owner.off };
            let clock = Steady::new(start);
            let due = clock.at(start) + wait;
            let passed = owner.lives;
            let wall = start.wall + passed + SignedDuration::from_secs(jump);
            let now = Now { mono: start.mono + passed, wall };
            prop_assert_eq!(clock.when(now, due), start.mono + wait.max(passed));
        }

        #[test]
        fn steady_and_wall_times_convert_both_ways(
            passed in seconds(100_000),
            jump in -100_000_i64..100_000,
            then in seconds(100_000),
        ) {
            let start = Now { mono: Mono(5), wall: START };
            let clock = Steady::new(start);
            let wall = START + passed + SignedDuration::from_secs(jump);
            let now = Now { mono: start.mono + passed, wall };
            let at = START + then;
            prop_assert_eq!(clock.from_wall(now, clock.to_wall(now, at)), at);
        }
    }
}
