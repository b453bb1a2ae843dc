//! Weekly windows: worked cases, the day that a window belongs to, the texts of windows, and what is refused.

use jiff::{
    ToSpan,
    civil::{Date, Weekday, date},
    tz::TimeZone,
};
use plugin_sdk::testing::NOW;

use super::{at, calendar, local};
use crate::calendar::{Calendar, Error};

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
        serde_json::from_str(include_str!("../../../tests/data/calendar.json")).unwrap();
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
fn unknown_zones_and_reversed_freezes_are_refused_when_built() {
    assert!(matches!(
        Calendar::weekdays("Atlantis/Capital"),
        Err(Error::Zone { .. })
    ));
    for text in ["24.12.2026", "tomorrow", "2026-13-01"] {
        let refused = Calendar::builder("UTC").freeze(text, "2027-01-04", "x");
        let why = refused.build().unwrap_err().to_string();
        assert!(why.contains(text) && why.contains("2026-12-24"), "{why}");
        let refused = Calendar::builder("UTC").holiday(text, "x");
        assert!(refused.build().is_err());
    }
    let backwards = Calendar::builder("UTC").freeze(date(2026, 2, 2), date(2026, 2, 1), "x");
    assert!(matches!(backwards.build(), Err(Error::Freeze { .. })));
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
