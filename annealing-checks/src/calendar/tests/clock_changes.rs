//! Hours that a change of the clock skips or repeats.

use jiff::{
    ToSpan,
    civil::{Date, date},
};

use super::{at, calendar};
use crate::calendar::Calendar;

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
