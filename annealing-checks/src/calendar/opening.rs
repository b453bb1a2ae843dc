//! When a calendar is open: the exact answer to "when next?".

use jiff::{Span, Timestamp, civil::Date};

use super::{check::Calendar, civil::day, window::Window};

/// After so many years every calendar of the Gregorian kind repeats.
const CYCLE_YEARS: i16 = 400;

/// The next time a calendar is open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// From when. The time asked about, if it is open then.
    pub at: Timestamp,
    /// Which window, such as `Fri 18:00-04:00`.
    pub window: String,
}

impl Calendar {
    /// Whether pushes may start at `at`.
    pub fn is_open(&self, at: Timestamp) -> bool {
        self.next_open(at) == Some(at)
    }

    /// The first instant from `from` on at which pushes may start. `None` when there is none, ever.
    pub fn next_open(&self, from: Timestamp) -> Option<Timestamp> {
        self.next(from).map(|(at, _)| at)
    }

    /// As [`Calendar::next_open`], with the window that opens.
    pub fn next_opening(&self, from: Timestamp) -> Option<Opening> {
        self.next(from).map(|(at, window)| Opening {
            at,
            window: window.to_string(),
        })
    }

    fn next(&self, from: Timestamp) -> Option<(Timestamp, &Window)> {
        let today = day(&self.zone, from);
        let horizon = self.last_dated.map_or(today, |last| last.max(today));
        let horizon = horizon
            .checked_add(Span::new().years(CYCLE_YEARS))
            .unwrap_or(Date::MAX);
        // A window of yesterday may run into today.
        let mut date = today.yesterday().unwrap_or(today);
        // Windows are tried in the order they open, so the first that has an instant left has the earliest one.
        loop {
            let fits = |window: &Window| self.opens_on(window, date, from);
            let found = self.windows.iter().find_map(|window| {
                let at = fits(window)?;
                Some((at, window))
            });
            match (found, date.tomorrow()) {
                (Some(found), _) => return Some(found),
                (None, Ok(next)) if next <= horizon => date = next,
                (None, _) => return None,
            }
        }
    }

    /// The first open instant from `from` on of the window that opens on `date`.
    fn opens_on(&self, window: &Window, date: Date, from: Timestamp) -> Option<Timestamp> {
        let (opens, closes) = window.on(date, &self.zone)?;
        if closes <= from || self.holidays.on(date).is_some() {
            return None;
        }
        let at = self.thawed(opens.max(from));
        (at < closes).then_some(at)
    }

    /// The first instant from `at` on that is in no freeze. Freezes are sorted by their start, so one pass is enough.
    fn thawed(&self, at: Timestamp) -> Timestamp {
        self.freezes.iter().fold(at, |at, freeze| {
            if freeze.from <= at && at < freeze.until {
                freeze.until
            } else {
                at
            }
        })
    }
}
