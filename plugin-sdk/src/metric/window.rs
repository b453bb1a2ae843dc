//! Windows of time: closed, of one length, and on the grid of the epoch, so that all who look at them see the same values.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Windows of one length, one after the other. Their ends are multiples of the length since the epoch.
///
/// ```
/// use std::time::Duration;
/// use plugin_sdk::Windows;
///
/// let now = "2026-11-24T14:02:10Z".parse()?;
/// let windows = Windows::closed(Duration::from_secs(60), Duration::from_secs(15), now).many(3);
/// let ends: Vec<String> = windows.ends().map(|end| end.to_string()).collect();
/// // The last one has ended at least 15 s ago.
/// assert_eq!(ends, ["2026-11-24T13:59:00Z", "2026-11-24T14:00:00Z", "2026-11-24T14:01:00Z"]);
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Windows {
    /// The end of the last window.
    pub last: Timestamp,
    /// The length of each window, in whole seconds, at least 1 s.
    pub length: Duration,
    /// Number of windows, at least 1.
    pub count: u32,
}

impl Windows {
    /// Time after the end of a window at which it is read. Samples arrive late.
    pub const SETTLE: Duration = Duration::from_secs(15);

    /// The newest window of this length that has ended at least `settle` ago. `length` is rounded down to whole seconds,
    /// and is at least 1 s.
    pub fn closed(length: Duration, settle: Duration, now: Timestamp) -> Self {
        let seconds = length.as_secs().max(1);
        let grid = i64::try_from(seconds).unwrap_or(i64::MAX);
        let settled = SignedDuration::try_from(settle).unwrap_or(SignedDuration::MAX);
        let then = now.saturating_sub(settled).unwrap_or(Timestamp::MIN);
        let at = then.as_second().div_euclid(grid).saturating_mul(grid);
        Self {
            last: Timestamp::from_second(at).unwrap_or(Timestamp::MIN),
            length: Duration::from_secs(seconds),
            count: 1,
        }
    }

    /// The last window, and those before it: `count` in all, at least 1.
    #[must_use]
    pub fn many(mut self, count: u32) -> Self {
        self.count = count.max(1);
        self
    }

    /// The start of the first window.
    pub fn start(&self) -> Timestamp {
        let length = SignedDuration::try_from(self.length).unwrap_or(SignedDuration::MAX);
        self.first()
            .saturating_sub(length)
            .unwrap_or(Timestamp::MIN)
    }

    /// The end of the first window.
    pub fn first(&self) -> Timestamp {
        let before = self.length.saturating_mul(self.count.saturating_sub(1));
        let before = SignedDuration::try_from(before).unwrap_or(SignedDuration::MAX);
        self.last.saturating_sub(before).unwrap_or(Timestamp::MIN)
    }

    /// The ends of all windows, the first one first.
    pub fn ends(&self) -> impl Iterator<Item = Timestamp> {
        let (first, length) = (self.first(), self.length);
        (0..self.count).filter_map(move |nth| first.checked_add(length * nth).ok())
    }

    /// Whether a time is the end of one of the windows.
    pub fn has(&self, end: Timestamp) -> bool {
        let length = i64::try_from(self.length.as_secs()).unwrap_or(i64::MAX);
        let is_within = (self.first()..=self.last).contains(&end);
        let after = end.duration_since(self.first());
        is_within && after.subsec_nanos() == 0 && after.as_secs() % length.max(1) == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// All readers within one window read the same windows, and none of these is open.
        #[test]
        fn r105_windows_lie_on_the_grid_and_are_closed(
            at in -1_000_000_000i64..4_000_000_000,
            length in 1u64..100_000,
            settle in 0u64..1_000,
            count in 1u32..50,
        ) {
            let (of, settle) = (Duration::from_secs(length), Duration::from_secs(settle));
            let now = Timestamp::from_second(at).unwrap();
            let windows = Windows::closed(of, settle, now).many(count);
            prop_assert_eq!(windows.start() + of, windows.first());
            prop_assert!(windows.last + settle <= now);
            prop_assert!(windows.last + settle + of > now);
            prop_assert_eq!(windows.last.as_second().rem_euclid(length as i64), 0);
            let ends: Vec<Timestamp> = windows.ends().collect();
            prop_assert_eq!(ends.len(), count as usize);
            prop_assert_eq!(ends.last(), Some(&windows.last));
            prop_assert!(ends.iter().all(|end| windows.has(*end)));
            prop_assert!(!windows.has(windows.last + of));
            prop_assert!(!windows.has(windows.first() - of));
            prop_assert_eq!(windows.has(windows.last - Duration::from_secs(1)), length == 1 && count > 1);
        }
    }
}
