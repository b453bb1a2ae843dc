//! Computes exactly when a calendar is open and opens next, without walking through freezes day by day.

use jiff::{
    Span, Timestamp,
    civil::{Date, DateTime},
};

use super::{
    check::Calendar,
    civil::{day, first_instant, shown_until},
    stretch::Stretch,
    window::Window,
};

/// Number of years after which the Gregorian calendar repeats.
const CYCLE_YEARS: i16 = 400;

/// The next time at which a calendar is open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// Start of the open time. It is the requested time if the calendar is open then.
    pub at: Timestamp,
    /// The window that is open, such as `Fri 18:00-04:00`.
    pub window: String,
}

/// A period in which a window is open.
struct Offer {
    at: Timestamp,
    until: Timestamp,
    /// Index of the window in the calendar.
    window: usize,
}

/// The result of examining the windows of one day.
enum Day {
    Opens(Offer),
    Closed,
    /// A freeze without an end covers this day and all later days.
    Frozen,
}

impl Calendar {
    /// Whether the calendar is open, so that pushes may start at `at`.
    pub fn is_open(&self, at: Timestamp) -> bool {
        matches!(self.stretch(at), Stretch::Open { .. })
    }

    /// The first instant from `from` on at which the calendar is open. `None`: it never opens again.
    pub fn next_open(&self, from: Timestamp) -> Option<Timestamp> {
        self.stretch(from).next_open(from).map(|(at, _)| at)
    }

    /// As [`Calendar::next_open`], with the window that is open then.
    pub fn next_opening(&self, from: Timestamp) -> Option<Opening> {
        let (at, window) = self.stretch(from).next_open(from)?;
        let window = self.windows.get(window)?.to_string();
        Some(Opening { at, window })
    }

    /// The period that contains `at`, remembered until it ends.
    fn stretch(&self, at: Timestamp) -> Stretch {
        self.last.at(at, || self.search(at).0)
    }

    /// The period from `from` on, and the number of days that were examined to find it.
    pub(super) fn search(&self, from: Timestamp) -> (Stretch, u32) {
        let mut days = 0;
        let stretch = match self.first_offer(from, &mut days) {
            None => Stretch::Never { from },
            Some(Offer { at, window, .. }) if at > from => Stretch::Closed {
                from,
                until: at,
                window,
            },
            Some(Offer { until, window, .. }) => Stretch::Open {
                from,
                until,
                window,
            },
        };
        (stretch, days)
    }

    fn first_offer(&self, from: Timestamp, days: &mut u32) -> Option<Offer> {
        let mut from = self.freezes.thawed(from)?;
        let mut date = self.first_day(from);
        let horizon = self.last_dated.map_or(date, |last| last.max(date));
        let horizon = horizon.checked_add(Span::new().years(CYCLE_YEARS));
        let horizon = horizon.unwrap_or(Date::MAX);
        while date <= horizon {
            *days += 1;
            match self.look_at(date, &mut from) {
                Day::Opens(offer) => return Some(offer),
                Day::Frozen => return None,
                Day::Closed => {}
            }
            date = date.tomorrow().ok()?.max(self.first_day(from));
        }
        None
    }

    /// The first day whose windows may be open at `from`. It is the day before, whose windows may continue past
    /// midnight.
    fn first_day(&self, from: Timestamp) -> Date {
        let today = day(&self.zone, from);
        today.yesterday().unwrap_or(today)
    }

    /// Examines the windows that open on `date`, from `from` on. Moves `from` to the end of a freeze that covers the
    /// rest of one of them.
    fn look_at(&self, date: Date, from: &mut Timestamp) -> Day {
        if self.holidays.on(date).is_some() {
            return Day::Closed;
        }
        // Windows are tried in the order in which they open, so the first one with time left is open first.
        for (place, window) in self.windows.iter().enumerate() {
            let Some((opens, closes)) = self.instants(window, date) else {
                continue;
            };
            if closes <= *from {
                continue;
            }
            let Some(at) = self.freezes.thawed(opens.max(*from)) else {
                return Day::Frozen;
            };
            if at < closes {
                let freezes = self.freezes.next_after(at);
                return Day::Opens(Offer {
                    at,
                    until: freezes.map_or(closes, |next| next.min(closes)),
                    window: place,
                });
            }
            // Frozen until the window closes. Windows that open later are not open before the freeze ends either.
            *from = at;
        }
        Day::Closed
    }

    /// The instants at which `window` opens and closes if it opens on `date`. `None`: it does not open on that day.
    fn instants(&self, window: &Window, date: Date) -> Option<(Timestamp, Timestamp)> {
        let (opens, closes) = window.on(date)?;
        let first = first_instant(&self.zone, opens);
        // Between the two instants the zone's clock repeats the time before `opens`. That time is open only if another
        // window closes at `opens`, so that both form one open period.
        let repeats_from = shown_until(&self.zone, opens);
        let goes_on = repeats_from < first && self.closes_at(opens);
        let opens = if goes_on { repeats_from } else { first };
        Some((opens, shown_until(&self.zone, closes)))
    }

    /// Whether a window closes when the zone's clock shows `at`.
    fn closes_at(&self, at: DateTime) -> bool {
        let day_before = at.date().yesterday().ok();
        let mut dates = day_before.into_iter().chain([at.date()]);
        dates.any(|date| {
            let closes = |window: &Window| window.on(date).is_some_and(|(_, closes)| closes == at);
            self.holidays.on(date).is_none() && self.windows.iter().any(closes)
        })
    }
}
