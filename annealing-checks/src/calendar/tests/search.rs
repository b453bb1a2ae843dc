//! The search for the next opening: freezes and holidays are skipped at once, and an answer is kept while it holds.

use std::time::Duration;

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, date},
};
use plugin_sdk::{Recheck, testing::NOW};

use super::{at, check, request};
use crate::calendar::Calendar;

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
