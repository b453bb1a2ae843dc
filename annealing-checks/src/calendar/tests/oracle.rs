//! Comparison of calendars with an oracle that follows the clock minute by minute.

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, DateTime, date},
    tz::TimeZone,
};
use proptest::prelude::*;

use crate::calendar::Calendar;

const ZONES: [&str; 10] = [
    "America/New_York",
    "America/Los_Angeles",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Europe/London",
    "Africa/Cairo",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
];

/// A window in the form of the oracle: the day of the week from Monday, and minutes of the day.
#[derive(Debug, Clone, Copy)]
struct Plain {
    day: i8,
    opens: i64,
    closes: i64,
}

impl Plain {
    fn text(&self) -> String {
        let day = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][usize::from(self.day as u8)];
        let clock = |minutes: i64| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        format!("{day} {}-{}", clock(self.opens), clock(self.closes))
    }

    fn ends(&self, date: Date) -> (DateTime, DateTime) {
        let midnight = date.at(0, 0, 0, 0);
        let closes = self.closes + if self.closes <= self.opens { 1440 } else { 0 };
        (midnight + self.opens.minutes(), midnight + closes.minutes())
    }
}

/// Follows the clock of a zone minute by minute. Events stay in effect when the clock goes back.
struct Oracle<'a> {
    zone: &'a TimeZone,
    windows: &'a [Plain],
    holiday: Date,
    freeze: (DateTime, DateTime),
    /// The latest time that the clock has shown so far.
    latest: Option<DateTime>,
    frozen: (bool, bool),
}

impl Oracle<'_> {
    /// Whether the calendar is open at `at`. Must be called for each minute in turn.
    fn minute(&mut self, at: Timestamp) -> bool {
        let shown = self.zone.to_datetime(at);
        self.frozen.0 |= shown >= self.freeze.0;
        self.frozen.1 |= shown >= self.freeze.1;
        let before = self
            .latest
            .replace(self.latest.map_or(shown, |latest| latest.max(shown)));
        let open = match before {
            // A repeated time is open only in the middle of an open period.
            Some(latest) if shown <= latest => {
                self.covered(latest) && self.covered(latest + 1.minute())
            }
            _ => self.covered(shown),
        };
        open && (self.frozen.1 || !self.frozen.0)
    }

    /// Whether a window contains the local minute `shown`.
    fn covered(&self, shown: DateTime) -> bool {
        let opened_on = |back: i64| shown.date() - back.days();
        (0..3).map(opened_on).any(|date| {
            let holds = |window: &Plain| {
                let (opens, closes) = window.ends(date);
                let day = date.weekday().to_monday_zero_offset();
                day == window.day && opens <= shown && shown < closes
            };
            date != self.holiday && self.windows.iter().any(holds)
        })
    }
}

fn plain() -> impl Strategy<Value = Plain> {
    let minute = prop_oneof![
        0..240i64,
        0..1440i64,
        Just(0),
        Just(60),
        Just(90),
        Just(120),
        Just(150),
        Just(180),
        Just(1380)
    ];
    (0..7i8, minute.clone(), minute).prop_map(|(day, opens, closes)| Plain { day, opens, closes })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn next_open_is_exact_against_a_minute_by_minute_oracle(
        zone in prop::sample::select(&ZONES[..]),
        year in 1975..2037i16,
        nth in 0..2usize,
        windows in prop::collection::vec(plain(), 1..12),
        before in 0..2880i64,
        holiday in 0..5i64,
        (frozen_from, frozen_for) in (0..7200i64, 0..2000i64),
    ) {
        let zone_name = zone;
        let zone = TimeZone::get(zone_name).unwrap();
        // Start near a transition, if there is one, because that is the difficult case: one is a gap, the other a
        // repeated hour.
        let new_year = date(year, 1, 1).to_zoned(zone.clone()).unwrap().timestamp();
        let near = zone.following(new_year).nth(nth).map_or(new_year, |next| next.timestamp());
        let near = near - (near.as_second().rem_euclid(60)).seconds();
        let start = near - before.minutes() - 72.hours();
        let first_day = zone.to_datetime(start);
        let freeze_from = first_day + frozen_from.minutes();
        let freeze = (freeze_from, freeze_from + frozen_for.minutes());
        let holiday = first_day.date() + (3 + holiday).days();
        let mut builder = Calendar::builder(zone_name)
            .holiday(holiday, "a holiday")
            .freeze(freeze.0, freeze.1, "a freeze");
        for window in &windows {
            builder = builder.weekly(&window.text());
        }
        let calendar = builder.build().unwrap();
        let mut oracle = Oracle {
            zone: &zone,
            windows: &windows,
            holiday,
            freeze,
            latest: None,
            frozen: (false, false),
        };
        // The first three days show the oracle everything that could still be open.
        let open: Vec<(Timestamp, bool)> = (0..7 * 1440i64)
            .map(|minute| start + (minute * 60).seconds())
            .map(|at| (at, oracle.minute(at)))
            .skip(3 * 1440)
            .collect();
        let end = open.last().unwrap().0;
        let (middle, is_open) = open[open.len() / 2];
        prop_assert_eq!(calendar.is_open(middle), is_open);
        let mut next = None;
        for (at, is_open) in open.into_iter().rev() {
            if is_open {
                next = Some(at);
            }
            match (calendar.next_open(at), next) {
                (found, Some(_)) => prop_assert_eq!(found, next, "asked at {}", at),
                (Some(found), None) => prop_assert!(found > end, "asked at {}", at),
                (None, None) => {}
            }
        }
    }
}
