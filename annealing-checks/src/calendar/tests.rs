//! Tests of the calendar: worked cases, comparison with an oracle that follows the clock minute by minute, edge cases.

use std::time::Duration;

use futures::executor::block_on;
use jiff::{
    Span, Timestamp, ToSpan,
    civil::{Date, DateTime, Weekday, date},
    tz::TimeZone,
};
use plugin_sdk::{
    Cause, Causes, CheckPlugin, CheckRequest, Recheck, Verdict,
    service::{Proceed, stack},
    testing::{self, NOW, Thing},
};
use prodspec_model::Message;
use proptest::prelude::*;
use tower::Layer;

use super::*;
use crate::Types;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn local(zone: &str, text: &str) -> Timestamp {
    let civil: DateTime = text.parse().unwrap();
    civil.in_tz(zone).unwrap().timestamp()
}

fn calendar(zone: &str, windows: &str) -> Calendar {
    Calendar::builder(zone).weekly(windows).build().unwrap()
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    zone: String,
    window: String,
    day: Option<Date>,
    elapsed_hours: Option<i64>,
    asked: Option<String>,
    next_open: Option<String>,
    open: Option<bool>,
}

#[test]
fn worked_cases() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../../tests/data/calendar.json")).unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let calendar = calendar(&case.zone, &case.window);
        if let (Some(day), Some(hours)) = (case.day, case.elapsed_hours) {
            let start = day.in_tz(&case.zone).unwrap().timestamp();
            let minutes = (0..36 * 60).map(|minute| start + (minute * 60).seconds());
            let end = day.tomorrow().unwrap().in_tz(&case.zone).unwrap();
            let open = minutes
                .filter(|at| *at < end.timestamp() && calendar.is_open(*at))
                .count();
            assert_eq!(open as i64, hours * 60, "{day}");
        }
        if let (Some(asked), Some(next)) = (&case.asked, &case.next_open) {
            let next = local(&case.zone, next);
            assert_eq!(calendar.next_open(local(&case.zone, asked)), Some(next));
        }
        if let (Some(asked), Some(open)) = (&case.asked, case.open) {
            let days = [("Fri", "2026-06-05"), ("Sat", "2026-06-06")];
            let (name, date) = days
                .iter()
                .find(|(name, _)| asked.starts_with(name))
                .unwrap();
            let asked = asked.replace(name, date).replace(' ', "T");
            assert_eq!(calendar.is_open(local(&case.zone, &asked)), open, "{asked}");
        }
    }
}

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

#[test]
fn opening_time_in_a_gap_opens_at_the_end_of_the_gap() {
    let calendar = calendar("America/New_York", "Sun 02:15-05:00");
    assert_eq!(
        calendar.next_open(at("2026-03-08T06:00Z")),
        Some(at("2026-03-08T07:00Z"))
    );
    assert!(!calendar.is_open(at("2026-03-08T06:59:59.999999999Z")));
}

#[test]
fn repeated_hour_counts_once_at_its_first_occurrence() {
    let calendar = calendar("America/New_York", "Sun 01:15-01:45");
    assert_eq!(
        calendar.next_open(at("2026-11-01T04:00Z")),
        Some(at("2026-11-01T05:15Z"))
    );
    assert!(
        !calendar.is_open(at("2026-11-01T06:30Z")),
        "the second 01:30"
    );
}

/// Number of open minutes in the two days from the start of `day`.
fn open_minutes(calendar: &Calendar, zone: &str, day: Date) -> usize {
    let start = day.in_tz(zone).unwrap().timestamp();
    let minutes = (0..48 * 60).map(|minute| start + (minute * 60).seconds());
    minutes.filter(|at| calendar.is_open(*at)).count()
}

#[test]
fn window_that_ends_with_the_repeated_hour_counts_it_once() {
    // In Zurich 02:00-03:00 is repeated, in New York 01:00-02:00, in São Paulo 23:00-24:00.
    let (zurich, new_york) = ("Europe/Zurich", "America/New_York");
    let sao_paulo = "America/Sao_Paulo";
    let in_zurich = |windows, minutes| (zurich, date(2026, 10, 25), windows, minutes);
    let in_new_york = |windows, minutes| (new_york, date(2026, 11, 1), windows, minutes);
    for (zone, day, windows, minutes) in [
        in_zurich("Sun 02:00-03:00", 60),
        in_zurich("Sun 02:15-02:45", 30),
        in_zurich("Sun 01:00-03:00", 120),
        // This window continues after the repeated hour, so both occurrences are open.
        in_zurich("Sun 02:00-03:01", 121),
        in_zurich("Sun 02:30-04:00", 150),
        in_zurich("Sun 02:00-03:00, 03:00-04:00", 180),
        in_zurich("Sun 03:00-04:00", 60),
        in_zurich("Sun 02:00-02:30, 03:00-04:00", 90),
        in_new_york("Sun 01:00-02:00", 60),
        in_new_york("Sun 01:00-03:00", 180),
        in_new_york("Sun 02:00-03:00", 60),
        (sao_paulo, date(2018, 2, 17), "Sat 22:00-24:00", 120),
        (
            sao_paulo,
            date(2018, 2, 17),
            "Sat 22:00-24:00,00:00-01:00",
            180,
        ),
        (
            sao_paulo,
            date(2018, 2, 17),
            "Sat,Sun 00:00-24:00",
            25 * 60 + 23 * 60,
        ),
    ] {
        let calendar = calendar(zone, windows);
        assert_eq!(
            open_minutes(&calendar, zone, day),
            minutes,
            "{zone} {windows}"
        );
    }
    let opens = calendar(zurich, "Sun 02:00-03:00").next_open(at("2026-10-24T00:00Z"));
    assert_eq!(
        opens,
        Some(at("2026-10-25T00:00Z")),
        "at the first occurrence"
    );
}

#[test]
fn calendar_without_windows_is_open_through_a_repeated_midnight() {
    let always = Calendar::builder("America/Sao_Paulo").build().unwrap();
    assert_eq!(
        open_minutes(&always, "America/Sao_Paulo", date(2018, 2, 17)),
        48 * 60
    );
}

#[test]
fn freeze_includes_both_occurrences_of_the_hour_it_ends_with() {
    let (from, until) = (
        date(2026, 10, 25).at(2, 0, 0, 0),
        date(2026, 10, 25).at(3, 0, 0, 0),
    );
    let calendar = Calendar::builder("Europe/Zurich").freeze(from, until, "x");
    let calendar = calendar.build().unwrap();
    assert_eq!(
        calendar.next_open(at("2026-10-25T00:00Z")),
        Some(at("2026-10-25T02:00Z"))
    );
}

#[test]
fn window_belongs_to_the_day_on_which_it_opens() {
    let holiday = |date| {
        Calendar::builder("UTC")
            .weekly("Fri 18:00-04:00")
            .holiday(date, "off")
            .build()
            .unwrap()
    };
    let saturday_night = at("2026-06-06T02:00Z");
    assert!(!holiday(date(2026, 6, 5)).is_open(saturday_night));
    assert!(holiday(date(2026, 6, 6)).is_open(saturday_night));
}

#[test]
fn window_texts_are_parsed_or_refused() {
    let open = |windows: &str, at: &str| calendar("UTC", windows).is_open(self::at(at));
    // 2026-06-05 is a Friday.
    assert!(open(
        "mon-fri 09:00-12:00, 13:00-17:00",
        "2026-06-05T11:59Z"
    ));
    assert!(!open(
        "Mon-Fri 09:00-12:00, 13:00-17:00",
        "2026-06-05T12:00Z"
    ));
    assert!(open(
        "Mon-Fri 09:00-12:00, 13:00-17:00",
        "2026-06-05T13:00Z"
    ));
    assert!(open("Fri-Mon 00:00-24:00", "2026-06-07T23:59Z"));
    assert!(!open("Fri-Mon 00:00-24:00", "2026-06-09T00:00Z"));
    assert!(open("Tue,Fri 10:00-11:00", "2026-06-05T10:00Z"));
    assert!(open("daily 00:00-00:00", "2026-06-05T10:00Z"));
    for wrong in [
        "",
        "Mon",
        "Mon 9-17",
        "Mon 09:00",
        "Mon 24:00-25:00",
        "Mon 09:60-10:00",
        "Noday 09:00-10:00",
        "Mon- 09:00-10:00",
        "Mon 09:00-10:00,",
    ] {
        let built = Calendar::builder("UTC").weekly(wrong).build();
        assert!(matches!(built, Err(Error::Window { .. })), "{wrong}");
    }
}

#[test]
fn calendar_without_windows_closes_for_freezes_and_holidays_only() {
    let calendar = Calendar::builder("UTC")
        .freeze(date(2026, 6, 5), date(2026, 6, 7), "launch")
        .freeze(date(2026, 6, 6), date(2026, 6, 8), "launch again")
        .holiday(date(2026, 6, 8), "after the launch")
        .build()
        .unwrap();
    assert!(calendar.is_open(at("2026-06-04T23:59:59Z")));
    assert_eq!(
        calendar.next_open(at("2026-06-05T00:00Z")),
        Some(at("2026-06-09T00:00Z"))
    );
}

#[test]
fn unknown_zones_and_reversed_freezes_are_refused_when_built() {
    assert!(matches!(
        Calendar::weekdays("Atlantis/Capital"),
        Err(Error::Zone { .. })
    ));
    let backwards = Calendar::builder("UTC").freeze(date(2026, 2, 2), date(2026, 2, 1), "x");
    assert!(matches!(backwards.build(), Err(Error::Freeze { .. })));
}

#[test]
fn first_and_last_instants_do_not_panic() {
    let strange = Calendar::builder("America/New_York")
        .weekly("Mon 23:00-22:00")
        .freeze(Date::MIN, date(1, 1, 1), "before")
        .freeze(date(9000, 1, 1), Date::MAX, "after")
        .build()
        .unwrap();
    for calendar in [
        Calendar::weekdays("Pacific/Apia").unwrap(),
        Calendar::builder("Asia/Kathmandu").build().unwrap(),
        strange,
    ] {
        for edge in [Timestamp::MIN, Timestamp::MAX] {
            let next = calendar.next_open(edge);
            assert!(next.is_none_or(|next| next >= edge && calendar.is_open(next)));
        }
    }
    let always = Calendar::builder("UTC").build().unwrap();
    assert!(always.is_open(Timestamp::MIN));
}

#[test]
fn long_freeze_is_skipped_without_examining_each_day() {
    let weekdays = || Calendar::builder("Europe/Zurich").weekly("Mon-Fri 09:00-17:00");
    let start = date(2026, 1, 1);
    for (until, next) in [
        (date(2026, 12, 31), Some("2026-12-31T09:00+01:00")),
        (date(3026, 1, 1), Some("3026-01-02T09:00+01:00")),
        (Date::MAX, None),
    ] {
        let calendar = weekdays().freeze(start, until, "a freeze").build().unwrap();
        let (found, days) = calendar.search(NOW);
        let opens = found.next_open(NOW).map(|(opens, _)| opens);
        assert_eq!(opens, next.map(at), "{until}");
        assert!(days <= 10, "{until}: {days} days were examined");
    }
}

#[test]
fn answer_is_searched_for_once_while_it_holds() {
    let calendar = Calendar::builder("UTC")
        .weekly("daily 09:00-17:00")
        .freeze(
            date(2026, 6, 5).at(15, 0, 0, 0),
            date(2026, 6, 5).at(16, 0, 0, 0),
            "x",
        )
        .build()
        .unwrap();
    // The requested time, the next open time, and the number of searches so far.
    for (asked, next, searches) in [
        ("2026-06-05T06:00Z", "2026-06-05T09:00Z", 1),
        ("2026-06-05T08:59:59Z", "2026-06-05T09:00Z", 1),
        ("2026-06-05T09:00Z", "2026-06-05T09:00Z", 2),
        ("2026-06-05T14:59:59Z", "2026-06-05T14:59:59Z", 2),
        ("2026-06-05T15:00Z", "2026-06-05T16:00Z", 3),
        // The clock is set back: answers for later times do not apply.
        ("2026-06-05T08:00Z", "2026-06-05T09:00Z", 4),
        ("2026-06-05T07:00Z", "2026-06-05T09:00Z", 5),
        ("2026-06-05T08:30Z", "2026-06-05T09:00Z", 5),
        // The clock jumps ahead.
        ("2026-09-05T18:00Z", "2026-09-06T09:00Z", 6),
    ] {
        assert_eq!(
            calendar.next_open(at(asked)),
            Some(at(next)),
            "asked at {asked}"
        );
        assert_eq!(calendar.last.searches(), searches, "asked at {asked}");
    }
}

#[test]
fn freeze_without_an_end_is_reported_and_searched_for_once() {
    for zone in ["Pacific/Kiritimati", "UTC", "Pacific/Niue"] {
        let calendar = Calendar::builder(zone).freeze(date(2026, 1, 1), Date::MAX, "wound up");
        let calendar = calendar.build().unwrap();
        for hours in 0..1_000 {
            let verdict = check(&calendar, request(NOW + hours.hours()));
            let delay = &verdict.delays[0];
            let why =
                "frozen: wound up, without an end; it never opens again: correct the calendar";
            assert_eq!(delay.reason, why);
            assert_eq!(delay.evidence["next_open"], serde_json::Value::Null);
            assert_eq!(delay.recheck, Recheck::After(Duration::from_secs(86_400)));
        }
        assert_eq!(calendar.last.searches(), 1, "{zone}");
        assert_eq!(
            calendar.next_open(at("2025-12-31T00:00Z")),
            Some(at("2025-12-31T00:00Z"))
        );
    }
}

#[test]
fn each_freeze_and_holiday_is_examined_once() {
    let mut builder = Calendar::builder("UTC").weekly("Mon-Fri 09:00-17:00");
    for week in 0..500i64 {
        let monday = date(2026, 3, 2) + (week * 7).days();
        builder = builder
            .freeze(monday, monday + 4.days(), "release week")
            .holiday(monday + 4.days(), "day after");
    }
    let calendar = builder.build().unwrap();
    let (found, days) = calendar.search(NOW);
    let opens = found.next_open(NOW).map(|(opens, _)| opens);
    assert_eq!(
        opens,
        Some(
            (date(2026, 3, 2) + (500 * 7).days())
                .at(9, 0, 0, 0)
                .in_tz("UTC")
                .unwrap()
                .timestamp()
        )
    );
    assert!(days <= 500 * 6, "{days} days were examined");
}

fn ics(events: &str) -> String {
    let events = events.replace('|', "\r\n");
    format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n{events}\r\nEND:VCALENDAR\r\n")
}

fn event(body: &str) -> String {
    format!("BEGIN:VEVENT|UID:1|DTSTAMP:20260101T000000Z|{body}|END:VEVENT")
}

fn with_ics(text: &str) -> Result<Calendar, Error> {
    Calendar::builder("America/New_York")
        .icalendar(text)
        .build()
}

/// The days of `years` on which the calendar is closed at noon.
fn closed_days(body: &str, years: std::ops::Range<i16>) -> Vec<String> {
    let calendar = with_ics(&ics(&event(body))).unwrap();
    date(years.start, 1, 1)
        .series(Span::new().days(1))
        .take_while(|day| day.year() < years.end)
        .filter(|day| {
            let noon = day.at(12, 0, 0, 0).in_tz("America/New_York").unwrap();
            !calendar.is_open(noon.timestamp())
        })
        .map(|day| day.to_string())
        .collect()
}

#[test]
fn icalendar_days_are_holidays() {
    for (body, years, days) in [
        (
            "SUMMARY:One day|DTSTART;VALUE=DATE:20260704",
            2026..2028,
            vec!["2026-07-04"],
        ),
        (
            "DTSTART;VALUE=DATE:20261224|DTEND;VALUE=DATE:20261227",
            2026..2027,
            vec!["2026-12-24", "2026-12-25", "2026-12-26"],
        ),
        (
            "DTSTART;VALUE=DATE:20261231|DURATION:P2D",
            2026..2028,
            vec!["2026-12-31", "2027-01-01"],
        ),
        (
            "DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY",
            2025..2029,
            vec!["2026-12-25", "2027-12-25", "2028-12-25"],
        ),
        (
            "DTSTART;VALUE=DATE:20261231|DTEND;VALUE=DATE:20270102|RRULE:FREQ=YEARLY;COUNT=2",
            2026..2030,
            vec!["2026-12-31", "2027-01-01", "2027-12-31", "2028-01-01"],
        ),
        (
            "DTSTART;VALUE=DATE:20251127|RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH|EXDATE;VALUE=DATE:20261126",
            2025..2029,
            vec!["2025-11-27", "2027-11-25", "2028-11-23"],
        ),
        (
            "DTSTART;VALUE=DATE:20260525|RRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO;UNTIL=20280529",
            2026..2032,
            vec!["2026-05-25", "2027-05-31", "2028-05-29"],
        ),
        (
            "DTSTART;VALUE=DATE:20241105|RRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
            2024..2033,
            vec!["2024-11-05", "2028-11-07", "2032-11-02"],
        ),
        (
            "DTSTART;VALUE=DATE:20240229|RRULE:FREQ=YEARLY",
            2024..2030,
            vec!["2024-02-29", "2028-02-29"],
        ),
        (
            "STATUS:CANCELLED|DTSTART;VALUE=DATE:20260704",
            2026..2027,
            vec![],
        ),
    ] {
        assert_eq!(closed_days(body, years), days, "{body}");
    }
}

#[test]
fn icalendar_times_are_freezes() {
    for start_and_end in [
        "DTSTART:20260601T140000Z|DTEND:20260601T160000Z",
        "DTSTART;TZID=America/New_York:20260601T100000|DTEND;TZID=Europe/Zurich:20260601T180000",
        "DTSTART:20260601T100000|DURATION:PT2H",
    ] {
        let calendar = with_ics(&ics(&event(start_and_end))).unwrap();
        assert!(calendar.is_open(at("2026-06-01T13:59:59Z")));
        assert_eq!(
            calendar.next_open(at("2026-06-01T14:00Z")),
            Some(at("2026-06-01T16:00Z")),
            "{start_and_end}"
        );
    }
}

#[test]
fn icalendar_event_until_the_last_day_has_no_end() {
    for end in ["99991231T000000", "99991231T235959Z"] {
        let body = format!("DTSTART:20260601T140000Z|DTEND:{end}");
        let calendar = with_ics(&ics(&event(&body))).unwrap();
        assert_eq!(calendar.next_open(at("2026-06-01T14:00Z")), None, "{end}");
    }
}

#[test]
fn icalendar_that_is_not_understood_is_refused() {
    let day = "DTSTART;VALUE=DATE:20260704";
    let mut texts: Vec<String> = [
        "SUMMARY:no start",
        "DTSTART;VALUE=DATE:20260732",
        "DTSTART:20260601T140000Z|DTEND:later",
        "DTSTART;TZID=Atlantis/Capital:20260601T100000",
        "DTSTART:20260601T140000Z|DTEND:20260601T160000Z|RRULE:FREQ=YEARLY",
        "DTSTART;VALUE=DATE:20260704|DTEND;VALUE=DATE:20290704",
        "DTSTART;VALUE=DATE:20260704|DTEND;VALUE=DATE:20260704",
        "DTSTART;VALUE=DATE:20260704|RDATE;VALUE=DATE:20260705",
    ]
    .map(|body| ics(&event(body)))
    .to_vec();
    for rule in [
        "FREQ=WEEKLY",
        "FREQ=YEARLY;BYWEEKNO=20",
        "FREQ=YEARLY;BYDAY=MO",
        "FREQ=YEARLY;BYMONTH=13",
        "FREQ=YEARLY;BYMONTH=5;BYDAY=9MO",
        "FREQ=YEARLY;COUNT=0",
        "FREQ=YEARLY;COUNT=4000000000",
        "FREQ=YEARLY;INTERVAL=0",
        "BYMONTH=5",
        "",
    ] {
        texts.push(ics(&event(&format!("{day}|RRULE:{rule}"))));
    }
    let whole = ics(&event(day));
    texts.push(whole.trim_end_matches("END:VCALENDAR\r\n").to_owned());
    texts.push("hello".to_owned());
    texts.push(String::new());
    for text in texts {
        let built = with_ics(&text);
        assert!(matches!(built, Err(Error::ICalendar { .. })), "{text}");
    }
}

#[test]
fn calendar_that_never_opens_is_checked_again_daily() {
    let every = "RRULE:FREQ=YEARLY;BYMONTHDAY=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31";
    let text = ics(&event(&format!("DTSTART;VALUE=DATE:20200101|{every}")));
    let calendar = with_ics(&text).unwrap();
    assert_eq!(calendar.next_open(NOW), None);
    let verdict = check(&calendar, request(NOW));
    assert_eq!(
        verdict.delays[0].recheck,
        Recheck::After(Duration::from_secs(86_400))
    );
}

fn request(now: Timestamp) -> CheckRequest {
    CheckRequest {
        now,
        ..testing::check_request(&testing::asset("job/eu"))
    }
}

fn check(calendar: &Calendar, request: CheckRequest) -> Verdict {
    block_on(calendar.check(request)).unwrap()
}

#[test]
fn delay_names_the_reason_and_the_next_opening() {
    let calendar = Calendar::builder("America/New_York")
        .weekly("Mon-Fri 09:00-17:00")
        .holiday(date(2026, 11, 26), "Thanksgiving")
        .freeze(date(2026, 11, 27), date(2026, 11, 28), "Black Friday")
        .build()
        .unwrap();
    for (now, why) in [
        ("2026-11-26T15:00Z", "closed: Thanksgiving"),
        ("2026-11-27T15:00Z", "frozen: Black Friday"),
        ("2026-11-28T15:00Z", "outside the weekly windows"),
    ] {
        let verdict = check(&calendar, request(at(now)));
        let delay = &verdict.delays[0];
        assert_eq!(delay.recheck, Recheck::At(at("2026-11-30T14:00Z")));
        assert_eq!(
            delay.reason,
            format!("{why}; opens 2026-11-30T09:00:00-05:00[America/New_York] (Mon 09:00-17:00)")
        );
        assert_eq!(
            delay.evidence["next_open"]["at"],
            "2026-11-30T09:00:00-05:00[America/New_York]"
        );
    }
    assert!(check(&calendar, request(at("2026-11-30T14:00Z"))).is_proceed());
}

#[test]
fn calendar_applies_to_assets_of_its_types_only() {
    let calendar = |types| {
        let builder = Calendar::builder("UTC").freeze(date(2000, 1, 1), date(3000, 1, 1), "x");
        builder.types(types).build().unwrap()
    };
    let other = calendar(Types::only(["db.v1.Schema"]));
    let this = calendar(Types::only(["db.v1.Schema", Thing::TYPE]));
    assert!(check(&other, request(NOW)).is_proceed());
    assert!(!check(&this, request(NOW)).is_proceed());
    let unreadable = CheckRequest {
        reader: Default::default(),
        ..request(NOW)
    };
    assert!(
        !check(&other, unreadable).is_proceed(),
        "an asset of unknown type waits"
    );
}

#[test]
fn r6_calendar_applies_to_intent_only_by_default() {
    let closed = || Calendar::builder("UTC").freeze(date(2000, 1, 1), date(3000, 1, 1), "x");
    let blocked = |calendar: CalendarBuilder| {
        let layer = CalendarLayer::new(calendar.build().unwrap());
        let checks = stack(layer.layer(Proceed));
        let causes = [
            Cause::Intent,
            Cause::Drift,
            Cause::Rollback,
            Cause::Emergency,
        ];
        causes.map(|cause| {
            let request = CheckRequest {
                cause,
                ..request(NOW)
            };
            !block_on(checks.call(request)).unwrap().is_proceed()
        })
    };
    assert_eq!(blocked(closed()), [true, false, false, false]);
    let strict = closed().causes(Causes::of(&[Cause::Intent, Cause::Drift]));
    assert_eq!(blocked(strict), [true, true, false, false]);
}

#[test]
fn windows_name_their_day_of_the_week() {
    let names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    for (name, day) in names.iter().zip(Weekday::Monday.cycle_forward()) {
        let text = format!("{name} 09:00-17:00");
        let opening = calendar("UTC", &text).next_opening(NOW).unwrap();
        assert_eq!(opening.window, text);
        assert_eq!(TimeZone::UTC.to_datetime(opening.at).weekday(), day);
    }
}
