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
fn icalendar_exceptions_additions_and_replacements_are_read() {
    for (body, years, days) in [
        (
            "DTSTART;VALUE=DATE:20260704|DTEND;VALUE=DATE:20260704",
            2026..2027,
            vec!["2026-07-04"],
        ),
        (
            "DTSTART;VALUE=DATE:20260704|DURATION:P1W|EXDATE:20260704",
            2026..2027,
            vec![],
        ),
        (
            "DTSTART:20260704|RRULE:FREQ=YEARLY;COUNT=1|RDATE:20260706,20260708|RDATE:20260710|EXDATE:20260708",
            2026..2028,
            vec!["2026-07-04", "2026-07-06", "2026-07-10"],
        ),
        // In Auckland the rule ends on 5 July.
        (
            "DTSTART;VALUE=DATE:20260705|RRULE:FREQ=YEARLY;UNTIL=20270704T120000Z",
            2026..2030,
            vec!["2026-07-05", "2027-07-05"],
        ),
        (
            "DTSTART;VALUE=DATE:20260704|RRULE:FREQ=YEARLY|END:VEVENT|BEGIN:VEVENT|UID:1|RECURRENCE-ID;VALUE=DATE:20270704|DTSTART;VALUE=DATE:20270706|END:VEVENT|BEGIN:VEVENT|UID:1|STATUS:CANCELLED|RECURRENCE-ID;VALUE=DATE:20280704|DTSTART;VALUE=DATE:20280704",
            2026..2030,
            vec!["2026-07-04", "2027-07-06", "2029-07-04"],
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

/// Events that are refused.
const REFUSED: &[&str] = &[
    "SUMMARY:no start",
    "DTSTART;VALUE=DATE:20260732",
    "DTSTART:20260601T140000Z|DTEND:later",
    "DTSTART;TZID=Atlantis/Capital:20260601T100000",
    "DTSTART:20260601T140000Z|DTEND:20260601T160000Z|RRULE:FREQ=YEARLY",
    "DTSTART;VALUE=DATE:20260704|DTEND;VALUE=DATE:20290704",
    "DTSTART;VALUE=DATE:20260704|DTEND;VALUE=DATE:20260703",
    "DTSTART:20260601T140000Z|DTEND:20260601T135959Z",
    "DTSTART:20260601T140000Z|DTEND;VALUE=DATE:20260602",
    "DTSTART;VALUE=DATE:20260704|DTEND:20260705T000000Z",
    "DTSTART;VALUE=DATE:20260704|DTEND;VALUE=DATE:20260705|DURATION:P1D",
    "DTSTART;VALUE=DATE:20260704|DURATION:PT24H",
    "DTSTART;VALUE=DATE:20260704|DURATION:P1M",
    "DTSTART;VALUE=DATE:20260704|DURATION:-P1D",
    "DTSTART;VALUE=DATE:20260704|DURATION:P0D",
    "DTSTART:20260601T140000Z|DURATION:P1WT1H",
    "DTSTART:20260601T140000Z|DURATION:P2H",
    "DTSTART:20260601T140000Z|DURATION:PT",
    "DTSTART;VALUE=PERIOD:20260601T140000Z",
    "DTSTART;VALUE=DATE-TIME:20260704",
    "DTSTART;VALUE=DATE:2026-07-04",
    "DTSTART;VALUE=DATE;VALUE=DATE:20260704",
    "DTSTART:20260601T140000ZZ",
    "DTSTART:20260601T1400",
    "DTSTART;VALUE=DATE:20260704|RRULE:FREQ=YEARLY|EXDATE:20270704T000000",
    "DTSTART;VALUE=DATE:20260704|RDATE;VALUE=PERIOD:20260705T000000Z/P1D",
    "DTSTART;VALUE=DATE:20260704|EXRULE:FREQ=YEARLY",
    "DTSTART;VALUE=DATE:20260704|RRULES:FREQ=YEARLY",
    "DTSTART;VALUE=DATE:20260704|RECURRENCE-ID:20260704T000000",
    "DTSTART;VALUE=DATE:20260704|RECURRENCE-ID;RANGE=THISANDFUTURE;VALUE=DATE:20260704",
    "DTSTART;VALUE=DATE:20260704|no property",
    "DTSTART;VALUE:20260704",
    "DTSTART;TZID=\"Europe/Zurich:20260601T100000",
    "DTSTART;VALUE=DATE:20260704|X-\u{7}:1",
];

#[test]
fn icalendar_that_is_not_understood_is_refused() {
    let day = "DTSTART;VALUE=DATE:20260704";
    let events = REFUSED.iter().map(|body| ics(&event(body)));
    let mut texts: Vec<String> = events.collect();
    for rule in [
        "FREQ=WEEKLY",
        "FREQ=YEARLY;BYWEEKNO=20",
        "FREQ=YEARLY;BYDAY=MO",
        "FREQ=YEARLY;BYMONTH=13",
        "FREQ=YEARLY;BYMONTH=5;BYDAY=9MO",
        "FREQ=YEARLY;COUNT=0",
        "FREQ=YEARLY;COUNT=4000000000",
        "FREQ=YEARLY;INTERVAL=0",
        "FREQ=YEARLY;FREQ=YEARLY",
        "FREQ=YEARLY;COUNT=2;UNTIL=20280704",
        "FREQ=YEARLY;UNTIL=20280704T",
        "FREQ=YEARLY;",
        "BYMONTH=5",
        "",
    ] {
        texts.push(ics(&event(&format!("{day}|RRULE:{rule}"))));
    }
    let whole = ics(&event(day));
    texts.push(whole.trim_end_matches("END:VCALENDAR\r\n").to_owned());
    texts.push("hello".to_owned());
    texts.push("BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20260704\r\nEND:VEVENT\r\n".to_owned());
    for (known, other) in [
        ("VERSION:2.0", "VERSION:1.0"),
        ("VERSION:2.0", "METHOD:CANCEL"),
        ("VERSION:2.0", "CALSCALE:HEBREW"),
        ("VEVENT", "VTODO"),
        ("END:VEVENT", "END:VALARM"),
        ("END:VEVENT", "END:VEVENT\r\nEND:VEVENT"),
        ("END:VCALENDAR", "END:VCALENDAR\r\nDTSTART:1"),
    ] {
        texts.push(whole.replace(known, other));
    }
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

/// A calendar with all that is read.
fn everything() -> String {
    let events = [
        "UID:1|SUMMARY;LANGUAGE=en:One\\, two|DTSTART;VALUE=DATE:20260704|DTEND;VALUE=DATE:20260706|RRULE:FREQ=YEARLY;BYMONTH=7;BYDAY=1SA;UNTIL=20300101|EXDATE;VALUE=DATE:20270703|RDATE;VALUE=DATE:20260801",
        "UID:2|SUMMARY:Gone|STATUS:CANCELLED|DTSTART;VALUE=DATE:20260710",
        "UID:3|SUMMARY:Move|STATUS:CONFIRMED|DTSTART;TZID=Europe/Zurich;VALUE=DATE-TIME:20260901T100000|DURATION:P1DT2H30M",
        "UID:1|RECURRENCE-ID;VALUE=DATE:20280701|DTSTART;VALUE=DATE:20280705|DURATION:P2D|TRANSP:OPAQUE",
        "UID:5|DTSTART:20261001T140000Z|DTEND:20261001T160000Z|X-NOTE;X-A=\"b:c\":d|BEGIN:VALARM|ACTION:DISPLAY|TRIGGER:-PT1H|END:VALARM",
    ];
    let events = events
        .map(|body| format!("BEGIN:VEVENT|{body}|END:VEVENT"))
        .join("|");
    let zone = "BEGIN:VTIMEZONE|TZID:Europe/Zurich|BEGIN:STANDARD|DTSTART:19701025T030000|RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10|TZOFFSETFROM:+0200|TZOFFSETTO:+0100|END:STANDARD|END:VTIMEZONE";
    ics(&format!(
        "CALSCALE:GREGORIAN|METHOD:PUBLISH|{zone}|{events}"
    ))
}

/// When a calendar is closed, whatever its names are.
fn closed(calendar: &Calendar) -> Vec<bool> {
    let hours = (0..3 * 365 * 24)
        .map(|hour| at("2026-06-01T00:30Z") + jiff::SignedDuration::from_hours(hour));
    hours.map(|hour| calendar.is_open(hour)).collect()
}

/// Checks that a text is read as `expected`, or refused.
fn same_or_refused(text: &str, expected: &[bool]) {
    if let Ok(calendar) = with_ics(text) {
        assert_eq!(closed(&calendar), expected, "{text}");
    }
}

#[test]
fn icalendar_means_the_same_in_any_case() {
    let text = everything();
    let expected = closed(&with_ics(&text).unwrap());
    for other in [text.to_ascii_lowercase(), text.to_ascii_uppercase()] {
        assert_eq!(closed(&with_ics(&other).unwrap()), expected);
    }
    for (at, line) in text.lines().enumerate() {
        let other = line.to_ascii_lowercase();
        let lines = text.lines().enumerate();
        let lines = lines.map(|(nth, line)| if nth == at { other.as_str() } else { line });
        let text = lines.collect::<Vec<_>>().join("\n");
        let calendar = with_ics(&text);
        assert_eq!(closed(&calendar.unwrap()), expected, "{line}");
    }
}

#[test]
fn icalendar_with_repeated_or_misplaced_lines_means_the_same_or_is_refused() {
    let text = everything();
    let expected = closed(&with_ics(&text).unwrap());
    let lines: Vec<&str> = text.lines().collect();
    for at in 0..lines.len() {
        let with = |middle: &[&str]| {
            let all = [&lines[..at], middle, &lines[at + 1..]].concat();
            all.join("\r\n") + "\r\n"
        };
        let line = lines[at];
        same_or_refused(&with(&[line, line]), &expected);
        for component in ["X-OTHER", "VTODO", "VALARM", "DAYLIGHT"] {
            let (begin, end) = (format!("BEGIN:{component}"), format!("END:{component}"));
            same_or_refused(&with(&[&begin, line, &end]), &expected);
        }
        // Folded after its first character, and with the line ends of other systems.
        let (head, tail) = line.split_at(1);
        let folded = with(&[head, &format!(" {tail}")]);
        assert_eq!(closed(&with_ics(&folded).unwrap()), expected, "{line}");
        if at > 0 {
            let cut = lines[..at].join("\r\n");
            assert!(with_ics(&cut).is_err(), "{cut}");
        }
    }
    let start = text.find("UID:3").unwrap();
    let whole = &text[text[..start].rfind("BEGIN:VEVENT").unwrap()..];
    let whole = &whole[..whole.find("END:VEVENT").unwrap() + "END:VEVENT\r\n".len()];
    for (begin, end) in [
        ("X-GROUP", "X-GROUP"),
        ("VALARM", "VALARM"),
        ("VTIMEZONE", "VTIMEZONE"),
    ] {
        let wrapped = format!("BEGIN:{begin}\r\n{whole}END:{end}\r\n");
        let refused = with_ics(&text.replace(whole, &wrapped));
        assert!(refused.is_err(), "{wrapped}");
    }
}

#[test]
fn all_problems_of_an_icalendar_come_in_one_refusal() {
    let events = [
        event("SUMMARY:First|DTSTART;VALUE=DATE:20261301"),
        event("SUMMARY:Good|DTSTART;VALUE=DATE:20261201"),
        event(
            "SUMMARY:Second|DTSTART;VALUE=DATE:20260704|dtstart;value=date:20260705|FOO:1|DTEND;VALUE=DATE:20260701",
        ),
        "BEGIN:VTODO|END:VTODO".to_owned(),
    ];
    let refused = with_ics(&ics(&events.join("|"))).unwrap_err();
    let expected = "the iCalendar text cannot be used: \
                    line 4: the event `First` has DTSTART:20261301, which is no date or time; \
                    line 16: the event `Second` has the property DTSTART once more in line 21; remove one; \
                    line 16: the event `Second` has the property FOO in line 22, which is not supported; \
                    line 16: the event `Second` ends before it begins; \
                    line 25: `BEGIN:VTODO` is not supported here; remove the component; \
                    correct it, or list its days one by one";
    assert_eq!(refused.to_string(), expected);
}

proptest::proptest! {
    #[test]
    fn any_icalendar_text_is_read_or_refused_without_a_panic(
        lines in proptest::collection::vec((0_usize..60, "[-:;,=\"A-Za-z0-9 \\\\T]{0,6}", 0_usize..40), 0..12)
    ) {
        let mut text: Vec<String> = everything().lines().map(str::to_owned).collect();
        for (line, put, at) in lines {
            let line = line % text.len();
            let at = at.min(text[line].len());
            text[line].insert_str(at, &put);
        }
        let _ = with_ics(&text.join("\n"));
    }
}
