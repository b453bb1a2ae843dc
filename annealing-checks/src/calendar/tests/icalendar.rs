//! Holidays and freezes from iCalendar files, and files that are refused.

use std::time::Duration;

use jiff::{Span, civil::date};
use plugin_sdk::{Recheck, testing::NOW};

use super::{at, check, request};
use crate::calendar::{Calendar, Error};

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
