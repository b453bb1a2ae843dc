//! When a calendar is open: the exact answer to "when next?", found without walking through freezes.

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

/// A stretch of time in which a window is open.
struct Offer {
    at: Timestamp,
    until: Timestamp,
    /// Which window, by its place in the calendar.
    window: usize,
}

/// What the windows of one day offer.
enum Day {
    Opens(Offer),
    Closed,
    /// A freeze without an end covers this day and all later ones.
    Frozen,
}

impl Calendar {
    /// Whether pushes may start at `at`.
    pub fn is_open(&self, at: Timestamp) -> bool {
        matches!(self.stretch(at), Stretch::Open { .. })
    }

    /// The first instant from `from` on at which pushes may start. `None` when there is none, ever.
    pub fn next_open(&self, from: Timestamp) -> Option<Timestamp> {
        self.stretch(from).next_open(from).map(|(at, _)| at)
    }

    /// As [`Calendar::next_open`], with the window that opens.
    pub fn next_opening(&self, from: Timestamp) -> Option<Opening> {
        let (at, window) = self.stretch(from).next_open(from)?;
        let window = self.windows.get(window)?.to_string();
        Some(Opening { at, window })
    }

    /// What holds at `at`. Remembered for as long as it holds.
    fn stretch(&self, at: Timestamp) -> Stretch {
        self.last.at(at, || self.search(at).0)
    }

    /// What holds at `from` and for how long, and the number of days looked at to find out.
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

    /// The first day whose windows may be open at `from`: a window of the day before may run over.
    fn first_day(&self, from: Timestamp) -> Date {
        let today = day(&self.zone, from);
        today.yesterday().unwrap_or(today)
    }

    /// What the windows that open on `date` offer from `from` on. Moves `from` to the end of a freeze that covers the
    /// rest of one of them.
    fn look_at(&self, date: Date, from: &mut Timestamp) -> Day {
        if self.holidays.on(date).is_some() {
            return Day::Closed;
        }
        // Windows are tried in the order they open, so the first that has an instant left has the earliest one.
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
            // Frozen until it closes and beyond. What opens later is not open before the freeze ends either.
            *from = at;
        }
        Day::Closed
    }

    /// When `window` opens and closes, if it opens on `date`.
    fn instants(&self, window: &Window, date: Date) -> Option<(Timestamp, Timestamp)> {
        let (opens, closes) = window.on(date)?;
        let first = first_instant(&self.zone, opens);
        // Between the two the zone's clock repeats the time before `opens`. That is open only as the middle of something.
        let repeats_from = shown_until(&self.zone, opens);
        let goes_on = repeats_from < first && self.closes_at(opens);
        let opens = if goes_on { repeats_from } else { first };
        Some((opens, shown_until(&self.zone, closes)))
    }

    /// Whether a window closes just when the zone's clock shows `at`.
    fn closes_at(&self, at: DateTime) -> bool {
        let day_before = at.date().yesterday().ok();
        let mut dates = day_before.into_iter().chain([at.date()]);
        dates.any(|date| {
            let closes = |window: &Window| window.on(date).is_some_and(|(_, closes)| closes == at);
            self.holidays.on(date).is_none() && self.windows.iter().any(closes)
        })
    }
}
